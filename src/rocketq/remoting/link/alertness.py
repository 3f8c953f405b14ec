# cython: annotation_typing=False
"""Keeps an event loop awake for a moment when more is likely to come at once.

A loop with nothing to do sleeps until bytes come. Where one message follows the other, each pays
for a sleep and for being woken, and on a virtual machine, whose host puts an idle processor to
sleep as well, that may take longer than everything else. So the loop looks a few times more before
it sleeps: for a bounded moment, and only while looking has paid lately. Whoever has looked in vain
does not look again soon; and a loop that gets many frames in a read need not look at all.

The program that owns a loop decides how it sleeps:

    keep_awake(asyncio.get_running_loop(), 200)      before the first connection is made

Compiled where possible (alertness.pxd gives the types).
"""

import asyncio
import os
from typing import Final
from weakref import WeakKeyDictionary

from rocketq.common import ticks

_FEW: Final = 4
"""A read with more frames comes from somebody who does not wait for each answer."""
_FIRST_REST: Final = 16
_LONGEST_REST: Final = 4096


class Alertness:
    """Of one event loop; the connections on it share it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, longest_us: int) -> None:
        """`longest_us`: how long to look before it sleeps after all."""
        self._loop = loop
        self._longest_ns = longest_us * 1000
        self._until_ns = 0
        self._is_looking = False
        self._rest = _FIRST_REST  # reads to let pass after looking in vain
        self._reads_left = _FIRST_REST  # until it looks again

    def stir(self, frame_count: int) -> None:
        """So many frames have come in one read."""
        if frame_count > _FEW:
            self._until_ns = 0
            self._reads_left = _FIRST_REST
        elif self._is_looking:
            self._rest = _FIRST_REST
        elif self._reads_left:
            self._reads_left -= 1

    def written(self) -> None:
        """Everything is written for now."""
        if self._reads_left == 0:
            self._until_ns = ticks.monotonic_ns() + self._longest_ns
            if not self._is_looking:
                self._is_looking = True
                self._loop.call_soon(self._look)

    def _look(self) -> None:
        if ticks.monotonic_ns() < self._until_ns:
            os.sched_yield()  # whoever else wants this processor goes first
            self._loop.call_soon(self._look)
        else:
            self._is_looking = False
            self._reads_left = self._rest
            self._rest = min(self._rest * 2, _LONGEST_REST)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Alertness] = WeakKeyDictionary()


def keep_awake(loop: asyncio.AbstractEventLoop, longest_us: int) -> None:
    """Let connections that are made on a loop from now on keep it awake; 0: let it sleep."""
    if longest_us:
        _of_loops[loop] = Alertness(loop, longest_us)
    else:
        _of_loops.pop(loop, None)


def alertness_of(loop: asyncio.AbstractEventLoop) -> Alertness | None:
    """Of a loop that is kept awake; None for all others."""
    return _of_loops.get(loop)
