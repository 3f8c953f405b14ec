from rocketq.client.producer.latency_faults import LatencyFaults
from rocketq.common.clock import ManualClock


def test_a_quick_answer_keeps_a_broker_available() -> None:
    faults = LatencyFaults(clock=ManualClock())
    faults.answered("a", 120)
    assert faults.is_available("a")


def test_a_slow_answer_keeps_a_broker_out_for_a_while() -> None:
    clock = ManualClock()
    faults = LatencyFaults(clock=clock)
    faults.answered("a", 600)
    assert not faults.is_available("a")
    clock.advance(1_999)
    assert not faults.is_available("a")
    clock.advance(1)
    assert faults.is_available("a")


def test_an_avoidance_is_never_shortened() -> None:
    clock = ManualClock()
    faults = LatencyFaults(clock=clock)
    faults.answered("a", 20_000)
    faults.answered("a", 600)
    clock.advance(29_999)
    assert not faults.is_available("a")
    clock.advance(1)
    assert faults.is_available("a")


def test_a_failed_send_counts_as_one_of_ten_seconds() -> None:
    clock = ManualClock()
    faults = LatencyFaults(clock=clock)
    faults.failed("a", reachable=True)
    assert faults.is_reachable("a")
    clock.advance(9_999)
    assert not faults.is_available("a")
    clock.advance(1)
    assert faults.is_available("a")


def test_a_broker_that_answers_again_is_reachable_again() -> None:
    faults = LatencyFaults(clock=ManualClock())
    faults.failed("a", reachable=False)
    assert not faults.is_reachable("a")
    faults.answered("a", 10)
    assert faults.is_reachable("a")
