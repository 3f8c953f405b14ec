"""What charts are drawn from: samples of hours, in as many points as a chart can show."""

from itertools import pairwise

from rocketq.console.history import SAMPLE_EVERY_S, BrokerFigures, History, Sample

HOURS = 8
COUNT = int(HOURS * 3600 / SAMPLE_EVERY_S)


def filled() -> History:
    history = History()
    for number in range(COUNT):
        figures = {"broker-a": BrokerFigures(number, 1.0, 0.5), "broker-b": BrokerFigures(1, 1, 0)}
        history.add(Sample(number * SAMPLE_EVERY_S, figures, lag=number))
    return history


def test_minutes_are_shown_as_they_were_and_hours_thinned_out() -> None:
    history = filled()
    end = (COUNT - 1) * SAMPLE_EVERY_S
    minutes = history.since(end - 300)
    assert [each.time_s for each in minutes] == [end - 300 + n * 10 for n in range(31)]
    assert minutes[-1].into == COUNT  # both brokers together
    hours = history.since(end - 6 * 3600)
    assert 200 <= len(hours) <= 360
    assert hours[-1].time_s == end
    assert len({round(b.time_s - a.time_s) for a, b in pairwise(hours)}) == 1


def test_nothing_is_kept_for_longer_than_charts_go_back() -> None:
    oldest = filled().since(0.0)[0]
    assert (COUNT - 1) * SAMPLE_EVERY_S - oldest.time_s <= 6 * 3600


def test_the_lag_of_a_group_that_is_gone_is_forgotten() -> None:
    history = History()
    history.add_lags(10.0, {"a": 5, "b": 0})
    history.add_lags(20.0, {"a": 7, "b": 1})
    assert history.lag_of("a") == [(10.0, 5), (20.0, 7)]
    assert history.lag_of("b") == [(20.0, 1)]
    history.add_lags(30.0, {"b": 2})
    assert history.lag_of("a") == []


def test_how_fast_a_group_reads_is_told_by_its_offsets() -> None:
    history = History()
    for second in range(0, 60, 10):
        history.add_reads(float(second), {"query": 1_000 + second * 50})
    assert history.read_rate("query", 60.0) == 50.0
    assert history.read_rate("query", 600.0) == 0.0
    assert history.read_rate("nobody", 60.0) == 0.0
