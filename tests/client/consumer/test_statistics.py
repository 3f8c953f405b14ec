"""Rates and averages over the last minute and hour."""

from rocketq.client.consumer.statistics import ConsumerStatistics, Meter
from rocketq.common.clock import ManualClock

BEGIN_MS = 1_700_000_000_000


def test_a_rate_is_taken_since_the_first_count_of_the_window() -> None:
    meter = Meter()
    for second in range(30):
        meter.add(BEGIN_MS + second * 1000, 10)
    assert meter.per_second(BEGIN_MS + 30_000) == 10.0


def test_what_is_older_than_the_window_does_not_count() -> None:
    meter = Meter()
    meter.add(BEGIN_MS, 100)
    assert meter.total(BEGIN_MS + 59_000) == 100
    assert meter.total(BEGIN_MS + 60_000) == 0
    assert meter.per_second(BEGIN_MS + 60_000) == 0.0


def test_an_average_is_of_all_times() -> None:
    meter = Meter()
    meter.add(BEGIN_MS, 10)
    meter.add(BEGIN_MS + 20_000, 30)
    assert meter.average(BEGIN_MS + 20_000) == 20.0
    assert Meter().average(BEGIN_MS) == 0.0


def test_failures_are_counted_apart_and_remembered_for_an_hour() -> None:
    clock = ManualClock(BEGIN_MS)
    statistics = ConsumerStatistics(clock)
    statistics.consumed("orders", 10, 3, elapsed_ms=5, now_ms=clock.now_ms())
    topic = statistics.topic("orders")
    assert topic.consumed.total(clock.now_ms()) == 7
    assert topic.failed.total(clock.now_ms()) == 3

    clock.advance(30 * 60 * 1000)

    assert topic.failed.total(clock.now_ms()) == 0
    assert topic.failed_hour.total(clock.now_ms()) == 3
