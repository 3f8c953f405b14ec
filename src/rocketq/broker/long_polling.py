"""Pulls that found nothing and wait for messages.

A pull that reaches the end of its queue is kept here until a message arrives that passes its
filter, or until its time is over; then it runs once more and is answered, whatever it finds.

    by queue      topic -> queue id -> who waits there:
        everything    pulls without a filter
        by code       tag's hash code -> pulls that want this tag
        looking       pulls whose filter needs more than the code
    by deadline   tenths of a second -> the pulls that give up then
    by peer       connection -> its pulls, of which it may have so many

Arrivals come from the store in the turn of the append, and cost the same however many wait:
whole groups are set aside, and run in later turns, a few in each. Pulls that have to look at
a message first do so in turns of their own, one in each.

There is one timer for the earliest deadline: nothing runs while nothing arrives and nobody's
time is over, however many pulls wait.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from rocketq.common.clock import Clock
from rocketq.filter import MessageFilter, TagFilter
from rocketq.store.arrival import ArrivalListener

logger = logging.getLogger(__name__)

# Deadlines are rounded up to this, so that pulls which began together end together.
_TICK_S: Final = 0.1

# Nobody waits longer, whatever the request says: a pull whose connection died unnoticed
# would stay for as long.
_LONGEST_WAIT_MS: Final = 120_000

# So many pulls run before other work gets its turn: about a millisecond's worth.
_PULLS_A_TURN: Final = 64

# A pull that wants more tags than this looks at each message, like one with an SQL filter:
# being entered under every tag would cost more memory than a pull may take.
_MOST_CODES: Final = 16


class Peer(Protocol):
    """The part of a connection that matters here."""

    @property
    def is_closing(self) -> bool: ...


class HeldPull:
    """One waiting pull: where it waits, what for, and how it is resumed."""

    __slots__ = (
        "codes",
        "deadline_tick",
        "follows",
        "is_waiting",
        "look",
        "offset",
        "peer",
        "queue",
        "queue_id",
        "resume",
        "topic",
    )

    queue: "_Queue"

    def __init__(
        self,
        *,
        topic: str,
        queue_id: int,
        offset: int,
        filter: MessageFilter | None,
        peer: Peer,
        resume: Callable[[int], None],
        look: Callable[[int], int | None],
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        # The next offset that might interest it. Moves on over messages its filter refused,
        # so that they need not be looked at again.
        self.offset = offset
        # Called once, with the offset to go on from.
        self.resume = resume
        # Where messages from an offset on end of which none passes the filter; None if one does.
        self.look = look
        self.peer = peer
        self.deadline_tick = 0
        self.is_waiting = False
        self.follows = False  # whether it has seen everything that arrived while it waits
        # The tags it wants: none for everything, None where the code alone does not tell.
        self.codes: frozenset[int] | None = frozenset()
        if filter is not None:
            is_short = isinstance(filter, TagFilter) and len(filter.codes) <= _MOST_CODES
            self.codes = filter.codes if isinstance(filter, TagFilter) and is_short else None


class _Queue:
    """Who waits for messages of one queue."""

    __slots__ = (
        "by_code",
        "count",
        "end",
        "everything",
        "has_news",
        "looking",
        "queue_id",
        "topic",
        "unbroken_from",
    )

    def __init__(self, topic: str, queue_id: int, end: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.count = 0
        self.everything: dict[HeldPull, None] = {}
        self.by_code: dict[int, dict[HeldPull, None]] = {}
        self.looking: dict[HeldPull, None] = {}
        # Every message between these two arrived here, and was held against who waited.
        self.unbroken_from = end
        self.end = end
        self.has_news = False  # those who look have not looked at all of it

    def add(self, pull: HeldPull) -> None:
        self.count += 1
        if pull.codes is None:
            self.looking[pull] = None
        elif not pull.codes:
            self.everything[pull] = None
        else:
            for code in pull.codes:
                self.by_code.setdefault(code, {})[pull] = None

    def remove(self, pull: HeldPull) -> None:
        self.count -= 1
        if pull.codes is None:
            self.looking.pop(pull, None)
        elif not pull.codes:
            self.everything.pop(pull, None)
        else:
            for code in pull.codes:
                group = self.by_code.get(code)
                if group is not None:
                    group.pop(pull, None)
                    if not group:
                        del self.by_code[code]


class _Woken(NamedTuple):
    """Pulls to be run, and what is known about the messages they waited for."""

    pulls: Iterator[HeldPull]
    # The messages from `refused_from` up to `refused_to` do not pass their filters.
    refused_from: int
    refused_to: int
    # Whoever waits for a later message than this was woken too early.
    end: int | None


class LongPolling:
    """All pulls that wait. Used in the loop only."""

    def __init__(
        self,
        clock: Clock,
        *,
        limit: int,
        peer_limit: int,
        listen: Callable[[ArrivalListener | None], None] | None = None,
    ) -> None:
        """`listen` is given `on_arrival` while somebody waits, and None while nobody does."""
        self._clock = clock
        self._limit = limit
        self._peer_limit = peer_limit
        self._listen = listen
        self._queues: dict[str, dict[int, _Queue]] = {}
        self._by_deadline: dict[int, dict[HeldPull, None]] = {}
        self._by_peer: dict[Peer, dict[HeldPull, None]] = {}
        self._deadlines: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0
        self._woken: deque[_Woken] = deque()
        self._looks: deque[Iterator[HeldPull]] = deque()
        self._is_turn_planned = False
        self._count = 0

    @property
    def held_count(self) -> int:
        return self._count

    def held_by(self, peer: Peer) -> int:
        """How many pulls of one connection wait."""
        return len(self._by_peer.get(peer, ()))

    # Waiting

    def hold(self, pull: HeldPull, timeout_ms: int) -> bool:
        """Keep a pull until something arrives or its time is over; False when too many wait."""
        if self._count >= self._limit:
            return False
        siblings = self._by_peer.setdefault(pull.peer, {})
        if len(siblings) >= self._peer_limit:
            return False
        siblings[pull] = None
        self._count += 1
        if self._count == 1 and self._listen is not None:
            self._listen(self.on_arrival)
        self._enter(pull)
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

    def _enter(self, pull: HeldPull) -> None:
        queues = self._queues.setdefault(pull.topic, {})
        queue = queues.get(pull.queue_id)
        if queue is None:
            queue = queues[pull.queue_id] = _Queue(pull.topic, pull.queue_id, pull.offset)
        pull.queue = queue
        pull.follows = pull.offset >= queue.end
        pull.is_waiting = True
        queue.add(pull)

    # Waking

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
        queue = queues.get(queue_id)
        if queue is None:
            return
        if queue.end != next_offset - 1:
            queue.unbroken_from = next_offset - 1
        queue.end = next_offset
        if queue.everything:
            self._wake(queue, queue.everything)
            queue.everything = {}
        if queue.by_code:
            group = queue.by_code.pop(tags_code, None)
            if group is not None:
                self._wake(queue, group)
        if queue.looking and not queue.has_news:
            queue.has_news = True
            self._looks.append(self._lookers(queue))
            self._plan_turn()

    def _wake(self, queue: _Queue, group: Iterable[HeldPull]) -> None:
        """The message at the end of the queue is one they wait for."""
        woken = _Woken(iter(group), queue.unbroken_from, queue.end - 1, queue.end)
        self._woken.append(woken)
        self._plan_turn()

    @staticmethod
    def _lookers(queue: _Queue) -> Iterator[HeldPull]:
        # What arrives from now on is news again, also for those that come first here.
        queue.has_news = False
        yield from list(queue.looking)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Run everything that waits on one queue, because its state has changed."""
        queue = self._queues.get(topic, {}).get(queue_id)
        if queue is not None:
            groups = [queue.everything, queue.looking, *queue.by_code.values()]
            for group in groups:
                self._woken.append(_Woken(iter(list(group)), 0, -1, None))
            self._plan_turn()

    def wake_all(self) -> None:
        """Have every pull run once more: what it would be told has changed."""
        for topic, queues in list(self._queues.items()):
            for queue_id in list(queues):
                self.wake_queue(topic, queue_id)

    def drop_peer(self, peer: Peer) -> None:
        """Forget the pulls of a connection that is gone."""
        pulls = self._by_peer.pop(peer, None)
        if pulls:
            self._woken.append(_Woken(iter(pulls), 0, -1, None))
            self._plan_turn()

    def expire(self) -> None:
        """Run every pull whose time is over, the first of them now."""
        now_tick = int(self._clock.monotonic() / _TICK_S)
        while self._deadlines and self._deadlines[0] <= now_tick:
            group = self._by_deadline.pop(heapq.heappop(self._deadlines))
            self._woken.append(_Woken(iter(group), 0, -1, None))
        self._arm()
        self._run_woken()
        if self._woken:
            self._plan_turn()

    def close(self) -> None:
        """Stop waiting; what is held stays unanswered, as its connection is about to close."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queues.clear()
        self._by_deadline.clear()
        self._by_peer.clear()
        self._deadlines.clear()
        self._woken.clear()
        self._looks.clear()
        self._count = 0

    # Running

    def _plan_turn(self) -> None:
        if not self._is_turn_planned:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_planned = False
        self._look_once()
        self._run_woken()
        if self._woken or self._looks:
            self._plan_turn()

    def _look_once(self) -> None:
        """Let one pull look whether what has arrived is for it."""
        while self._looks:
            pull = next(self._looks[0], None)
            if pull is None:
                self._looks.popleft()
            elif pull.is_waiting and (pull.offset < pull.queue.end or pull.peer.is_closing):
                self._look(pull)
                return

    def _look(self, pull: HeldPull) -> None:
        try:
            seen_to = None if pull.peer.is_closing else pull.look(pull.offset)
        except Exception:
            logger.exception("a waiting pull of %s/%d cannot look", pull.topic, pull.queue_id)
            seen_to = None
        if seen_to is None:
            self._remove(pull)
            self._resume(pull)
        elif seen_to > pull.offset:
            pull.offset = seen_to
            if seen_to < pull.queue.end and not pull.queue.has_news:
                # It could not look at everything at once.
                pull.queue.has_news = True
                self._looks.append(self._lookers(pull.queue))

    def _run_woken(self) -> None:
        """Run a few of those that were woken; those woken together run together."""
        running: list[HeldPull] = []
        while self._woken and len(running) < _PULLS_A_TURN:
            woken = self._woken[0]
            pull = next(woken.pulls, None)
            if pull is None:
                self._woken.popleft()
            elif not pull.is_waiting:
                continue
            elif woken.end is not None and pull.offset >= woken.end:
                pull.queue.remove(pull)
                self._enter(pull)
            else:
                if pull.follows and woken.refused_from <= pull.offset <= woken.refused_to:
                    pull.offset = woken.refused_to
                elif pull.follows and woken.end is None and pull.codes is not None:
                    self._pass_over_refused(pull)
                self._remove(pull)
                running.append(pull)
        for pull in running:
            self._resume(pull)

    @staticmethod
    def _pass_over_refused(pull: HeldPull) -> None:
        """Whatever arrived while it waited would have woken it, if it had wanted it."""
        if pull.codes and pull.queue.unbroken_from <= pull.offset <= pull.queue.end:
            pull.offset = pull.queue.end

    def _resume(self, pull: HeldPull) -> None:
        if pull.peer.is_closing:
            return
        try:
            pull.resume(pull.offset)
        except Exception:
            logger.exception("a waiting pull of %s/%d failed", pull.topic, pull.queue_id)

    def _remove(self, pull: HeldPull) -> None:
        pull.is_waiting = False
        queue = pull.queue
        queue.remove(pull)
        if queue.count == 0:
            queues = self._queues.get(queue.topic)
            if queues is not None and queues.get(queue.queue_id) is queue:
                del queues[queue.queue_id]
                if not queues:
                    del self._queues[queue.topic]
        # A group stays even when empty: its tick is in the heap, and leaves with it.
        group = self._by_deadline.get(pull.deadline_tick)
        if group is not None:
            group.pop(pull, None)
        siblings = self._by_peer.get(pull.peer)
        if siblings is not None:
            siblings.pop(pull, None)
            if not siblings:
                del self._by_peer[pull.peer]
        self._count -= 1
        if self._count == 0 and self._listen is not None:
            self._listen(None)

    # The timer

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
