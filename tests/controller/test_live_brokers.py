"""Who is alive, by a clock that the tests move."""

from dataclasses import replace

from rocketq.common.clock import ManualClock
from rocketq.controller.broker_set import BrokerSet, Replica
from rocketq.controller.decisions.decision import Sign
from rocketq.controller.live_brokers import ENTRY_LIMIT, BrokerKey, LiveBrokers

A, B = BrokerKey("c", "b", 1), BrokerKey("c", "b", 2)
SET = BrokerSet(
    cluster="c",
    name="b",
    replicas={1: Replica("x", "x;1"), 2: Replica("y", "y;1")},
    master_id=1,
    master_epoch=1,
    master_timeout_ms=2500,
    in_sync=frozenset({1, 2}),
)


def after(clock: ManualClock, *, ms: int) -> LiveBrokers:
    """A table whose owner has listened for a while."""
    live = LiveBrokers(clock)
    clock.advance(ms)
    return live


def beat(live: LiveBrokers, key: BrokerKey, connection: object, **sign: int) -> bool:
    return live.heard(key, Sign(**{"timeout_ms": 2500, **sign}), connection)


def test_a_broker_lives_as_long_as_it_said() -> None:
    clock = ManualClock()
    live = after(clock, ms=10_000)
    connection = object()
    assert beat(live, A, connection)
    assert not beat(live, A, connection)
    clock.advance(2500)
    assert set(live.of_set(SET)) == {1}
    assert live.remove_expired() == []
    clock.advance(1)
    assert live.of_set(SET) == {}
    assert live.remove_expired() == [(A, connection)]
    assert len(live) == 0


def test_a_jump_of_the_wall_clock_kills_nobody() -> None:
    clock = ManualClock()
    live = after(clock, ms=10_000)
    beat(live, A, object())
    clock.set_wall(clock.now_ms() + 3_600_000)
    assert live.remove_expired() == []


def test_a_closed_connection_is_the_end_at_once() -> None:
    live = after(ManualClock(), ms=10_000)
    first, second = object(), object()
    beat(live, A, first)
    beat(live, B, second)
    assert live.connection_closed(first) == [A]
    assert set(live.of_set(SET)) == {2}
    assert live.connection_closed(first) == []


def test_the_latest_connection_is_the_one_that_counts() -> None:
    live = after(ManualClock(), ms=10_000)
    first, second = object(), object()
    beat(live, A, first)
    beat(live, A, second)
    assert live.connection_closed(first) == []
    assert live.connection_closed(second) == [A]


def test_a_broker_that_asks_is_alive() -> None:
    """A master goes on by the answer to its question: its time counts from there."""
    clock = ManualClock()
    live = after(clock, ms=10_000)
    connection = object()
    beat(live, A, connection)
    clock.advance(2000)
    live.asked("b", connection)
    live.asked("another", connection)
    live.asked("b", object())
    clock.advance(2500)
    assert set(live.of_set(SET)) == {1}


def test_logs_only_grow_but_priorities_and_timeouts_change() -> None:
    live = after(ManualClock(), ms=10_000)
    connection = object()
    beat(live, A, connection, epoch=3, max_offset=100, priority=1)
    beat(live, A, connection, epoch=3, max_offset=90, priority=2)
    assert live.of_set(SET)[1] == Sign(3, 100, 2, 2500)
    beat(live, A, connection, epoch=4, max_offset=50, priority=2, timeout_ms=0)
    assert live.of_set(SET)[1] == Sign(4, 50, 2, 100)  # nobody dies between two heartbeats


def test_a_new_leader_waits_for_the_master_it_never_heard() -> None:
    """The leader before may have told it to go on until just now."""
    clock = ManualClock()
    live = after(clock, ms=10_000)
    connection = object()
    beat(live, A, connection)
    live.connection_closed(connection)
    assert live.of_set(SET) == {}
    live.nobody_dead_yet()
    assert set(live.of_set(SET)) == {1}
    clock.advance(2501)
    assert live.of_set(SET) == {}


def test_an_elected_master_has_time_for_its_first_heartbeat() -> None:
    clock = ManualClock()
    live = after(clock, ms=10_000)
    assert live.of_set(SET) == {}
    live.elected(SET)
    assert set(live.of_set(SET)) == {1}
    clock.advance(2501)
    assert live.of_set(SET) == {}
    assert live.of_set(replace(SET, master_id=None)) == {}


def test_a_dead_master_is_not_waited_for() -> None:
    live = after(ManualClock(), ms=10_000)
    live.elected(SET)
    connection = object()
    beat(live, A, connection)
    live.connection_closed(connection)
    assert live.of_set(SET) == {}


def test_strangers_fill_no_more_than_the_table() -> None:
    live = after(ManualClock(), ms=10_000)
    for number in range(ENTRY_LIMIT + 10):
        beat(live, BrokerKey("c", "b", number), "one")
    assert len(live) == ENTRY_LIMIT
    live.connection_closed("one")
    for number in range(ENTRY_LIMIT, 2 * ENTRY_LIMIT):
        beat(live, BrokerKey("c", "b", number), "two")
    live.connection_closed("two")
    assert len(live._gone) == ENTRY_LIMIT
