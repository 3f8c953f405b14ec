"""Finding a queue offset by store time.

Store times grow along a queue, so the entry is found by halving; each look reads the time from
the message's record in the log. A message that cannot be read any more is stepped over.
"""

from collections.abc import Callable
from enum import Enum

from rocketq.store.queues.consume_queue import ConsumeQueue, QueueEntry


class Boundary(Enum):
    """Which message is meant by a time: the first not before it, or the last not after it."""

    LOWER = "LOWER"
    UPPER = "UPPER"


StoreTime = Callable[[QueueEntry], int]
"""The store time of the message an entry stands for, -1 if it cannot be read."""


def offset_by_time(
    queue: ConsumeQueue, timestamp: int, boundary: Boundary, store_time: StoreTime
) -> int:
    """LOWER: the first message stored at or after the time, the end if there is none.
    UPPER: the last one stored at or before it, the first of all if there is none.
    """
    first, end = queue.min_offset, queue.end_offset
    if boundary is Boundary.LOWER:
        return _first_from(queue, first, end, timestamp, store_time)
    after = _first_from(queue, first, end, timestamp + 1, store_time)
    return max(first, after - 1)


def _first_from(
    queue: ConsumeQueue, low: int, end: int, timestamp: int, store_time: StoreTime
) -> int:
    high = end
    while low < high:
        middle = (low + high) // 2
        time = _time_at_or_after(queue, middle, high, store_time)
        if time is not None and time < timestamp:
            low = middle + 1
        else:
            high = middle
    return low


def _time_at_or_after(
    queue: ConsumeQueue, offset: int, end: int, store_time: StoreTime
) -> int | None:
    for number in range(offset, end):
        entry = queue.read(number)
        time = store_time(entry) if entry is not None and not entry.is_filler else -1
        if time >= 0:
            return time
    return None
