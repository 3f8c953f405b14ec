"""Rates are differences of readings; quiet counters keep none."""

from hypothesis import given
from hypothesis import strategies as st

from rocketq.broker.stats.sampling import History, Rate, Readings, Windows

START_MS = 1_700_000_000_000


def test_counts_before_the_first_reading_are_spread_over_the_tick_before_it() -> None:
    windows = Windows()
    history = History(windows)

    history.take(windows.advance(START_MS), value=15, times=13)

    assert history.minute == Rate(sum=15, tps=1.5, avgpt=15 / 13)


def test_a_minute_spans_the_last_seven_readings() -> None:
    windows = Windows()
    history = History(windows)
    for tick in range(20):
        history.take(windows.advance(START_MS + tick * 10_000), value=tick * 100, times=tick)

    assert history.minute == Rate(sum=600, tps=10.0, avgpt=100.0)


def test_a_counter_that_stands_still_falls_to_zero_and_keeps_no_readings() -> None:
    windows = Windows()
    history = History(windows)
    history.take(windows.advance(START_MS), value=60, times=6)

    rates = []
    for tick in range(1, 8):
        history.take(windows.advance(START_MS + tick * 10_000), value=60, times=6)
        rates.append(history.minute)

    assert rates[0] == Rate(sum=60, tps=3.0, avgpt=10.0)
    assert rates[4] == Rate(sum=60, tps=1.0, avgpt=10.0)
    assert rates[5] == Rate()
    assert rates[6] == Rate()


def test_hours_and_days_tick_more_slowly() -> None:
    windows = Windows()
    due_at_start = windows.advance(START_MS)
    later = [windows.advance(START_MS + tick * 10_000) for tick in range(1, 361)]

    assert due_at_start == [windows.minute, windows.hour, windows.day]
    assert sum(windows.hour in due for due in later) == 6
    assert sum(windows.day in due for due in later) == 1


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_sparse_readings_give_the_rates_of_complete_ones(increments: list[int]) -> None:
    windows = Windows()
    window = windows.minute
    readings = Readings(window)
    complete: list[tuple[int, int]] = []
    value = 0
    for tick, increment in enumerate(increments):
        value += increment
        window.last_ms = START_MS + tick * window.period_ms
        readings.take(value, tick)
        if not complete:
            complete.append((window.last_ms - window.period_ms, 0))
        complete.append((window.last_ms, value))

        newest, oldest = complete[-1], complete[-window.keep :][0]
        assert readings.rate().sum == newest[1] - oldest[1]
        assert len(readings) <= window.keep + 1
