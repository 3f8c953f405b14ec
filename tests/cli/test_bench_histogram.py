"""Latencies in constant memory."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rocketq.cli.bench.histogram import Histogram

values = st.one_of(st.integers(0, 300), st.integers(0, 10**7), st.integers(0, 10**11))


def filled(numbers: list[int]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(st.lists(values, min_size=1), st.sampled_from([1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_right_to_a_hundredth(numbers: list[int], percent: float) -> None:
    exact = sorted(numbers)[max(math.ceil(len(numbers) * percent / 100 - 1e-6), 1) - 1]
    found = filled(numbers).percentile(percent)
    assert exact <= found <= exact * 1.01


@given(st.lists(values))
def test_count_mean_and_largest_are_exact(numbers: list[int]) -> None:
    histogram = filled(numbers)
    assert histogram.count == len(numbers)
    assert histogram.largest == max(numbers, default=0)
    assert histogram.mean == (sum(numbers) / len(numbers) if numbers else 0)


@given(st.lists(values), st.lists(values, min_size=1))
def test_what_came_later_is_told_apart(before: list[int], after: list[int]) -> None:
    histogram = filled(before)
    earlier = histogram.copy()
    for number in after:
        histogram.record(number)
    recent, alone = histogram.since(earlier), filled(after)
    assert recent.count == alone.count
    assert recent.total == alone.total
    for percent in (50, 99):
        exact = alone.percentile(percent)
        assert exact <= recent.percentile(percent) <= exact * 1.01 + 1


def test_one_value_may_count_many_times() -> None:
    histogram = Histogram()
    histogram.record(7, 99)
    histogram.record(1_000)
    assert (histogram.count, histogram.percentile(99), histogram.percentile(100)) == (100, 7, 1000)


def test_values_out_of_range_are_the_nearest_in_it() -> None:
    histogram = Histogram()
    histogram.record(-5)
    histogram.record(1 << 60)
    assert histogram.count == 2
    assert histogram.percentile(50) == 0
    assert histogram.percentile(100) == (1 << 37) - 1


def test_nothing_recorded_is_zero() -> None:
    assert Histogram().percentile(99) == 0
