"""Counts of values in buckets that grow with the value, as HdrHistogram has them.

Values are whole numbers from 0 on, here microseconds. Up to 255 each value has a bucket of its
own; from there on every doubling is divided into 128 buckets of equal width, so that a bucket
is never wider than 1/128 of the values in it:

    value        0 ... 255   256 ... 511   512 ... 1023   1024 ... 2047
    bucket width     1            2             4              8

A percentile read from it is right to 0.8 %. A day in microseconds needs 4,000 buckets: memory
is the same for ten values and for ten billion.
"""

import math
from typing import Final, Self

_PRECISION_BITS: Final = 8
_HALF: Final = 1 << (_PRECISION_BITS - 1)
_LARGEST: Final = (1 << 37) - 1  # 38 hours
_BUCKETS: Final = (37 - _PRECISION_BITS + 2) * _HALF
_ROUNDING: Final = 1e-6  # 99.9 % of 1000 are 999, whatever floating point makes of it


class Histogram:
    """How often which value was seen, roughly; the largest exactly."""

    __slots__ = ("_counts", "count", "largest", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0
        self.total = 0
        self.largest = 0

    def record(self, value: int, count: int = 1) -> None:
        """Note a value, once or several times over."""
        if value < 0:
            value = 0  # a clock was set back
        elif value > _LARGEST:
            value = _LARGEST
        shift = value.bit_length() - _PRECISION_BITS
        index = value if shift <= 0 else shift * _HALF + (value >> shift)
        self._counts[index] += count
        self.count += count
        self.total += value * count
        if value > self.largest:
            self.largest = value

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> int:
        """The value that `percent` of all values do not exceed; 0 when there are none."""
        wanted = max(1, math.ceil(self.count * percent / 100 - _ROUNDING))
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return min(_largest_of(index), self.largest)
        return 0

    def copy(self) -> Self:
        other = type(self)()
        other._counts = self._counts.copy()
        other.count, other.total, other.largest = self.count, self.total, self.largest
        return other

    def since(self, earlier: Self) -> Self:
        """What came after an earlier copy was made."""
        other = type(self)()
        pairs = zip(self._counts, earlier._counts, strict=True)
        other._counts = [now - before for now, before in pairs]
        other.count = self.count - earlier.count
        other.total = self.total - earlier.total
        # Which of the recent ones was the largest is known as well as its bucket.
        for index in range(_BUCKETS - 1, -1, -1):
            if other._counts[index]:
                other.largest = min(_largest_of(index), self.largest)
                break
        return other


def _largest_of(index: int) -> int:
    """The largest value that is counted in a bucket."""
    if index < 2 * _HALF:
        return index
    shift = index // _HALF - 1
    return ((index - shift * _HALF + 1) << shift) - 1
