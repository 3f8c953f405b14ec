"""What a consumer holds of one queue: pulled, being consumed, and how far it may commit.

Messages arrive in order of offset and mostly leave in that order, so no sorted map is needed:

    committed | taken: piece, piece (done), piece | waiting: message, message, ...   | next pull
              ^ offset to commit                                                     ^ max + 1

A *piece* is what a listener consumes in a row. Pieces are cut from the front of the waiting
messages and stay in their order until everything before them is done as well: a slow message
holds the committed offset back while later ones are finished, and a crash repeats those. Each
step costs the same however much is cached.

Touched by the consumer's event loop alone; a listener's thread only reads `dropped` and the
messages of its piece.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rocketq.client.consumer.push.listener import ConsumeStatus, Delivery
from rocketq.client.hooks import ConsumeContext
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue

Failure = tuple[MessageExt, int]
"""A message and the delay level after which it is to come again."""

NOTHING_TO_COMMIT: Final = -1
LOCK_VALID_MS: Final = 30_000
"""A lock not renewed for this long is no longer relied on; brokers keep it twice as long."""


@dataclass(slots=True)
class FlowLimits:
    """When a queue has enough cached and pulling pauses. Shared by a consumer's queues."""

    count: int
    size: int
    span: int | None = None
    """Largest offset minus smallest; None where messages are consumed strictly in order."""


class Piece:
    """Messages that a listener consumes in a row: in one call, or one by one.

    While it is at the listener, `position` and what follows it belong to whoever runs that.
    """

    __slots__ = (
        "began_at",
        "context",
        "delivery",
        "error",
        "failures",
        "first_offset",
        "is_done",
        "is_running",
        "messages",
        "position",
        "process_queue",
        "size",
        "started_at",
        "status",
    )

    def __init__(self, process_queue: "ProcessQueue", messages: list[MessageExt]) -> None:
        self.process_queue = process_queue
        self.messages = messages
        self.first_offset = messages[0].queue_offset
        self.size = sum([len(message.record) for message in messages])
        self.is_done = False
        self.context: ConsumeContext | None = None  # of the hooks, when there are any
        self.restart()

    def restart(self) -> None:
        """Nothing of it is consumed (any more)."""
        self.is_running = False
        self.position = 0  # messages before this one are consumed, or have failed
        self.failures: list[Failure] = []
        self.started_at = 0.0  # of the first call, by the monotonic clock
        self.began_at = 0.0  # of the latest call
        self.delivery: Delivery | None = None  # and what came of it
        self.status: ConsumeStatus | None = None
        self.error: BaseException | None = None

    @property
    def queue(self) -> MessageQueue:
        return self.process_queue.queue

    @property
    def rest(self) -> list[MessageExt]:
        """What was not consumed, because the queue is about to go."""
        return self.messages[self.position :]


class ProcessQueue:
    """The messages of one queue between the pull and the commit."""

    __slots__ = (
        "_quiet",
        "_room",
        "at_listener",
        "count",
        "dropped",
        "is_consuming",
        "last_consume_ms",
        "last_lock_ms",
        "last_pull_ms",
        "limits",
        "locked",
        "max_offset",
        "queue",
        "retired",
        "size",
        "taken",
        "try_unlock_times",
        "waiting",
    )

    def __init__(self, queue: MessageQueue, limits: FlowLimits, now_ms: int) -> None:
        self.queue = queue
        self.limits = limits
        self.waiting: deque[MessageExt] = deque()
        self.taken: deque[Piece] = deque()
        self.count = 0
        self.size = 0
        self.max_offset = -1
        self.retired = False  # nothing more is pulled or handed out, results still count
        self.dropped = False  # nothing counts any more
        self.at_listener = 0  # pieces handed to the runner and not come back
        self.is_consuming = False  # orderly: a piece is out, or the queue waits for its turn
        self.locked = False
        self.last_lock_ms = now_ms
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.try_unlock_times = 0
        self._room: asyncio.Future[None] | None = None
        self._quiet: asyncio.Future[None] | None = None

    def put(self, messages: Sequence[MessageExt]) -> None:
        """Add pulled messages; their offsets are above all that came before."""
        self.waiting.extend(messages)
        self.count += len(messages)
        self.size += sum([len(message.record) for message in messages])
        self.max_offset = messages[-1].queue_offset

    def take(self, limit: int) -> Piece | None:
        """Cut the next piece, of at most `limit` messages."""
        waiting = self.waiting
        if not waiting:
            return None
        if len(waiting) <= limit:
            messages = list(waiting)
            waiting.clear()
        else:
            messages = [waiting.popleft() for _ in range(limit)]
        piece = Piece(self, messages)
        self.taken.append(piece)
        return piece

    def finish(self, piece: Piece) -> int:
        """Remove a piece and say which offset may be committed now."""
        assert not piece.is_done, piece.first_offset
        piece.is_done = True
        self._forget(len(piece.messages), piece.size)
        taken = self.taken
        while taken and taken[0].is_done:
            taken.popleft()
        return self.commit_offset

    def keep(self, piece: Piece, remaining: list[MessageExt]) -> None:
        """Some of a piece is finished: the rest stays cached, in its place."""
        assert remaining, piece.first_offset
        size = sum([len(message.record) for message in remaining])
        self._forget(len(piece.messages) - len(remaining), piece.size - size)
        piece.messages = remaining
        piece.size = size
        piece.first_offset = remaining[0].queue_offset

    def split(self, piece: Piece, at: int) -> Piece | None:
        """Make what follows a position a piece of its own, behind this one."""
        messages = piece.messages
        if at >= len(messages):
            return None
        rest = Piece(self, messages[at:])
        piece.messages = messages[:at]
        piece.size -= rest.size
        self.taken.insert(self.taken.index(piece) + 1, rest)
        return rest

    def commit_taken(self) -> int:
        """Orderly: all that was taken is consumed. Answers the offset to commit."""
        if not self.taken:
            return NOTHING_TO_COMMIT
        offset = self.taken[-1].messages[-1].queue_offset + 1
        for piece in self.taken:
            piece.is_done = True
            self._forget(len(piece.messages), piece.size)
        self.taken.clear()
        return offset

    def give_back(self, piece: Piece) -> None:
        """Orderly: the piece is to be taken again, first."""
        assert self.taken[-1] is piece, piece.first_offset
        self.taken.pop()
        self.waiting.extendleft(reversed(piece.messages))

    def give_back_taken(self) -> None:
        """Orderly: everything taken since the last commit is to be taken again."""
        while self.taken:
            self.give_back(self.taken[-1])

    @property
    def commit_offset(self) -> int:
        """Everything below is consumed; `NOTHING_TO_COMMIT` before the first pull found any."""
        if self.taken:
            return self.taken[0].first_offset
        if self.waiting:
            return self.waiting[0].queue_offset
        return self.max_offset + 1 if self.max_offset >= 0 else NOTHING_TO_COMMIT

    @property
    def min_offset(self) -> int:
        """The smallest offset still cached, -1 when there is none."""
        return self.commit_offset if self.count else -1

    @property
    def span(self) -> int:
        return self.max_offset - self.commit_offset if self.count else 0

    @property
    def has_room(self) -> bool:
        """Whether another pull fits within the limits."""
        limits = self.limits
        return (
            self.count <= limits.count
            and self.size <= limits.size
            and (limits.span is None or self.span <= limits.span)
        )

    async def room(self) -> None:
        """Wait until another pull fits, or none is wanted any more."""
        while not self.has_room and not self.retired:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def wake_puller(self) -> None:
        """Let a pull that waits for room look again."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def came_back(self) -> None:
        """A piece has left the listener."""
        self.at_listener -= 1
        if self.at_listener == 0 and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    async def quiet(self, timeout_s: float) -> bool:
        """Wait until the listener has nothing of this queue; False when that takes too long."""
        if self.at_listener == 0:
            return True
        if self._quiet is None or self._quiet.done():
            self._quiet = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._quiet], timeout=timeout_s)
        return bool(done)

    def retire(self) -> None:
        """The queue is about to go: what the listener has may be finished, no more is begun."""
        self.retired = True
        self.wake_puller()

    def drop(self) -> None:
        """The queue belongs to someone else now: nothing of it may be committed any more."""
        self.dropped = True
        self.retire()

    def is_lock_valid(self, now_ms: int) -> bool:
        """Orderly: whether the broker's lock can still be ours."""
        return self.locked and now_ms - self.last_lock_ms < LOCK_VALID_MS

    def _forget(self, count: int, size: int) -> None:
        self.count -= count
        self.size -= size
        if self._room is not None and self.has_room:
            self.wake_puller()
