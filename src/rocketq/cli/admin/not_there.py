"""Sub-commands of RocketMQ's for what does not exist here; each says so in one line.

They are listed so that nobody looks for them in vain. Static topics pin logical queues to brokers
by a table in every broker; RocksDB is another way for Java brokers to keep queues and tables.
"""

from typing import Annotated, Final

from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report, command
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

_STATIC: Final = "static topics are not there: no broker of this package has their tables"
_ROCKSDB: Final = "is for brokers that keep queues or tables in RocksDB; here they are in files"

Text = Annotated[str | None, Option("-t", "--topic", metavar="TOPIC", hidden=True)]
Path = Annotated[str | None, Option("-p", "--path", metavar="PATH", hidden=True)]


@command("updateStaticTopic")
async def update_static_topic(api: BrokerApi, topic: Text = None) -> Report:
    """Update or create static topic, which has fixed number of queues. Not there."""
    raise AdminError(_STATIC)


@command("remappingStaticTopic")
async def remapping_static_topic(api: BrokerApi, topic: Text = None) -> Report:
    """Remapping static topic. Not there."""
    raise AdminError(_STATIC)


@command("exportMetadataInRocksDB")
async def export_metadata_in_rocksdb(api: BrokerApi, path: Path = None) -> Report:
    """Export RocksDB kv config (topics/subscriptionGroups). Not there."""
    raise AdminError(f"it {_ROCKSDB}; use exportMetadata")


@command("rocksDBConfigToJson")
async def rocksdb_config_to_json(api: BrokerApi, path: Path = None) -> Report:
    """Convert RocksDB kv config to json. Not there."""
    raise AdminError(f"it {_ROCKSDB}; use exportMetadata")


@command("checkRocksdbCqWriteProgress")
async def check_rocksdb_cq_write_progress(api: BrokerApi, topic: Text = None) -> Report:
    """Check if RocksDB cq is same as file cq. Not there."""
    raise AdminError(f"it {_ROCKSDB}")


@command("exportPopRecord")
async def export_pop_record(api: BrokerApi, topic: Text = None) -> Report:
    """Export pop consumer record. Not there."""
    raise AdminError(f"it {_ROCKSDB}: pops are in the revive log")
