"""Time as a parameter: what needs the time is handed a clock.

RocketMQ keeps wall-clock milliseconds in its files and frames; intervals are measured
with a clock that never jumps. Tests and simulations hand in one they move by hand.
"""

import time
from contextvars import ContextVar
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow; for intervals."""
        ...


class SystemClock:
    """The computer's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Let time pass, on both clocks."""
        assert ms >= 0, ms
        self._now_ms += ms
        self._monotonic += ms / 1000

    def set_wall(self, now_ms: int) -> None:
        """Move the wall clock alone, as an administrator or NTP would; also backwards."""
        self._now_ms = now_ms


SYSTEM_CLOCK: Final[Clock] = SystemClock()

# The clock of whoever is made by users, who know nothing of clocks: a simulation sets another
# one for everything that it starts.
ambient_clock: Final[ContextVar[Clock]] = ContextVar("ambient_clock", default=SYSTEM_CLOCK)
