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

# The name, what it is for in RocketMQ's words, and why it is not there.
_NOT_THERE: Final = (
    (
        "updateStaticTopic",
        "Update or create static topic, which has fixed number of queues.",
        _STATIC,
    ),
    ("remappingStaticTopic", "Remapping static topic.", _STATIC),
    (
        "exportMetadataInRocksDB",
        "Export RocksDB kv config (topics/subscriptionGroups).",
        f"it {_ROCKSDB}; use exportMetadata",
    ),
    (
        "rocksDBConfigToJson",
        "Convert RocksDB kv config to json.",
        f"it {_ROCKSDB}; use exportMetadata",
    ),
    ("checkRocksdbCqWriteProgress", "Check if RocksDB cq is same as file cq.", f"it {_ROCKSDB}"),
    (
        "exportPopRecord",
        "Export pop consumer record.",
        f"it {_ROCKSDB}: pops are in the revive log",
    ),
    (
        "switchTimerEngine",
        "Switch the engine of timer message in broker.",
        f"it {_ROCKSDB}: timers are in the timer log",
    ),
    ("getBrokerLiteInfo", "Get broker lite info.", _LITE),
    ("getParentTopicInfo", "Get parent topic info.", _LITE),
    ("getLiteTopicInfo", "Get lite topic info.", _LITE),
    ("getLiteClientInfo", "Get lite client info.", _LITE),
    ("getLiteGroupInfo", "Get lite group info.", _LITE),
    ("triggerLiteDispatch", "Trigger lite dispatch.", _LITE),
)


def _declare(name: str, purpose: str, why: str) -> None:
    async def not_there(api: BrokerApi) -> Report:
        raise AdminError(why)

    not_there.__doc__ = f"{purpose} Not there."
    command(name)(takes_anything(not_there))


for _row in _NOT_THERE:
    _declare(*_row)
