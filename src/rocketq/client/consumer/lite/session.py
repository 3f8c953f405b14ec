"""A lite pull consumer at work: queues held, messages cached, positions kept.

Each queue has a position (the next message its user has not got yet) and a finished position
(what the user had got when asking for more, and so is done with). Automatic commits use the
latter, so that a crash repeats a batch rather than losing it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.held_queues import HeldQueues
from rocketq.client.consumer.member import Member
from rocketq.client.consumer.options import LitePullConfig
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.client.consumer.rebalance import AssignmentListener
from rocketq.client.consumer.start_offset import max_offset, min_offset
from rocketq.client.consumer.subscription import EVERYTHING, Subscription, Subscriptions
from rocketq.client.errors import InvalidState
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue

_NO_START_DELAY_S: Final = 3.0


class Position:
    """How far the user of one queue is."""

    __slots__ = ("finished", "next")

    def __init__(self, offset: int) -> None:
        self.next = offset
        self.finished = offset


class LitePullSession(Member):
    """One lite pull consumer from its start to its close. Belongs to one event loop."""

    config: LitePullConfig

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: LitePullConfig,
        subscriptions: Subscriptions,
        expressions: Mapping[str, Subscription],
        *,
        assigned: Sequence[MessageQueue] | None,
        on_assignment: Callable[[str], AssignmentListener | None],
    ) -> None:
        """`assigned` are fixed queues of the user's choice; None: they are shared out."""
        super().__init__(instance, group, config, subscriptions)
        self.pull_settings = config.pull
        self.held = HeldQueues(self, config.limits)
        self._assigned = assigned
        self._expressions = expressions
        self._everything: dict[str, Subscription] = {}
        self._on_assignment = on_assignment
        self._positions: dict[MessageQueue, Position] = {}
        self._paused: set[MessageQueue] = set()
        self._ready: deque[ProcessQueue] = deque()
        self._cached = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._resumed = asyncio.Event()

    # Life

    async def begin(self) -> None:
        if self._assigned is None:
            await super().begin()
        else:
            await self.assign(self._assigned)

    async def close(self) -> None:
        self._arrived.set()  # nobody has to wait for messages any longer
        await super().close()

    async def end(self) -> None:
        await self.held.stop_pulling()
        await self.held.release_at_end()

    # Messages

    async def poll(self, limit: int, timeout_s: float) -> list[MessageExt]:
        """Messages of one queue, as soon as there are any; empty when the time is over."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            messages = self.take(limit)
            if messages or self._is_closing:
                return messages
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return self.take(limit)

    def take(self, limit: int) -> list[MessageExt]:
        """What is cached of the queue whose turn it is."""
        ready = self._ready
        while ready:
            process_queue = ready.popleft()
            if process_queue.dropped:
                continue
            piece = process_queue.take(limit)
            if piece is None:
                process_queue.is_consuming = False
                continue
            if process_queue.waiting:
                ready.append(process_queue)
            else:
                process_queue.is_consuming = False
            process_queue.finish(piece)
            process_queue.last_consume_ms = self.instance.clock.now_ms()
            self._uncached(len(piece.messages))
            return piece.messages
        return []

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """The user has got everything of the queue below this offset."""
        position = self._positions.get(queue)
        if position is not None:
            position.next = offset

    def finish(self, queue: MessageQueue, offset: int) -> None:
        """The user is done with everything of the queue below this offset."""
        position = self._positions.get(queue)
        if position is not None:
            position.next = position.finished = offset

    def finish_all(self) -> None:
        """The user asks for more, and so is done with all that was handed out."""
        for position in self._positions.values():
            position.finished = position.next

    def _uncached(self, count: int) -> None:
        self._cached -= count
        if self._cached <= self.config.pull_threshold_for_all:
            self._room.set()

    # Offsets

    def commit(
        self, queues: Iterable[MessageQueue] | None = None, *, finished: bool = False
    ) -> None:
        """Put positions into the offset store."""
        for queue in list(self._positions) if queues is None else queues:
            position = self._positions.get(queue)
            if position is None:
                continue
            offset = position.finished if finished else position.next
            if offset >= 0:
                self.offsets.update(queue, offset)

    async def persist(self) -> None:
        await self.offsets.persist(list(self.held.queues()), acknowledged=True)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from another offset; what is cached of the queue is dropped."""
        if queue not in self.held:
            raise InvalidState(f"{queue} is not assigned to this consumer (any more)")
        await self.held.restart({queue: offset}, commit=False)

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The first offset there is, and the one after the last."""
        return await min_offset(self.instance, queue), await max_offset(self.instance, queue)

    # Queues

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._paused.difference_update(queues)
        self._resumed.set()
        self._resumed = asyncio.Event()

    async def assign(self, queues: Sequence[MessageQueue]) -> None:
        """Hold exactly these queues, of whatever topics."""
        self._assigned = queues
        wanted = set(queues)
        complete = True
        for topic in {queue.topic for queue in (*self.held.queues(), *wanted)}:
            mine = sorted(queue for queue in wanted if queue.topic == topic)
            complete &= await self.hold(topic, mine, mine)
        if not complete:
            # There is no rebalance to come back to it.
            self.start_task(self._assign_again(queues), "assign")

    async def _assign_again(self, queues: Sequence[MessageQueue]) -> None:
        await asyncio.sleep(_NO_START_DELAY_S)
        if self._assigned is queues:
            await self.assign(queues)

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        return await self.held.hold(topic, mine, everyones)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        # What was assigned by hand is neither shared nor given away.
        return self._assigned is not None or await self.held.release_other_topics(topics)

    def assignment_listener(self, topic: str) -> AssignmentListener | None:
        return self._on_assignment(topic)

    def queue_taken(self, queue: MessageQueue, offset: int) -> None:
        self._positions[queue] = Position(offset)

    def queue_dropped(self, process_queue: ProcessQueue) -> None:
        self._uncached(process_queue.count)
        self._positions.pop(process_queue.queue, None)

    # For the pull loops

    def subscription(self, topic: str) -> Subscription | None:
        found = self.subscriptions.get(topic) or self._expressions.get(topic)
        if found is None:
            # Assigned without an expression: everything.
            found = self._everything.get(topic)
            if found is None:
                found = self._everything[topic] = Subscription(topic, EVERYTHING, 0)
        return found

    async def admit(self, process_queue: ProcessQueue) -> float:
        while process_queue.queue in self._paused:
            await self._resumed.wait()
        if not process_queue.has_room:
            await process_queue.room()
        if self._cached > self.config.pull_threshold_for_all:
            self._room.clear()
            await self._room.wait()
        return 0.0

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self._cached += len(messages)
        if not process_queue.is_consuming:
            process_queue.is_consuming = True
            self._ready.append(process_queue)
        self._arrived.set()

    def skipped(self, process_queue: ProcessQueue, offset: int) -> None:
        position = self._positions.get(process_queue.queue)
        if position is not None and offset > position.next:
            if position.finished == position.next:
                position.finished = offset
            position.next = offset

    def offset_moved(self, process_queue: ProcessQueue, offset: int) -> bool:
        position = self._positions.get(process_queue.queue)
        if position is not None and process_queue.count == 0:
            position.next = position.finished = offset
        return True

    # For the client instance

    def topics(self) -> Sequence[str]:
        chosen = (*self.held.queues(), *(self._assigned or ()))
        return [*self.subscriptions.topics(), *{queue.topic for queue in chosen}]

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self.held.queues()))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await self.held.restart(offsets)

    def process_queues(self) -> Iterable[ProcessQueue]:
        return self.held.process_queues()
