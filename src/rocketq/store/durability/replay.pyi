from collections.abc import Callable
from typing import Final

from rocketq.store.dispatch import Dispatcher
from rocketq.store.log.record_marks import RecordMarks
from rocketq.store.queues.queue_tail import QueueTail

DONE: Final = 0
BLANK: Final = 1
MISPLACED: Final = 100
NO_ROOM: Final = 101
INCOMPLETE: Final = 102
IMPLAUSIBLE: Final = 103
UNFINISHED: Final = 104
NEVER: Final = 1 << 62

class Replay:
    @property
    def position(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def last_timestamp(self) -> int: ...
    def __init__(
        self,
        dispatcher: Dispatcher,
        open_tail: Callable[[str, int], QueueTail | None],
        check_crc: bool,
        require_crc: bool,
        complete_from: int = ...,
        marks: RecordMarks | None = None,
        is_growing: bool = False,
        beginnings: dict[bytes, int] | None = None,
    ) -> None: ...
    def run(self, view: memoryview, segment_start: int, position: int, stop: int) -> int: ...
