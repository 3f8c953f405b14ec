"""Administration of a broker: messages, consumers, statistics, store."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessage(RequestHeader):
    """Looks messages up by key."""

    CODE: ClassVar = RequestCode.QUERY_MESSAGE

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    unique_key: bool | None = field(default=None, metadata=wire("_UNIQUE_KEY_QUERY"))
    index_type: str | None = None
    last_key: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponse(ResponseHeader):
    """How far the index has come."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageById(RequestHeader):
    """Asks for the message at an offset of the commit log."""

    CODE: ClassVar = RequestCode.VIEW_MESSAGE_BY_ID

    offset: int
    topic: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfigResponse(ResponseHeader):
    """The version of the configuration, a DataVersion in JSON."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnectionList(RequestHeader):
    """Asks who consumes in a group."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_CONNECTION_LIST

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnectionList(RequestHeader):
    """Asks who produces in a group."""

    CODE: ClassVar = RequestCode.GET_PRODUCER_CONNECTION_LIST

    producer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStats(RequestHeader):
    """Asks how far a group is behind; `topic_list` is joined with `;`."""

    CODE: ClassVar = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConsumeStats(RequestHeader):
    """Asks the same for all groups."""

    CODE: ClassVar = RequestCode.GET_BROKER_CONSUME_STATS

    is_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset(RequestHeader):
    """Sets a group's offsets back to a time; -1 means the end."""

    CODE: ClassVar = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: int = -1
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatus(RequestHeader):
    """Asks the consumers of a group how far they have come."""

    CODE: ClassVar = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpan(RequestHeader):
    """Asks for the times of the first, the last and the next message of each queue."""

    CODE: ClassVar = RequestCode.QUERY_CONSUME_TIME_SPAN

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCorrectionOffset(RequestHeader):
    """Asks for the lowest offsets of other groups."""

    CODE: ClassVar = RequestCode.QUERY_CORRECTION_OFFSET

    topic: str
    compare_group: str
    filter_groups: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffset(RequestHeader):
    """Copies the offsets of one group to another."""

    CODE: ClassVar = RequestCode.CLONE_GROUP_OFFSET

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStatsData(RequestHeader):
    """Asks for one statistic."""

    CODE: ClassVar = RequestCode.VIEW_BROKER_STATS_DATA

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueue(RequestHeader):
    """Looks at the entries of a consume queue."""

    CODE: ClassVar = RequestCode.QUERY_CONSUME_QUEUE

    topic: str
    queue_id: int
    index: int
    count: int
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRocksdbCqWriteProgress(RequestHeader):
    """Asks whether the consume queues in RocksDB have caught up."""

    CODE: ClassVar = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS

    topic: str
    check_store_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRocksdbConfigToJson(RequestHeader):
    """Has tables kept in RocksDB written as JSON."""

    CODE: ClassVar = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON

    config_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCommitLogReadMode(RequestHeader):
    """Tells the system whether to read the log ahead: 0 normal, 1 random."""

    CODE: ClassVar = RequestCode.SET_COMMITLOG_READ_MODE

    read_ahead_mode: int = field(metadata=wire("READ_AHEAD_MODE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTimerEngine(RequestHeader):
    """Chooses where waiting messages are kept: `R` RocksDB, `F` files."""

    CODE: ClassVar = RequestCode.SWITCH_TIMER_ENGINE

    engine_type: str = field(metadata=wire("E_T"))
