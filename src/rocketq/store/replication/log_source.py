"""The log as slaves read it: pieces of mapped files, from any position on.

A slave that keeps pace reads what has just been written. One that comes new or late reads
what may no longer be in memory; touching that would stop the whole broker until the disk has
answered, so it is fetched by a thread first, one stretch ahead of what is being sent.
"""

import asyncio
from typing import Final

from rocketq.store.log.cold_data import ColdData, ColdRange
from rocketq.store.log.commit_log import CommitLog

_STRETCH: Final = 4 << 20


class LogSource:
    """Owned by the store; asked on the event loop alone."""

    def __init__(self, log: CommitLog, cold: ColdData) -> None:
        self._log = log
        self._cold = cold

    @property
    def begin(self) -> int:
        """Where the oldest file begins."""
        return self._log.min_offset

    @property
    def end(self) -> int:
        """Where the next record will begin; slaves may have everything before it."""
        return self._log.end

    @property
    def last_file(self) -> int:
        """Where the file begins that is being written."""
        return self._log.end // self._log.file_size * self._log.file_size

    def piece(self, position: int, most: int) -> memoryview | None:
        """Bytes from a position on, up to the end of their file; None if there are none."""
        segment = self._log.segments.find(position)
        size = self._log.end - position
        if segment is None or size <= 0:
            return None
        return segment.slice(position, min(size, segment.end - position, most))

    def cold_stretch(self, position: int) -> ColdRange | None:
        """What has to be fetched before a position can be read, None if it is in memory."""
        segment = self._log.segments.find(position)
        if segment is None or position >= self._cold.hot_from:
            return None
        size = min(_STRETCH, segment.end - position)
        return None if segment.is_resident(position, size) else ColdRange(segment, position, size)


class ReadAhead:
    """What one slave has fetched for it. Made for each, since each is elsewhere in the log."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._ready_to = 0  # everything between what is sent now and this is in memory
        self._task: asyncio.Task[None] | None = None

    def is_ready(self, position: int) -> bool:
        """Whether a position can be read now; what follows it is being fetched then."""
        if position >= self._ready_to:
            if self._task is None:
                self._fetch(position)
            return self._task is None
        if self._task is None and position + _STRETCH // 2 >= self._ready_to:
            self._fetch(self._ready_to)
        return True

    async def ready(self) -> None:
        """Wait for what is being fetched."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _fetch(self, position: int) -> None:
        cold = self._source.cold_stretch(position)
        if cold is None:
            self._ready_to = max(self._ready_to, position + _STRETCH)
        else:
            self._task = asyncio.get_running_loop().create_task(self._load(cold))

    async def _load(self, cold: ColdRange) -> None:
        try:
            await asyncio.to_thread(cold.segment.load, cold.position, cold.size)
        finally:
            self._task = None
        self._ready_to = cold.position + cold.size
