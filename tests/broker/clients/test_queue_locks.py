"""Queue locks: who may consume a queue in order."""

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
