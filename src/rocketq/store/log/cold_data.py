"""Messages that have to come from the disk before they can be read.

The log is mapped memory. What is not in the page cache is fetched by the kernel when it is
first touched, and whoever touches it waits: on the event loop everybody would wait with it. So
a reader that is far behind asks first, and has its part of the log fetched by a thread.

    if store.has_cold_data:
        cold = store.cold_range("orders", 0, offset, 32)
        if cold is not None:
            await store.load(cold)
    result = store.get("orders", 0, offset, 32)

What this process wrote itself not long ago counts as being in memory; for the rest the kernel
is asked.
"""

import asyncio
from typing import Final, NamedTuple

from rocketq.store.errors import QueueUnavailable
from rocketq.store.files.segment import Segment
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queues import ConsumeQueues

_USUAL_SIZE: Final = 262_144


class ColdRange(NamedTuple):
    """A part of the log that is not in memory."""

    segment: Segment
    position: int
    size: int


class ColdData:
    """Owned by the store; asked on the event loop."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, memory_bytes: int) -> None:
        self._log = log
        self._queues = queues
        self._memory_bytes = memory_bytes
        self._written_from = 0

    def start_from(self, position: int) -> None:
        """What comes from here on is written by this process."""
        self._written_from = position

    @property
    def is_possible(self) -> bool:
        """Whether any of the log may be out of memory: it is long, or was here before us."""
        first = self._log.min_offset
        return first < self._written_from or self._log.end - first > self._memory_bytes

    @property
    def hot_from(self) -> int:
        """What lies behind this is in memory, as far as can be told without asking."""
        return max(self._written_from, self._log.end - self._memory_bytes)

    def range_of(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ColdRange | None:
        """What a read would have to wait for, None if it is in memory."""
        try:
            queue = self._queues.find(topic, queue_id)
        except QueueUnavailable:
            return None
        first = queue.read(offset) if queue is not None else None
        if queue is None or first is None or first.is_filler:
            return None
        if first.position >= self.hot_from:
            return None
        segment = self._log.segments.find(first.position)
        if segment is None:
            return None
        last = queue.read(min(offset + max_count, queue.end_offset) - 1)
        wanted = _USUAL_SIZE if max_bytes <= 0 else max_bytes
        size = min(max(wanted, first.size), segment.end - first.position)
        if last is not None and not last.is_filler and last.position >= first.position:
            size = min(size, last.position + last.size - first.position)
        if segment.is_resident(first.position, size):
            return None
        return ColdRange(segment, first.position, size)

    async def load(self, cold: ColdRange) -> None:
        """Have a part of the log fetched, while others go on."""
        await asyncio.to_thread(cold.segment.load, cold.position, cold.size)
