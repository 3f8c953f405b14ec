"""Long work in an event loop, cut into slices between which everybody else gets a turn.

    async for topic in turns.over(topics):
        ...

All long work of a process shares one `Turns`: however much of it is under way, only one
slice of it runs before other events are looked at, and each piece of work gets its slice in
its turn.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final, TypeVar

from rocketq.common.loop.slices import Slices

T = TypeVar("T")

_SLICE_S: Final = 0.002


class Turns:
    """Who may work next. Used in one loop only."""

    def __init__(
        self, slice_s: float = _SLICE_S, monotonic: Callable[[], float] = time.perf_counter
    ) -> None:
        self._slice_s = slice_s
        self._monotonic = monotonic
        # Held for the length of a slice; those who wait for it get it in the order they came.
        self._turn = asyncio.Lock()
        self._thread = asyncio.Lock()

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The same items, with a pause whenever a slice is used up."""
        await self._turn.acquire()
        is_ours = True
        try:
            end = self._monotonic() + self._slice_s
            for item in items:
                yield item
                if self._monotonic() >= end:
                    # Kept until the loop has looked at other events: nobody else's slice
                    # follows in the same turn.
                    await asyncio.sleep(0)
                    self._turn.release()
                    is_ours = False
                    await self._turn.acquire()
                    is_ours = True
                    end = self._monotonic() + self._slice_s
            await asyncio.sleep(0)
        finally:
            if is_ours:
                self._turn.release()

    async def do(self, work: Slices[T]) -> T:
        """Work that says itself where it may be interrupted; returns its result."""
        results: list[T] = []

        def steps() -> Iterator[None]:
            results.append((yield from work))

        async for _ in self.over(steps()):
            pass
        return results[0]

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Work of Python's that touches nothing of the loop's, in a thread.

        One at a time: the loop gets the interpreter back from one thread within milliseconds,
        and from many it would not.
        """
        async with self._thread:
            return await asyncio.to_thread(work)
