"""Pops, and questions whether there is something to pop, that wait for messages.

    by key       (topic, group, queue id or -1 for all) -> who waits, the first to come first
    by arrival   topic a message may arrive in -> the keys that wait for it; a group's own
                 retry topics among them
    by time      when somebody gives up, or looks again because a blocked queue is free

An arrival wakes one of each key; who was woken and leaves messages behind wakes the next.
Woken ones run in later turns, a few in each, and no longer than a moment.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rocketq.common.clock import Clock
from rocketq.store.arrival import ArrivalListener

ALL_QUEUES: Final = -1
_LONGEST_WAIT_S: Final = 120.0
_A_TURN: Final = 64
_A_TURN_S: Final = 0.002

Key = tuple[str, str, int]


class Peer(Protocol):
    """The part of a connection that matters here."""

    @property
    def is_closing(self) -> bool: ...


class HeldPop:
    """One that waits. `resume` is called once for each `hold`."""

    __slots__ = ("codes", "deadline", "is_waiting", "key", "peer", "resume", "topics")

    def __init__(
        self,
        *,
        key: Key,
        topics: Sequence[str],
        peer: Peer,
        deadline: float,
        codes: frozenset[int] | None,
        resume: Callable[[bool], None],
    ) -> None:
        """`topics`: where a message for it may arrive, its own topic first. `codes`: the tags
        it wants of that, None for all. `resume` is told whether the time is over."""
        self.key = key
        self.topics = topics
        self.peer = peer
        self.deadline = deadline
        self.codes = codes
        self.resume = resume
        self.is_waiting = False


class Watch:
    """Whether messages have arrived meanwhile, for one that does not wait yet."""

    __slots__ = ("has_arrived",)

    def __init__(self) -> None:
        self.has_arrived = False


class HeldPops:
    """Belongs to the event loop."""

    def __init__(
        self, clock: Clock, listen: Callable[[ArrivalListener | None], None], *, newest_first: bool
    ) -> None:
        self._clock = clock
        self._listen = listen
        self._newest_first = newest_first
        self._keys: dict[Key, dict[HeldPop, None]] = {}
        self._by_topic: dict[str, dict[Key, int]] = {}
        self._by_peer: dict[Peer, int] = {}
        self._watches: dict[str, dict[Watch, None]] = {}
        self._times: list[tuple[float, int, HeldPop]] = []
        self._numbers = itertools.count()
        self._count = 0
        self._woken: deque[HeldPop] = deque()
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Waiting

    @property
    def count(self) -> int:
        return self._count

    def count_of(self, key: Key) -> int:
        return len(self._keys.get(key, ()))

    def count_by(self, peer: Peer) -> int:
        return self._by_peer.get(peer, 0)

    def deadline_for(self, wait_ms: int) -> float:
        return self._clock.monotonic() + min(max(wait_ms, 0) / 1000, _LONGEST_WAIT_S)

    def hold(self, pop: HeldPop, look_again_in_s: float | None = None) -> None:
        assert not pop.is_waiting
        pop.is_waiting = True
        self._keys.setdefault(pop.key, {})[pop] = None
        for topic in pop.topics:
            keys = self._by_topic.setdefault(topic, {})
            keys[pop.key] = keys.get(pop.key, 0) + 1
        self._by_peer[pop.peer] = self._by_peer.get(pop.peer, 0) + 1
        self._count += 1
        if self._count == 1 and not self._watches:
            self._listen(self.on_arrival)
        at = pop.deadline
        if look_again_in_s is not None:
            at = min(at, self._clock.monotonic() + look_again_in_s)
        heapq.heappush(self._times, (at, next(self._numbers), pop))
        self._arm()

    def _remove(self, pop: HeldPop) -> None:
        pop.is_waiting = False
        waiting = self._keys[pop.key]
        del waiting[pop]
        if not waiting:
            del self._keys[pop.key]
        for topic in pop.topics:
            keys = self._by_topic[topic]
            keys[pop.key] -= 1
            if not keys[pop.key]:
                del keys[pop.key]
                if not keys:
                    del self._by_topic[topic]
        self._by_peer[pop.peer] -= 1
        if not self._by_peer[pop.peer]:
            del self._by_peer[pop.peer]
        self._count -= 1
        self._listen_no_more()

    def _listen_no_more(self) -> None:
        if not self._count and not self._watches:
            self._listen(None)

    @contextmanager
    def watching(self, topics: Sequence[str]) -> Iterator[Watch]:
        """Notice what arrives in some topics while somebody looks through them."""
        watch = Watch()
        if not self._count and not self._watches:
            self._listen(self.on_arrival)
        for topic in topics:
            self._watches.setdefault(topic, {})[watch] = None
        try:
            yield watch
        finally:
            for topic in topics:
                del self._watches[topic][watch]
                if not self._watches[topic]:
                    del self._watches[topic]
            self._listen_no_more()

    # Waking

    def on_arrival(
        self, topic: str, queue_id: int, end: int, tags_code: int, time_ms: int, properties: bytes
    ) -> None:
        """A message can be read from now on."""
        for watch in self._watches.get(topic, ()):
            watch.has_arrived = True
        for key in list(self._by_topic.get(topic, ())):
            is_own = key[0] == topic
            if not is_own or key[2] in (ALL_QUEUES, queue_id):
                self._wake_one(key, tags_code if is_own else None)

    def wake(self, key: Key) -> None:
        """There is more for one that waits here."""
        if key in self._keys:
            self._wake_one(key, None)

    def _wake_one(self, key: Key, tags_code: int | None) -> None:
        waiting = self._keys[key]
        order = reversed(waiting) if self._newest_first else iter(waiting)
        for pop in order:
            if tags_code is None or pop.codes is None or tags_code in pop.codes:
                self._remove(pop)
                self._woken.append(pop)
                self._plan()
                return

    def _plan(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._run_woken)

    def _run_woken(self) -> None:
        self._turn = None
        end = self._clock.monotonic() + _A_TURN_S
        for _ in range(min(len(self._woken), _A_TURN)):
            if self._clock.monotonic() > end:
                break
            pop = self._woken.popleft()
            if not pop.peer.is_closing:
                pop.resume(self._clock.monotonic() >= pop.deadline)
        if self._woken:
            self._plan()

    # Time

    def _arm(self) -> None:
        if not self._times:
            return
        delay_s = max(self._times[0][0] - self._clock.monotonic(), 0.0)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._times and self._times[0][0] <= now + 0.001:
            _, _, pop = heapq.heappop(self._times)
            if pop.is_waiting:
                self._remove(pop)
                self._woken.append(pop)
                self._plan()
        self._forget_answered()
        self._arm()

    def _forget_answered(self) -> None:
        """Keep the times of those that were answered early from piling up."""
        if len(self._times) > 1_024 and len(self._times) > 2 * self._count:
            self._times = [entry for entry in self._times if entry[2].is_waiting]
            heapq.heapify(self._times)

    def drop_peer(self, peer: Peer) -> None:
        """A connection is gone, and whoever waited on it."""
        if peer in self._by_peer:
            for waiting in list(self._keys.values()):
                for pop in [each for each in waiting if each.peer is peer]:
                    self._remove(pop)

    def close(self) -> None:
        """Answer everybody: the broker stops."""
        for waiting in list(self._keys.values()):
            for pop in list(waiting):
                self._remove(pop)
                pop.resume(True)
        for handle in (self._turn, self._timer):
            if handle is not None:
                handle.cancel()
