from rocketq.store.arrival import ArrivalListener
from rocketq.store.index.index import Index
from rocketq.store.queues.queue_tail import QueueTail

class Dispatcher:
    position: int
    last_start: int
    last_timestamp: int
    listener: ArrivalListener | None
    delay_times_ms: tuple[int, ...]
    def __init__(self, index: Index | None, delay_times_ms: tuple[int, ...]) -> None: ...
    def forget_index_file(self) -> None: ...
    def scan(self, properties: bytes) -> bool: ...
    def dispatch(
        self,
        tail: QueueTail,
        properties: bytes,
        position: int,
        size: int,
        sys_flag: int,
        timestamp: int,
        queue_offset: int = -1,
    ) -> bool: ...
