"""What can be counted: families of series, each declared once, and points of them.

A family has a name and the names of its labels. A series is a family with values for them. A
point is what a series says now:

    MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages stored.", "topic")

    yield Point(MESSAGES_IN, ("orders",), 42)

All points of a family come one after another: that is how they are written down.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """How a figure behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Series of one name."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets; the last bucket has none."""

    @property
    def is_ours(self) -> bool:
        """Whether RocketMQ does not know it."""
        return not self.name.startswith("rocketmq_")


def counter(name: str, help: str, *labels: str) -> Family:
    """It only grows, until the process ends."""
    return Family(name=name, kind=Kind.COUNTER, help=help, labels=labels)


def gauge(name: str, help: str, *labels: str) -> Family:
    """It is what it is now."""
    return Family(name=name, kind=Kind.GAUGE, help=help, labels=labels)


def histogram(name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Family:
    """How often a value was no more than each bound."""
    return Family(name=name, kind=Kind.HISTOGRAM, help=help, labels=labels, bounds=bounds)


class Histogram:
    """The counts of one series, kept by whoever observes."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def add(self, other: "Histogram") -> None:
        """Count what another with the same bounds has counted, too."""
        assert other.bounds == self.bounds
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts)


class Point(NamedTuple):
    """What one series says now."""

    family: Family
    labels: tuple[str, ...]
    value: float | Histogram


Collector = Callable[[], Iterable[Point | None]]
"""Points of some families. It is a generator, each of its steps is short, and where it works
for long without having a point it yields None."""
