"""How fast a counter rose: over the last minute, the last hour, the last day.

A counter itself is a few integers that only grow. At every tick of a window its
reading is kept, and what RocketMQ calls sum, tps and avgpt is the difference between
the newest reading and the oldest one inside the window:

    window   tick     readings kept   spans
    minute   10 s     7               60 s
    hour     10 min   7               60 min
    day      1 h      25              24 h

Readings are kept sparsely: a counter that did not move since its last reading keeps
nothing new, so a broker with a hundred thousand quiet topics holds (and touches) next
to nothing for them. A reading that is not there equals the one before it, and before
the first one the counter stood at zero.

The minute is shown as of its last tick, as RocketMQ shows it. The hour and the day run up to
now: the last tick of a day may be an hour ago.
"""

from collections import deque
from typing import NamedTuple


class Reading(NamedTuple):
    """A counter as it stood at one tick: how much was counted, in how many calls."""

    at_ms: int
    value: int
    times: int


class Rate(NamedTuple):
    """What a window shows of one counter."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class Window:
    """The ticks of one window; shared by all counters sampled with it."""

    __slots__ = ("keep", "last_ms", "period_ms")

    def __init__(self, period_ms: int, keep: int) -> None:
        self.period_ms = period_ms
        self.keep = keep
        self.last_ms = 0

    def is_due(self, now_ms: int) -> bool:
        # A timer may fire a little early; half a second late or early is the same tick.
        elapsed_ms = now_ms - self.last_ms
        return elapsed_ms >= self.period_ms - 500 or elapsed_ms < 0  # the clock was set back

    @property
    def span_ms(self) -> int:
        return self.period_ms * (self.keep - 1)

    @property
    def begin_ms(self) -> int:
        """The moment of the oldest reading that still counts."""
        return self.last_ms - self.span_ms


class Readings:
    """One counter's readings in one window, oldest first."""

    __slots__ = ("_kept", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._kept: deque[Reading] = deque()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, value: int, times: int) -> None:
        """Note what the counter shows at the window's current tick."""
        window, kept = self._window, self._kept
        if kept and kept[-1].value == value and kept[-1].times == times:
            return
        if not kept:
            # Whatever was counted before the first reading was counted since the tick before.
            kept.append(Reading(window.last_ms - window.period_ms, 0, 0))
        kept.append(Reading(window.last_ms, value, times))
        while len(kept) >= 2 and kept[1].at_ms <= window.begin_ms:
            kept.popleft()

    def rate(self) -> Rate:
        """As the counter stood at the last tick."""
        kept = self._kept
        if not kept:
            return Rate()
        return self._rate_to(kept[-1]._replace(at_ms=self._window.last_ms))

    def rate_to(self, now: Reading) -> Rate:
        """As the counter stands now; between two ticks an hour apart that is worth knowing."""
        return self._rate_to(now)

    def _rate_to(self, newest: Reading) -> Rate:
        begin_ms = newest.at_ms - self._window.span_ms
        # Before the first reading there was nothing, at the tick that took none of it.
        oldest = self._kept[0] if self._kept else Reading(self._window.last_ms, 0, 0)
        for reading in self._kept:
            if reading.at_ms > begin_ms:
                break
            oldest = reading
        elapsed_ms = newest.at_ms - max(oldest.at_ms, begin_ms)
        if elapsed_ms <= 0:
            return Rate()
        counted = newest.value - oldest.value
        times = newest.times - oldest.times
        return Rate(
            sum=counted,
            tps=counted * 1000 / elapsed_ms,
            avgpt=counted / times if times else 0.0,
        )


class Windows:
    """The three windows of a broker, and whether a tick of each is due."""

    __slots__ = ("day", "hour", "minute")

    def __init__(self) -> None:
        self.minute = Window(period_ms=10_000, keep=7)
        self.hour = Window(period_ms=600_000, keep=7)
        self.day = Window(period_ms=3_600_000, keep=25)

    def advance(self, now_ms: int) -> list[Window]:
        """Move to `now_ms`; returns the windows that tick there."""
        due = [window for window in (self.minute, self.hour, self.day) if window.is_due(now_ms)]
        for window in due:
            window.last_ms = now_ms
        return due


class History:
    """The readings of one counter in all three windows; made when it is first sampled."""

    __slots__ = ("_readings", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._readings: dict[Window, Readings] = {}

    def take(self, due: list[Window], value: int, times: int) -> None:
        for window in due:
            readings = self._readings.get(window)
            if readings is None:
                readings = self._readings[window] = Readings(window)
            readings.take(value, times)

    @property
    def minute(self) -> Rate:
        """Over the last minute, as it was at the last tick."""
        readings = self._readings.get(self._windows.minute)
        return Rate() if readings is None else readings.rate()

    def hour(self, now: Reading) -> Rate:
        return self._rate_to(self._windows.hour, now)

    def day(self, now: Reading) -> Rate:
        return self._rate_to(self._windows.day, now)

    def _rate_to(self, window: Window, now: Reading) -> Rate:
        return self._readings.get(window, Readings(window)).rate_to(now)
