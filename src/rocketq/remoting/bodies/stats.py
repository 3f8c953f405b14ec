"""Statistics of topics, groups, queues and brokers."""

import time
from dataclasses import field
from typing import Any

from rocketq.common.light_dataclass import dataclass
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.body import Body, wire
from rocketq.remoting.bodies.heartbeat import SubscriptionData


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffset(Body):
    """The ends of one queue."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatsTable(Body):
    """The ends of a topic's queues."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWrapper(Body):
    """How far a group is behind in one queue."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats(Body):
    """How far a group is behind."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsList(Body):
    """How far all groups of a broker are behind."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimeSpan(Body):
    """When the first, the last and the next message of a queue were stored."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0

    def to_json(self) -> dict[str, Any]:
        """Java adds the times as text, in local time."""
        plain = super(QueueTimeSpan, self).to_json()  # noqa: UP008, slots
        for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp"):
            plain[f"{name}Str"] = time_text(plain[name])
        return dict(sorted(plain.items()))


def time_text(timestamp_ms: int) -> str:
    """Local time as `2023-11-14#22:13:20:000`."""
    seconds, ms = divmod(timestamp_ms, 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(seconds)) + f":{ms:03d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeTimeSpans(Body):
    """The times of all queues of a topic; answers 303."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsItem(Body):
    """One statistic over one period."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsData(Body):
    """One statistic; answers 315."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueueData(Body):
    """One entry of a consume queue."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueueView(Body):
    """Entries of a consume queue; answers 321."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksdbProgress(Body):
    """Whether consume queues in RocksDB have caught up: 0 yes, 1 no, 2 under way, 3 error."""

    check_status: int = 0
    check_result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetric(Body):
    """Timed messages of one topic that wait."""

    count: int = 0
    time_stamp: int = field(default=0, metadata=wire("timeStamp"))
