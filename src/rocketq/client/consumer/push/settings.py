"""The settings of a push consumer, checked when the consumer is made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocketq.client.consumer.allocation import AllocationStrategy, Average
from rocketq.client.consumer.pull_result import FilterHook
from rocketq.client.consumer.rebalance import RebalanceTiming
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.errors import InvalidSettings
from rocketq.client.hooks import ConsumeHook
from rocketq.message.names import DEFAULT_CONSUMER_GROUP, validate_group

CLUSTERING = "CLUSTERING"
BROADCASTING = "BROADCASTING"
MIB = 1 << 20

MAX_BATCH_SIZE = 1024
_UNLIMITED = -1

_RANGES = {
    "concurrency": (1, 1000),
    "batch_size": (1, MAX_BATCH_SIZE),
    "pull_batch_size": (1, MAX_BATCH_SIZE),
    "pull_batch_bytes": (1, 1 << 31),
    "pull_interval_ms": (0, 65_535),
    "max_span": (1, 65_535),
    "pull_threshold": (1, 65_535),
    "pull_threshold_mib": (1, 1024),
    "max_reconsume_times": (-1, 1 << 31),
    "suspend_ms": (-1, 1 << 31),
}
_RANGES_OR_UNLIMITED = {
    "pull_threshold_of_topic": (1, 6_553_500),
    "pull_threshold_mib_of_topic": (1, 102_400),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """How a push consumer works; `PushConsumer` explains the options."""

    group: str
    is_orderly: bool = False
    message_model: str = CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp_ms: int = 0
    allocation: AllocationStrategy = field(default_factory=Average)
    batch_size: int = 1
    concurrency: int = 20
    pull_batch_size: int = 32
    pull_batch_bytes: int = 256 << 10
    pull_interval_ms: int = 0
    max_span: int = 2000
    pull_threshold: int = 1000
    pull_threshold_mib: int = 100
    pull_threshold_of_topic: int = _UNLIMITED
    pull_threshold_mib_of_topic: int = _UNLIMITED
    max_reconsume_times: int = -1
    suspend_ms: int = 1000
    consume_timeout_s: float = 900.0
    post_subscription: bool = False
    hooks: Sequence[ConsumeHook] = ()
    filters: Sequence[FilterHook] = ()
    trace_topic: str | None = None
    offset_folder: Path | None = None
    close_timeout_s: float = 10.0
    rebalance: RebalanceTiming = field(default_factory=RebalanceTiming)
    lock_interval_s: float = 20.0
    pull_error_delay_s: float = 1.0
    pull_suspend_ms: int = 15_000

    def __post_init__(self) -> None:
        validate_group(self.group)
        check_not_default(self.group)
        if self.message_model not in (CLUSTERING, BROADCASTING):
            raise InvalidSettings(
                f"message_model is 'clustering' or 'broadcasting', not {self.message_model!r}"
            )
        for name, (low, high) in _RANGES.items():
            check_range(name, getattr(self, name), low, high)
        for name, (low, high) in _RANGES_OR_UNLIMITED.items():
            if getattr(self, name) != _UNLIMITED:
                check_range(name, getattr(self, name), low, high)
        if self.consume_timeout_s <= 0:
            raise InvalidSettings("consume_timeout_s must be above 0")

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raise `InvalidSettings` unless the value is within the bounds."""
    if not low <= value <= high:
        raise InvalidSettings(f"{name} must be within {low} and {high}, not {value}")


def check_not_default(group: str) -> None:
    """RocketMQ's placeholder must be replaced: everybody else would have it too."""
    if group == DEFAULT_CONSUMER_GROUP:
        raise InvalidSettings(
            f"the consumer group cannot be {DEFAULT_CONSUMER_GROUP}: give it a name of its own"
        )


def message_model_of(value: str) -> str:
    """`"clustering"` or `"broadcasting"`, in any case."""
    return value.upper()
