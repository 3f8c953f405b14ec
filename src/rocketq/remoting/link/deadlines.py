"""When calls run out of time, for thousands of calls with one timer.

A timer of its own for every call costs more than the call. Deadlines are rounded up to a
tick and kept in one bucket a tick; a single timer looks at the bucket that is due. An
answered call leaves its bucket at once, so nothing is kept that is done with.
"""

import asyncio
import heapq
from typing import Protocol

TICK_S = 0.02


class Expiring(Protocol):
    """Something that can run out of time."""

    def expire(self) -> None: ...


Bucket = dict[int, Expiring]


class Deadlines:
    """The deadlines of one client or server; touched by its event loop alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, Bucket] = {}
        self._ticks: list[int] = []  # a heap of the buckets' ticks
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0

    def bucket(self, timeout_s: float) -> Bucket:
        """Where to put what expires in `timeout_s`, and where to take it out when done."""
        tick = int((self._loop.time() + timeout_s) / TICK_S) + 1
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heapq.heappush(self._ticks, tick)
            if self._timer is None or tick < self._timer_tick:
                self._set_timer(tick)
        return bucket

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._ticks.clear()

    def _set_timer(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(tick * TICK_S, self._expire)
        self._timer_tick = tick

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() / TICK_S
        while self._ticks and self._ticks[0] <= now:
            for expiring in list(self._buckets.pop(heapq.heappop(self._ticks)).values()):
                expiring.expire()
        if self._ticks:
            self._set_timer(self._ticks[0])
