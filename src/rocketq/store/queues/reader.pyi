from typing import Protocol

from rocketq.filter import MessageFilter
from rocketq.store.config import StoreConfig
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.results import GetResult

class ReadableLog(Protocol):
    @property
    def end(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    def view_at(self, position: int) -> tuple[memoryview, int] | None: ...

class QueueReader:
    @property
    def found_count(self) -> int: ...
    @property
    def found_messages(self) -> int: ...
    @property
    def missed_count(self) -> int: ...
    def __init__(
        self, queues: ConsumeQueues, log: ReadableLog, config: StoreConfig, memory_bytes: int
    ) -> None: ...
    def configure(self, config: StoreConfig) -> None: ...
    def forget_segment(self) -> None: ...
    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int = 0,
        filter: MessageFilter | None = None,
    ) -> GetResult: ...
