"""A line on the terminal that says how many messages have gone by and how fast."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_INTERVAL_S: Final = 0.5


class RateLine:
    """Counts; shown on stderr, and only when that is a terminal."""

    def __init__(self, verb: str, *, is_shown: bool | None = None) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty() if is_shown is None else is_shown
        self._started = time.monotonic()
        self.count = 0

    @asynccontextmanager
    async def shown(self) -> AsyncIterator["RateLine"]:
        """Keep the line up to date for the length of a block, then remove it."""
        self._started = time.monotonic()
        task = asyncio.create_task(self._keep_current()) if self._is_shown else None
        try:
            yield self
        finally:
            if task is not None:
                task.cancel()
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def summary(self) -> str:
        """All of it, once it is over."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = self.count / seconds
        return f"{messages(self.count)} {self._verb} in {seconds:.2f} s, {rate:,.0f} per second"

    async def _keep_current(self) -> None:
        last_count, last_time = 0, self._started
        while True:
            await asyncio.sleep(_INTERVAL_S)
            now = time.monotonic()
            rate = (self.count - last_count) / (now - last_time)
            last_count, last_time = self.count, now
            line = f"\r\x1b[K{messages(self.count)} {self._verb}, {rate:,.0f} per second"
            print(line, end="", file=sys.stderr, flush=True)


def messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
