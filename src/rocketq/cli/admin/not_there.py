"""Sub-commands of RocketMQ's for what does not exist here; each says so in one line.

They are listed so that nobody looks for them in vain. Static topics pin logical queues to brokers
by a table in every broker; RocksDB is another way for Java brokers to keep queues and tables, and
the only one for lite topics, of which one topic has any number.
"""

from typing import Final

from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report, command
from rocketq.cli.commands import takes_anything
from rocketq.client.cluster.rpc import BrokerApi

_STATIC: Final = "static topics are not there: no broker of this package has their tables"
_ROCKSDB: Final = "is for brokers that keep queues or tables in RocksDB; here they are in files"
_LITE: Final = "lite topics are not there"


@command("updateStaticTopic")
@takes_anything
async def update_static_topic(api: BrokerApi) -> Report:
    """Update or create static topic, which has fixed number of queues. Not there."""
    raise AdminError(_STATIC)


@command("remappingStaticTopic")
@takes_anything
async def remapping_static_topic(api: BrokerApi) -> Report:
    """Remapping static topic. Not there."""
    raise AdminError(_STATIC)


@command("exportMetadataInRocksDB")
@takes_anything
async def export_metadata_in_rocksdb(api: BrokerApi) -> Report:
    """Export RocksDB kv config (topics/subscriptionGroups). Not there."""
    raise AdminError(f"it {_ROCKSDB}; use exportMetadata")


@command("rocksDBConfigToJson")
@takes_anything
async def rocksdb_config_to_json(api: BrokerApi) -> Report:
    """Convert RocksDB kv config to json. Not there."""
    raise AdminError(f"it {_ROCKSDB}; use exportMetadata")


@command("checkRocksdbCqWriteProgress")
@takes_anything
async def check_rocksdb_cq_write_progress(api: BrokerApi) -> Report:
    """Check if RocksDB cq is same as file cq. Not there."""
    raise AdminError(f"it {_ROCKSDB}")


@command("exportPopRecord")
@takes_anything
async def export_pop_record(api: BrokerApi) -> Report:
    """Export pop consumer record. Not there."""
    raise AdminError(f"it {_ROCKSDB}: pops are in the revive log")


@command("switchTimerEngine")
@takes_anything
async def switch_timer_engine(api: BrokerApi) -> Report:
    """Switch the engine of timer message in broker. Not there."""
    raise AdminError(f"it {_ROCKSDB}: timers are in the timer log")


@command("getBrokerLiteInfo")
@takes_anything
async def get_broker_lite_info(api: BrokerApi) -> Report:
    """Get broker lite info. Not there."""
    raise AdminError(_LITE)


@command("getParentTopicInfo")
@takes_anything
async def get_parent_topic_info(api: BrokerApi) -> Report:
    """Get parent topic info. Not there."""
    raise AdminError(_LITE)


@command("getLiteTopicInfo")
@takes_anything
async def get_lite_topic_info(api: BrokerApi) -> Report:
    """Get lite topic info. Not there."""
    raise AdminError(_LITE)


@command("getLiteClientInfo")
@takes_anything
async def get_lite_client_info(api: BrokerApi) -> Report:
    """Get lite client info. Not there."""
    raise AdminError(_LITE)


@command("getLiteGroupInfo")
@takes_anything
async def get_lite_group_info(api: BrokerApi) -> Report:
    """Get lite group info. Not there."""
    raise AdminError(_LITE)


@command("triggerLiteDispatch")
@takes_anything
async def trigger_lite_dispatch(api: BrokerApi) -> Report:
    """Trigger lite dispatch. Not there."""
    raise AdminError(_LITE)
