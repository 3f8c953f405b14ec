"""What keeps a server's loop from waiting for Python itself: for its garbage, and for threads.

Python's collector stops a process while it looks through objects, and now and then it looks
through all of them: with a hundred thousand topics and groups that takes longer than clients
may wait. A server makes few cycles, and what it has kept for a while it keeps. So it looks at
little at a time and, when a look at everything has become long, does not look again at what has
passed it. When to look at everything it decides itself: Python waits until there is a quarter
more than at the last look, which in a process that has grown is too much for one look.

A thread that works keeps the loop out for a while each time the loop wakes up. That while is
made shorter: threads are for what may take its time.
"""

import asyncio
import gc
import sys
import time
from typing import Final

# Containers made and not freed between two looks at the newest ones: more than the answers of a
# turn, whose pieces are gone when they are written. What passes waits for a look at everything;
# Python's own looks at more than the newest never come.
_THRESHOLDS: Final = (20_000, 1_000_000_000, 1_000_000_000)
_LONG_S: Final = 0.005

_THREAD_S: Final = 0.0002


class _Looks:
    """Belongs to a loop. Called by the collector, in any thread, before and after it looks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_planned = False

    def __call__(self, phase: str, about: dict[str, int]) -> None:
        if phase == "start" or about["generation"] == 2 or self._is_planned:
            return
        # Nothing can be collected from here; and the loop is the one that must not wait.
        if not self._loop.is_closed():
            self._is_planned = True
            self._loop.call_soon_threadsafe(self.look_at_all)

    def look_at_all(self) -> None:
        self._is_planned = False
        began = time.perf_counter()
        gc.collect()
        if time.perf_counter() - began > _LONG_S:
            gc.freeze()


def be_prompt() -> None:
    """From now on; for a process that is a server, and has started. What exists now stays."""
    sys.setswitchinterval(_THREAD_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks[:] = [each for each in gc.callbacks if not isinstance(each, _Looks)]
    gc.callbacks.append(_Looks(asyncio.get_running_loop()))
