"""What keeps a server's loop from waiting for Python itself: for its garbage, and for threads.

Python's collector stops a process while it looks through objects, and now and then it looks
through all of them: with a hundred thousand topics and groups that takes longer than clients
may wait. A server makes few cycles, and what it has kept for a while it keeps. So it looks at
little at a time and, when a look at everything has become long, does not look again at what has
passed it.

A thread that works keeps the loop out for a while each time the loop wakes up. That while is
made shorter: threads are for what may take its time.
"""

import gc
import sys
import time
from typing import Final

# Containers made and not freed between two looks at the newest ones; then how many of these
# looks come before one at those that passed, and how many of those before one at all.
_THRESHOLDS: Final = (10_000, 5, 3)
_LONG_S: Final = 0.005

_THREAD_S: Final = 0.001


class _Watch:
    """Called by the collector before and after it looks."""

    def __init__(self) -> None:
        self._began = 0.0

    def __call__(self, phase: str, about: dict[str, int]) -> None:
        if about["generation"] < 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began > _LONG_S:
            gc.freeze()


_WATCH: Final = _Watch()


def be_prompt() -> None:
    """From now on; for a process that is a server, and has started. What exists now stays."""
    sys.setswitchinterval(_THREAD_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if _WATCH not in gc.callbacks:
        gc.callbacks.append(_WATCH)
