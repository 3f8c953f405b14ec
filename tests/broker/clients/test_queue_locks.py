"""Queue locks: who may consume a queue in order."""

import pytest

from rocketq.broker import queue_locks
from rocketq.broker.queue_locks import LOCK_LIFETIME_MS, QueueLocks
from rocketq.common.clock import ManualClock
from rocketq.message.queue import MessageQueue

FIRST = MessageQueue("orders", "broker-a", 0)
SECOND = MessageQueue("orders", "broker-a", 1)


def test_a_free_queue_goes_to_whoever_asks_first() -> None:
    locks = QueueLocks(ManualClock())

    assert locks.lock("group", "one", [FIRST]) == [FIRST]
    assert locks.lock("group", "two", [FIRST, SECOND]) == [SECOND]
    assert locks.holder("group", FIRST) == "one"


def test_asking_again_renews_the_lock() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    locks.lock("group", "one", [FIRST])

    clock.advance(LOCK_LIFETIME_MS)
    assert locks.lock("group", "one", [FIRST]) == [FIRST]
    clock.advance(LOCK_LIFETIME_MS)

    assert locks.lock("group", "two", [FIRST]) == []


def test_a_lock_nobody_renews_is_free_after_a_minute() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    locks.lock("group", "one", [FIRST])

    clock.advance(LOCK_LIFETIME_MS + 1)

    assert locks.holder("group", FIRST) is None
    assert not locks.any_held("group")
    assert locks.lock("group", "two", [FIRST]) == [FIRST]


def test_only_the_holder_can_unlock() -> None:
    locks = QueueLocks(ManualClock())
    locks.lock("group", "one", [FIRST])

    locks.unlock("group", "two", [FIRST])
    assert locks.holder("group", FIRST) == "one"
    locks.unlock("group", "one", [FIRST, SECOND])
    assert locks.holder("group", FIRST) is None


def test_groups_do_not_share_locks() -> None:
    locks = QueueLocks(ManualClock())
    locks.lock("group", "one", [FIRST])

    assert locks.lock("other", "two", [FIRST]) == [FIRST]
    assert locks.any_held("group")
    assert not locks.any_held("third")


def test_queues_cannot_be_invented_with_names_of_brokers() -> None:
    locks = QueueLocks(ManualClock())
    for number in range(1_000):
        locks.lock("group", "one", [MessageQueue("orders", f"broker-{number}", 0)])
    assert len(locks) == 1
    assert locks.lock("group", "two", [MessageQueue("orders", "another", 0)]) == []


def test_there_are_only_so_many_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "MOST_LOCKS", 2)
    clock = ManualClock()
    locks = QueueLocks(clock)
    third = MessageQueue("orders", "broker-a", 2)
    assert locks.lock("group", "one", [FIRST, SECOND, third]) == [FIRST, SECOND]
    assert locks.lock("group", "one", [FIRST]) == [FIRST]
    locks.unlock("group", "one", [FIRST])
    assert locks.lock("other", "two", [third]) == [third]
    clock.advance(LOCK_LIFETIME_MS + 1)
    locks.forget_expired()
    assert len(locks) == 0
    assert locks.lock("group", "one", [FIRST, SECOND]) == [FIRST, SECOND]
