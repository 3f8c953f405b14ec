"""Which requests are timed, and for how many each of them counts."""

import time

import pytest

from rocketq.remoting.link.meter import RUNS_TIMED, RequestMeter


def test_requests_that_come_alone_are_all_timed_while_they_are_few() -> None:
    meter = RequestMeter()
    assert [meter.weight() for _ in range(100)] == [1] * 100


def test_of_many_one_counts_for_the_others_and_none_is_forgotten() -> None:
    meter = RequestMeter()
    weights = [meter.weight() for _ in range(100_000)]
    assert set(weights) == {0, 1, RUNS_TIMED}
    assert abs(sum(weights) - len(weights)) < 2 * RUNS_TIMED
    timed = sum(weight > 0 for weight in weights)
    assert timed < len(weights) / RUNS_TIMED * 2


def test_when_there_are_few_again_all_are_timed_again() -> None:
    meter = RequestMeter()
    ended = time.perf_counter() + 0.2
    while time.perf_counter() < ended:  # a busy time
        meter.weight()
    time.sleep(0.15)
    weights = [meter.weight() for _ in range(2 * RUNS_TIMED + 50)]
    assert weights[-50:] == [1] * 50


def test_a_request_counts_as_often_as_it_weighs() -> None:
    meter = RequestMeter()
    meter.observe(11, 0, False, 0.002, RUNS_TIMED)
    meter.observe(11, 0, False, 0.5)
    ((labels, times),) = meter.labelled()
    assert labels == ("pull_message", "success", "success")
    assert times.count == RUNS_TIMED + 1
    assert times.sum == pytest.approx(2.0 * RUNS_TIMED + 500.0)
