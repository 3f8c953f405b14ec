"""The options of the consumers, each declared once.

GroupConfig             what all have: topics
├── ConsumerConfig      what those have that share queues: the rebalance
│   ├── FetchConfig     what the two have that fetch ahead: where to start, how much to cache
│   │   ├── PushConfig
│   │   └── LitePullConfig
│   └── PullConfig
└── SimpleConfig
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.consumer.allocation import AllocationStrategy, Average
from rocketq.client.consumer.process_queue import FlowLimits
from rocketq.client.consumer.pull_loop import PullSettings
from rocketq.client.consumer.pull_result import FilterHook
from rocketq.client.consumer.push.listener import ListenerFunction
from rocketq.client.consumer.rebalance import AssignmentListener, RebalanceTiming
from rocketq.client.consumer.start_offset import ConsumeFrom, timestamp_ms
from rocketq.client.consumer.subscription import Topics
from rocketq.client.errors import InvalidSettings
from rocketq.client.hooks import ConsumeHook
from rocketq.client.options import option
from rocketq.message.names import TRACE_TOPIC

MessageModel: TypeAlias = Literal["clustering", "broadcasting"]
RebalanceBy: TypeAlias = Literal["client", "broker"]
StartName: TypeAlias = Literal["last", "first", "timestamp"]
Moment: TypeAlias = int | float | str | datetime
"""Milliseconds since 1970, a datetime, or RocketMQ's `yyyyMMddHHmmss`."""

DEFAULT_MAX_RECONSUME_TIMES: Final = 16
MAX_BATCH_SIZE: Final = 1024
_MIB: Final = 1 << 20
_BROKER_STRATEGIES: Final = frozenset({"AVG", "AVG_BY_CIRCLE"})
_RETRY_S: Final = 1.0
_HALF_AN_HOUR_MS: Final = 30 * 60 * 1000


class GroupOptions(ClientOptions, total=False):
    """The keyword arguments of every consumer; `GroupConfig` explains them."""

    topics: Topics


class ConsumerOptions(GroupOptions, total=False):
    """Those of the consumers that share queues; `ConsumerConfig` explains them."""

    message_model: MessageModel
    allocation: AllocationStrategy
    filters: Sequence[FilterHook]
    on_assignment: AssignmentListener | None
    offset_folder: str | Path | None
    rebalance_interval_ms: int
    rebalance_min_interval_ms: int


class FetchOptions(ConsumerOptions, total=False):
    """Those of the consumers that fetch ahead; `FetchConfig` explains them."""

    consume_from: ConsumeFrom | StartName
    consume_timestamp: Moment | None
    pull_batch_size: int
    pull_batch_bytes: int
    pull_threshold: int
    pull_threshold_mib: int
    max_span: int
    pull_suspend_ms: int
    pull_error_delay_ms: int


class PushOptions(FetchOptions, total=False):
    """Those of a push consumer; `PushConfig` explains them."""

    listener: ListenerFunction | None
    orderly: bool
    batch_size: int | None
    concurrency: int
    pull_interval_ms: int
    pull_threshold_of_topic: int
    pull_threshold_mib_of_topic: int
    max_reconsume_times: int
    suspend_ms: int
    consume_timeout_s: float
    post_subscription: bool
    hooks: Sequence[ConsumeHook]
    trace: bool | str
    lock_interval_ms: int
    close_timeout_s: float
    rebalance: RebalanceBy
    pop_invisible_s: float
    pop_poll_s: float
    pop_threshold: int


class LitePullOptions(FetchOptions, total=False):
    """Those of a lite pull consumer; `LitePullConfig` explains them."""

    auto_commit: bool
    auto_commit_interval_ms: int
    pull_threshold_for_all: int
    poll_timeout_s: float
    pull_timeout_ms: int


class PullOptions(ConsumerOptions, total=False):
    """Those of a pull consumer; `PullConfig` explains them."""

    max_reconsume_times: int
    suspend_ms: int
    suspend_timeout_ms: int


class SimpleOptions(GroupOptions, total=False):
    """Those of a simple consumer; `SimpleConfig` explains them."""

    consume_from: ConsumeFrom | StartName
    orderly: bool
    invisible_s: float
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(ClientConfig):
    """Settings of a consumer, beyond those of every client."""

    topics: Topics = option(
        (),
        'One topic, several, or a mapping to what is wanted of each: "*", tags as "paid || sent", '
        'or Sql("total > 100").',
    )

    # What a consumer is to its group where its options do not say otherwise.

    @property
    def allocation(self) -> AllocationStrategy:
        return Average()

    @property
    def on_assignment(self) -> AssignmentListener | None:
        return None

    @property
    def offset_folder(self) -> str | Path | None:
        return None

    @property
    def is_broadcasting(self) -> bool:
        return False

    @property
    def wire_model(self) -> str:
        """The message model in RocketMQ's words."""
        return "CLUSTERING"

    @property
    def starts_from(self) -> ConsumeFrom:
        """Where a group begins that has no offset stored."""
        return ConsumeFrom.LAST

    @property
    def timing(self) -> RebalanceTiming:
        return RebalanceTiming()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(GroupConfig):
    """Settings of a consumer that shares queues with its group."""

    message_model: MessageModel = option(
        "clustering",
        '"clustering" shares the messages among the group, "broadcasting" gives each member all of '
        "them (offsets are kept in a file, failures are not repeated).",
    )
    allocation: AllocationStrategy = option(
        Average(), "How queues are shared: Average, AverageByCircle, ConsistentHash, ..."
    )
    filters: Sequence[FilterHook] = option(
        (), "Functions that see pulled messages and return those to be delivered."
    )
    on_assignment: AssignmentListener | None = option(
        None, "Called as (topic, all_queues, own_queues) after the queues held have changed."
    )
    offset_folder: str | Path | None = option(
        None, "Where broadcasting keeps its offsets, if not in ~/.rocketmq_offsets."
    )
    rebalance_interval_ms: int = option(
        20_000, "How often the group's queues are shared anew in any case.", low=1
    )
    rebalance_min_interval_ms: int = option(
        1000, "Never more often than this, whatever changes.", low=0
    )

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.message_model.lower() not in ("clustering", "broadcasting"):
            raise InvalidSettings(
                f"message_model is 'clustering' or 'broadcasting', not {self.message_model!r}"
            )

    @property
    def is_broadcasting(self) -> bool:
        return self.wire_model == "BROADCASTING"

    @property
    def wire_model(self) -> str:
        return self.message_model.upper()

    @property
    def timing(self) -> RebalanceTiming:
        return RebalanceTiming(
            interval_s=self.rebalance_interval_ms / 1000,
            min_interval_s=self.rebalance_min_interval_ms / 1000,
            retry_s=min(_RETRY_S, self.rebalance_interval_ms / 1000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig(ConsumerConfig):
    """Settings of a consumer that fetches messages ahead of their consumption."""

    consume_from: ConsumeFrom | StartName = option(
        "last",
        'Where a group starts that has no offset stored: "last", "first", or "timestamp" with '
        "`consume_timestamp`.",
    )
    consume_timestamp: Moment | None = option(
        None,
        'The moment for "timestamp": milliseconds, a datetime, or yyyyMMddHHmmss; half an hour ago '
        "unless given.",
    )
    # One pull brings what a rocketq broker finds up to the bytes below. RocketMQ's brokers give
    # 32 messages at most whatever is asked, so asking for more costs nothing there.
    pull_batch_size: int = option(
        512, "How many messages one pull asks for at most.", low=1, high=MAX_BATCH_SIZE
    )
    pull_batch_bytes: int = option(
        256 << 10,
        "How many bytes one pull asks for.",
        low=1,
        high=2**31,
    )
    pull_threshold: int = option(
        1000, "Pulling a queue pauses with more messages of it cached.", low=1, high=65_535
    )
    pull_threshold_mib: int = option(
        100, "Pulling a queue pauses with more of it cached, in MiB.", low=1, high=1024
    )
    max_span: int = option(
        2000, "Pulling a queue pauses when cached offsets lie further apart.", low=1, high=65_535
    )
    pull_suspend_ms: int = option(
        15_000, "How long a broker may hold a pull for which there is nothing.", low=0
    )
    pull_error_delay_ms: int = option(1000, "The pause after a pull that failed.", low=0)

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        ConsumeFrom.of(self.consume_from)
        if self.consume_timestamp is not None:
            timestamp_ms(self.consume_timestamp)

    @property
    def starts_from(self) -> ConsumeFrom:
        return ConsumeFrom.of(self.consume_from)

    def start_ms(self, now_ms: int) -> int:
        """The moment from which to consume, where that counts."""
        if self.consume_timestamp is None:
            return now_ms - _HALF_AN_HOUR_MS
        return timestamp_ms(self.consume_timestamp)

    @property
    def limits(self) -> FlowLimits:
        return FlowLimits(
            count=self.pull_threshold, size=self.pull_threshold_mib * _MIB, span=self.max_span
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig(FetchConfig):
    """Settings of a push consumer."""

    listener: ListenerFunction | None = option(
        None, "The function called with messages; or use the decorator `consumer.listener`."
    )
    orderly: bool = option(False, "Messages of a queue one after the other, in their order.")
    batch_size: int | None = option(
        None,
        "How many messages one call gets at most; 1 unless the listener takes a list.",
        low=1,
        high=MAX_BATCH_SIZE,
    )
    concurrency: int = option(
        20, "How many calls may be under way at once; may be changed later.", low=1, high=1000
    )
    pull_interval_ms: int = option(0, "A pause between pulls.", low=0, high=65_535)
    pull_threshold_of_topic: int = option(
        -1,
        "Like `pull_threshold` for all queues of a topic together; -1: no such limit.",
        low=1,
        high=6_553_500,
        unless=-1,
    )
    pull_threshold_mib_of_topic: int = option(
        -1,
        "Like `pull_threshold_mib` for all queues of a topic together; -1: no such limit.",
        low=1,
        high=102_400,
        unless=-1,
    )
    max_reconsume_times: int = option(
        -1,
        "How often a message comes again before it goes to the dead letters; -1 is 16 times, for "
        "orderly consumers without end.",
        low=-1,
        high=2**31,
    )
    suspend_ms: int = option(
        1000, "How long an orderly queue pauses after a failure.", low=-1, high=2**31
    )
    consume_timeout_s: float = option(
        900.0, "Messages that a listener keeps longer are sent back.", above=0
    )
    post_subscription: bool = option(
        False, "Send the expression with each pull instead of with heartbeats only."
    )
    hooks: Sequence[ConsumeHook] = option((), "Told before and after each call of the listener.")
    trace: bool | str = option(
        False, "Report to RocketMQ's message trace; a text names another trace topic."
    )
    lock_interval_ms: int = option(
        20_000, "How often orderly consumers renew their locks at the brokers.", low=1
    )
    close_timeout_s: float = option(10.0, "How long `close` waits for listeners.", low=0)
    rebalance: RebalanceBy = option(
        "client",
        'Who shares the queues out: "client", or "broker", which also says whether they are pulled '
        "or popped (mqadmin setConsumeMode); needs brokers of RocketMQ 5, or rocketq's.",
    )
    pop_invisible_s: float = option(
        60.0, "How long others do not get what was popped.", low=5, high=300
    )
    pop_poll_s: float = option(
        15.0, "How long a broker may hold a pop for which there is nothing.", low=0, high=600
    )
    pop_threshold: int = option(
        96, "Popping a queue pauses with more of it not acknowledged.", low=1, high=65_535
    )

    def __post_init__(self) -> None:
        FetchConfig.__post_init__(self)
        if self.rebalance not in ("client", "broker"):
            raise InvalidSettings(f"rebalance is 'client' or 'broker', not {self.rebalance!r}")
        if self.rebalance == "client":
            return
        if self.orderly or self.is_broadcasting:
            raise InvalidSettings(
                "brokers share out the queues of groups that are neither orderly nor broadcasting"
            )
        if self.allocation.name not in _BROKER_STRATEGIES:
            raise InvalidSettings(
                f"brokers know the strategies Average and AverageByCircle, not {self.allocation!r}"
            )

    @property
    def trace_topic(self) -> str | None:
        if self.trace is True:
            return TRACE_TOPIC
        return self.trace or None

    @property
    def pull(self) -> PullSettings:
        return PullSettings(
            batch_size=self.pull_batch_size,
            batch_bytes=self.pull_batch_bytes,
            suspend_ms=self.pull_suspend_ms,
            interval_s=self.pull_interval_ms / 1000,
            error_delay_s=self.pull_error_delay_ms / 1000,
            commits=not self.is_broadcasting,
            posts_subscription=self.post_subscription,
            filters=tuple(self.filters),
        )

    @property
    def limits(self) -> FlowLimits:
        # What is consumed strictly in order cannot lie far apart.
        span = None if self.orderly else self.max_span
        return FlowLimits(count=self.pull_threshold, size=self.pull_threshold_mib * _MIB, span=span)

    def limits_for(self, queue_count: int) -> FlowLimits:
        """The limits of each queue; one given for a whole topic is divided among those held."""
        limits = self.limits
        if self.pull_threshold_of_topic > 0:
            limits.count = max(self.pull_threshold_of_topic // max(queue_count, 1), 1)
        if self.pull_threshold_mib_of_topic > 0:
            limits.size = max(self.pull_threshold_mib_of_topic // max(queue_count, 1), 1) * _MIB
        return limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullConfig(FetchConfig):
    """Settings of a lite pull consumer."""

    auto_commit: bool = option(True, "Store finished offsets by itself.")
    auto_commit_interval_ms: int = option(
        5000, "How often; never more than once per second.", low=0
    )
    pull_threshold_for_all: int = option(
        10_000, "Messages cached of all queues together before pulling pauses.", low=1
    )
    poll_timeout_s: float = option(5.0, "How long `poll` waits unless it is told.", low=0)
    pull_suspend_ms: int = option(
        20_000, "How long a broker may hold a pull for which there is nothing.", low=0
    )
    pull_timeout_ms: int = option(
        30_000, "How long the answer to a pull is waited for; above `pull_suspend_ms`.", low=1
    )

    def __post_init__(self) -> None:
        FetchConfig.__post_init__(self)
        if self.pull_timeout_ms < self.pull_suspend_ms:
            raise InvalidSettings(
                f"pull_timeout_ms ({self.pull_timeout_ms}) must not be below pull_suspend_ms "
                f"({self.pull_suspend_ms}): brokers hold requests that long"
            )

    @property
    def pull(self) -> PullSettings:
        return PullSettings(
            batch_size=self.pull_batch_size,
            batch_bytes=self.pull_batch_bytes,
            suspend_ms=self.pull_suspend_ms,
            error_delay_s=self.pull_error_delay_ms / 1000,
            timeout_s=self.pull_timeout_ms / 1000,
            is_lite=True,
            commits=False,
            posts_subscription=True,
            filters=tuple(self.filters),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig(ConsumerConfig):
    """Settings of a pull consumer."""

    max_reconsume_times: int = option(
        DEFAULT_MAX_RECONSUME_TIMES,
        "How often a message sent back comes again before it goes to the dead letters.",
        low=0,
    )
    suspend_ms: int = option(20_000, "How long a broker holds a `pull_block_if_not_found`.", low=0)
    suspend_timeout_ms: int = option(
        30_000, "How long its answer is waited for; above `suspend_ms`.", low=1
    )

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        if self.suspend_timeout_ms < self.suspend_ms:
            raise InvalidSettings(
                f"suspend_timeout_ms ({self.suspend_timeout_ms}) must not be below suspend_ms "
                f"({self.suspend_ms}): brokers hold requests that long"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConfig(GroupConfig):
    """Settings of a simple consumer."""

    consume_from: ConsumeFrom | StartName = option(
        "last", 'Where a group starts that has no offset stored: "last" or "first".'
    )
    orderly: bool = option(
        False, "A queue gives nothing more until all that was received of it is acknowledged."
    )
    invisible_s: float = option(
        60.0, "How long others do not get what `receive` took, unless it is told.", above=0
    )
    wait_s: float = option(
        15.0, "How long `receive` waits for a message, unless it is told.", low=0
    )

    def __post_init__(self) -> None:
        GroupConfig.__post_init__(self)
        if self.starts_from is ConsumeFrom.TIMESTAMP:
            raise InvalidSettings("a consumer that pops starts from 'last' or 'first'")

    @property
    def starts_from(self) -> ConsumeFrom:
        return ConsumeFrom.of(self.consume_from)
