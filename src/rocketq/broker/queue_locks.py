"""Which client may consume a queue in order.

A consumer that consumes in order asks for the lock of each queue before it takes messages
from it, and asks again every 20 s. A lock not renewed for 60 s is free for the next one.

A queue is known by its topic and number: the broker's name, which clients send as well, would
only let them invent queues.
"""

from collections.abc import Iterable
from typing import Final

from rocketq.common.clock import Clock
from rocketq.message.queue import MessageQueue

LOCK_LIFETIME_MS: Final = 60_000

MOST_LOCKS: Final = 200_000

_Queue = tuple[str, int]


class QueueLocks:
    """Locks by group and queue. One client holds a queue, all its threads share it."""

    def __init__(self, clock: Clock, lifetime_ms: int = LOCK_LIFETIME_MS) -> None:
        self._clock = clock
        self._lifetime_ms = lifetime_ms
        self._holders: dict[str, dict[_Queue, tuple[str, int]]] = {}
        self._count = 0

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> list[MessageQueue]:
        """Grant or renew what can be had; returns which of these the client holds now."""
        now = self._clock.now_ms()
        holders = self._holders.setdefault(group, {})
        mine = (client_id, now)
        held = []
        for queue in queues:
            key = queue.topic, queue.queue_id
            holder = holders.get(key)
            if holder is None:
                if self._count >= MOST_LOCKS:
                    continue
                self._count += 1
            elif holder[0] != client_id and not self._has_expired(holder, now):
                continue
            holders[key] = mine
            held.append(queue)
        if not holders:
            del self._holders[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up queues; those of another client are left alone."""
        holders = self._holders.get(group)
        if holders is None:
            return
        for queue in queues:
            key = queue.topic, queue.queue_id
            holder = holders.get(key)
            if holder is not None and holder[0] == client_id:
                del holders[key]
                self._count -= 1
        if not holders:
            del self._holders[group]

    def forget_expired(self) -> None:
        """Drop what nobody renews."""
        now = self._clock.now_ms()
        for group, holders in list(self._holders.items()):
            for key in [key for key, holder in holders.items() if self._has_expired(holder, now)]:
                del holders[key]
                self._count -= 1
            if not holders:
                del self._holders[group]

    def __len__(self) -> int:
        """How many queues are known as locked, expired or not."""
        return self._count

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """The client that holds a queue now."""
        holder = self._holders.get(group, {}).get((queue.topic, queue.queue_id))
        if holder is None or self._has_expired(holder, self._clock.now_ms()):
            return None
        return holder[0]

    def any_held(self, group: str) -> bool:
        """Whether a group consumes in order: at least one of its locks is alive."""
        now = self._clock.now_ms()
        return any(
            not self._has_expired(holder, now) for holder in self._holders.get(group, {}).values()
        )

    def _has_expired(self, holder: tuple[str, int], now: int) -> bool:
        return now - holder[1] > self._lifetime_ms
