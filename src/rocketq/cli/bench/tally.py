"""What one side of a load, senders or consumers, has done so far."""

import time
from collections import Counter
from typing import Final

from rocketq.cli.bench.histogram import Histogram

# Whoever has seen so many failures has seen enough.
_TOO_MANY_ERRORS: Final = 10_000


class Tally:
    """Figures that a load adds to while it runs. Latencies are microseconds."""

    def __init__(self, verb: str) -> None:
        """`verb`: what is done to messages, in the past."""
        self.verb = verb
        self.messages = 0
        self.bytes = 0
        self.latency = Histogram()
        self.errors: Counter[str] = Counter()
        self.first_error = ""
        self.began_ns = time.monotonic_ns()
        self._ended_ns: int | None = None

    def begin(self) -> None:
        """From now on it counts."""
        self.began_ns = time.monotonic_ns()

    def end(self) -> None:
        """What comes now is another's time; the first call counts."""
        if self._ended_ns is None:
            self._ended_ns = time.monotonic_ns()

    @property
    def seconds(self) -> float:
        ended = time.monotonic_ns() if self._ended_ns is None else self._ended_ns
        return max(ended - self.began_ns, 1) / 1e9

    @property
    def failures(self) -> int:
        return self.errors.total()

    @property
    def is_hopeless(self) -> bool:
        return self.failures >= _TOO_MANY_ERRORS

    def failed(self, kind: str, text: str, count: int = 1) -> None:
        self.errors[kind] += count
        self.first_error = self.first_error or text


class Budget:
    """How much of a load is left: a number of messages, a time, or whichever ends first."""

    def __init__(self, count: int | None, seconds: float | None) -> None:
        self._left = count
        self._seconds = seconds
        self._deadline: float | None = None

    def begin(self) -> None:
        """The time starts to run."""
        if self._seconds is not None:
            self._deadline = time.monotonic() + self._seconds

    def take(self, wanted: int = 1) -> int:
        """So many messages may be sent now; 0 when it is over."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return 0
        if self._left is None:
            return wanted
        granted = min(wanted, self._left)
        self._left -= granted
        return granted

    @property
    def seconds_left(self) -> float | None:
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)
