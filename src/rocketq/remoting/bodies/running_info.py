"""What a consumer says about itself."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.body import Body, names, wire
from rocketq.remoting.bodies.heartbeat import SubscriptionData


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQueueInfo(Body):
    """One queue a consumer works on. `droped` is how it is spelt."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = field(default=0, metadata=wire("cachedMsgSizeInMiB"))
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = field(default=False, metadata=wire("droped", "dropped"))
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PopProcessQueueInfo(Body):
    """One queue a consumer pops from."""

    wait_ack_count: int = 0
    dropped: bool = field(default=False, metadata=wire("droped", "dropped"))
    last_pop_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus(Body):
    """How fast a consumer consumes one topic; rates per second, times in ms."""

    pull_rt: float = field(default=0.0, metadata=wire("pullRT"))
    pull_tps: float = field(default=0.0, metadata=wire("pullTPS"))
    consume_rt: float = field(default=0.0, metadata=wire("consumeRT"))
    consume_ok_tps: float = field(default=0.0, metadata=wire("consumeOKTPS"))
    consume_failed_tps: float = field(default=0.0, metadata=wire("consumeFailedTPS"))
    consume_failed_msgs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo(Body):
    """Everything a consumer is doing; answers 307."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyResult(Body):
    """How one message was consumed; answers 309."""

    consume_result: str | None = field(
        default=None,
        metadata=names(
            "CR_SUCCESS",
            "CR_LATER",
            "CR_ROLLBACK",
            "CR_COMMIT",
            "CR_THROW_EXCEPTION",
            "CR_RETURN_NULL",
        ),
    )
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_time_mills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus(Body):
    """How far consumers have come: one of them about itself (221), a broker about all (223)."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
