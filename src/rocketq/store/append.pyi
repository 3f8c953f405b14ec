import mmap
from collections.abc import Callable
from typing import Final, Protocol

from rocketq.store.config import StoreConfig
from rocketq.store.consume_queues import ConsumeQueues
from rocketq.store.dispatch import Dispatcher
from rocketq.store.message_inner import MessageInner
from rocketq.store.results import AppendResult

LATENCY_BOUNDS_MS: Final[tuple[int, ...]]

class GrowingLog(Protocol):
    def make_room(self, size: int) -> int: ...

class LogTail:
    end: int
    limit: int
    @property
    def segment_start(self) -> int: ...
    @property
    def segment_end(self) -> int: ...
    @property
    def view(self) -> mmap.mmap | None: ...
    def __init__(self) -> None: ...
    def attach(self, view: mmap.mmap, segment_start: int, segment_end: int) -> None: ...
    def detach(self) -> None: ...

class Appender:
    refusal: int
    is_dispatching: bool
    waker: Callable[[], object] | None
    has_waiting: bool
    slowest_ns: int
    @property
    def last_timestamp(self) -> int: ...
    @property
    def put_count(self) -> int: ...
    @property
    def put_bytes(self) -> int: ...
    @property
    def put_failed(self) -> int: ...
    @property
    def put_ns(self) -> int: ...
    def __init__(
        self,
        tail: LogTail,
        log: GrowingLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        config: StoreConfig,
        now_ms: Callable[[], int] | None,
    ) -> None: ...
    def configure(self, config: StoreConfig) -> None: ...
    def append(self, message: MessageInner) -> AppendResult: ...
    def append_batch(self, message: MessageInner) -> AppendResult: ...
    def take_latencies(self) -> list[int]: ...
