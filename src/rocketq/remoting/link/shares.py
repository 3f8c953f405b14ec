"""Who may go on after having had more than its share of the loop.

A connection that has kept the loop busy for longer than a slice, with many requests or with one,
stops reading and waits here; what it has sent already waits with it. In each turn of the loop
one of those that wait goes on. What it asks a little later waits here as well: with many that ask
for a lot, and each time wait for the answer, a turn would be as long as all of their requests.
So whoever asks little is served after at most a few slices, however many others ask for a lot.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_NS: Final = 2_000_000
REMEMBERED_NS: Final = 200_000_000


class Shares:
    """Of one server; used in its loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_planned = False

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have a connection go on when its turn has come."""
        self._waiting.append(go_on)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_planned = False
        go_on = self._waiting.popleft()
        if self._waiting:
            self._plan()
        go_on()
