"""Pulls that found nothing and wait for messages.

A pull that reaches the end of its queue is kept here until a message arrives that passes its
filter, or until its time is over; then it runs once more and is answered, whatever it finds.

    by queue      topic -> queue id -> the pulls waiting there
    by deadline   tenths of a second -> the pulls that give up then

Arrivals come from the store in the turn of the append. All pulls they wake run together at
the end of that turn, so that a burst of messages is answered as one batch, not one by one.

There is one timer for the earliest deadline: nothing runs while nothing arrives and nobody's
time is over, however many pulls wait.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Protocol

from rocketq.common.clock import Clock
from rocketq.filter import MessageFilter
from rocketq.message.properties.codec import decode_properties
from rocketq.store.arrival import ArrivalListener

logger = logging.getLogger(__name__)

# Deadlines are rounded up to this, so that pulls which began together end together.
_TICK_S = 0.1

# Nobody waits longer, whatever the request says: a pull whose connection died unnoticed
# would stay for as long.
_LONGEST_WAIT_MS = 120_000


class Peer(Protocol):
    """The part of a connection that matters here."""

    @property
    def is_closing(self) -> bool: ...


class HeldPull:
    """One waiting pull: where it waits, what for, and how it is resumed."""

    __slots__ = ("deadline_tick", "filter", "offset", "peer", "queue_id", "resume", "topic")

    def __init__(
        self,
        *,
        topic: str,
        queue_id: int,
        offset: int,
        filter: MessageFilter | None,
        peer: Peer,
        resume: Callable[[int], None],
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        # The next offset that might interest it. Moves on over messages its filter refused,
        # so that they need not be looked at again.
        self.offset = offset
        self.filter = filter
        self.peer = peer
        # Called once, with the offset to go on from.
        self.resume = resume
        self.deadline_tick = 0

    def wants(self, tags_code: int, properties: "LazyProperties") -> bool:
        """Whether a message passes the filter, as far as can be told from its queue entry."""
        if self.filter is None:
            return True
        if not self.filter.matches_code(tags_code):
            return False
        return not self.filter.needs_properties or self.filter.matches_properties(properties.value)


class LazyProperties:
    """A message's properties, decoded when the first filter asks for them."""

    __slots__ = ("_decoded", "_encoded")

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._decoded: dict[str, str] | None = None

    @property
    def value(self) -> dict[str, str]:
        if self._decoded is None:
            self._decoded = decode_properties(self._encoded)
        return self._decoded


class LongPolling:
    """All pulls that wait. Used in the loop only."""

    def __init__(
        self,
        clock: Clock,
        *,
        limit: int,
        listen: Callable[[ArrivalListener | None], None] | None = None,
    ) -> None:
        """`listen` is given `on_arrival` while somebody waits, and None while nobody does."""
        self._clock = clock
        self._limit = limit
        self._listen = listen
        self._queues: dict[str, dict[int, dict[HeldPull, None]]] = {}
        self._by_deadline: dict[int, dict[HeldPull, None]] = {}
        self._deadlines: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0
        self._woken: dict[HeldPull, None] = {}
        self._count = 0

    @property
    def held_count(self) -> int:
        return self._count

    def held_by_queue(self) -> dict[tuple[str, int], int]:
        """How many wait where."""
        return {
            (topic, queue_id): len(pulls)
            for topic, queues in self._queues.items()
            for queue_id, pulls in queues.items()
        }

    def hold(self, pull: HeldPull, timeout_ms: int) -> bool:
        """Keep a pull until something arrives or its time is over; False when too many wait."""
        if self._count >= self._limit:
            return False
        self._count += 1
        if self._count == 1 and self._listen is not None:
            self._listen(self.on_arrival)
        self._queues.setdefault(pull.topic, {}).setdefault(pull.queue_id, {})[pull] = None
        wait_s = min(max(timeout_ms, 0), _LONGEST_WAIT_MS) / 1000
        tick = int((self._clock.monotonic() + wait_s) / _TICK_S) + 1
        pull.deadline_tick = tick
        group = self._by_deadline.get(tick)
        if group is not None:
            group[pull] = None
            return True
        self._by_deadline[tick] = {pull: None}
        heapq.heappush(self._deadlines, tick)
        if self._timer is None or tick < self._timer_tick:
            self._arm()
        return True

    def on_arrival(
        self,
        topic: str,
        queue_id: int,
        next_offset: int,
        tags_code: int,
        store_timestamp: int,
        properties: bytes,
    ) -> None:
        """A message was stored; `next_offset` is where its queue ends now."""
        queues = self._queues.get(topic)
        if queues is None:
            return
        waiting = queues.get(queue_id)
        if waiting is None:
            return
        lazy = LazyProperties(properties)
        for pull in waiting:
            if next_offset <= pull.offset or pull in self._woken:
                continue
            if pull.wants(tags_code, lazy):
                self._wake(pull)
            elif pull.offset == next_offset - 1:
                pull.offset = next_offset

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Run everything that waits on one queue, because its state has changed."""
        for pull in self._queues.get(topic, {}).get(queue_id, {}):
            self._wake(pull)

    def wake_all(self) -> None:
        """Run everything that waits."""
        for queues in self._queues.values():
            for waiting in queues.values():
                for pull in waiting:
                    self._wake(pull)

    def expire(self) -> None:
        """Run every pull whose time is over."""
        now_tick = int(self._clock.monotonic() / _TICK_S)
        expired: list[HeldPull] = []
        while self._deadlines and self._deadlines[0] <= now_tick:
            expired.extend(self._by_deadline.pop(heapq.heappop(self._deadlines)))
        for pull in expired:
            self._remove(pull)
        self._arm()
        for pull in expired:
            self._resume(pull)

    def close(self) -> None:
        """Stop waiting; what is held stays unanswered, as its connection is about to close."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queues.clear()
        self._by_deadline.clear()
        self._deadlines.clear()
        self._woken.clear()
        self._count = 0

    def _wake(self, pull: HeldPull) -> None:
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._run_woken)
        self._woken[pull] = None

    def _run_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for pull in woken:
            self._remove(pull)
        for pull in woken:
            self._resume(pull)

    def _resume(self, pull: HeldPull) -> None:
        if pull.peer.is_closing:
            return
        try:
            pull.resume(pull.offset)
        except Exception:
            logger.exception("a waiting pull of %s/%d failed", pull.topic, pull.queue_id)

    def _remove(self, pull: HeldPull) -> None:
        queues = self._queues.get(pull.topic)
        waiting = None if queues is None else queues.get(pull.queue_id)
        if queues is None or waiting is None or pull not in waiting:
            return
        del waiting[pull]
        if not waiting:
            del queues[pull.queue_id]
            if not queues:
                del self._queues[pull.topic]
        # A group stays even when empty: its tick is in the heap, and leaves with it.
        group = self._by_deadline.get(pull.deadline_tick)
        if group is not None:
            group.pop(pull, None)
        self._woken.pop(pull, None)
        self._count -= 1
        if self._count == 0 and self._listen is not None:
            self._listen(None)

    def _arm(self) -> None:
        """Set the timer for the earliest deadline at which somebody still waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._deadlines and not self._by_deadline[self._deadlines[0]]:
            del self._by_deadline[heapq.heappop(self._deadlines)]
        if not self._deadlines:
            return
        self._timer_tick = self._deadlines[0]
        delay = max(self._timer_tick * _TICK_S - self._clock.monotonic(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.expire()
