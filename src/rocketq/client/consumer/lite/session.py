"""A lite pull consumer at work: queues held, messages cached, positions kept.

Each queue has a position (the next message its user has not got yet) and a finished position
(what the user had got when asking for more, and so is done with). Automatic commits use the
latter, so that a crash repeats a batch rather than losing it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.allocation import AllocationStrategy
from rocketq.client.consumer.held_queues import AssignmentListener, tell_assignment
from rocketq.client.consumer.offset_store import LocalOffsetStore, OffsetStore, RemoteOffsetStore
from rocketq.client.consumer.process_queue import FlowLimits, ProcessQueue
from rocketq.client.consumer.pull_loop import PullLoop, PullSettings
from rocketq.client.consumer.rebalance import Rebalance, RebalanceTiming
from rocketq.client.consumer.running_info import running_info
from rocketq.client.consumer.start_offset import ConsumeFrom, start_offset
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.consumer.subscription import EVERYTHING, Subscription, Subscriptions
from rocketq.client.errors import InvalidState
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo

logger = logging.getLogger(__name__)

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
_NO_START_DELAY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullSettings:
    """How a lite pull consumer works; `LitePullConsumer` explains the options."""

    group: str
    message_model: str
    consume_from: ConsumeFrom
    consume_timestamp_ms: int
    allocation: AllocationStrategy
    pull: PullSettings
    limits: FlowLimits
    pull_threshold_for_all: int
    rebalance: RebalanceTiming
    offset_folder: Path | None

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == "BROADCASTING"


class HeldQueue:
    """One queue of a lite pull consumer."""

    __slots__ = ("finished", "loop", "paused", "position", "process_queue")

    def __init__(self, process_queue: ProcessQueue, loop: PullLoop, position: int) -> None:
        self.process_queue = process_queue
        self.loop = loop
        self.position = position
        self.finished = position
        self.paused = False


class LitePullSession:
    """One lite pull consumer from its start to its close. Belongs to one event loop."""

    def __init__(
        self,
        instance: ClientInstance,
        settings: LitePullSettings,
        subscriptions: Subscriptions,
        expressions: Mapping[str, Subscription],
        *,
        on_assignment: Callable[[str], AssignmentListener | None],
    ) -> None:
        self.instance = instance
        self.settings = settings
        self.subscriptions = subscriptions
        self.group = wrap_namespace(instance.config.namespace, settings.group)
        self.started_ms = instance.clock.now_ms()
        self.statistics = ConsumerStatistics(instance.clock)
        self.pull_settings = settings.pull
        self.offsets: OffsetStore
        if settings.is_broadcasting:
            self.offsets = LocalOffsetStore.of(
                settings.offset_folder, instance.client_id, self.group
            )
        else:
            self.offsets = RemoteOffsetStore(instance, self.group)
        self.rebalance = Rebalance(
            self,
            instance,
            self.group,
            strategy=settings.allocation,
            is_broadcasting=settings.is_broadcasting,
            timing=settings.rebalance,
        )
        self._expressions = expressions
        self._everything: dict[str, Subscription] = {}
        self._on_assignment = on_assignment
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._paused: set[MessageQueue] = set()
        self._ready: deque[ProcessQueue] = deque()
        self._cached = 0
        self._changing = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._resumed = asyncio.Event()
        self._is_registered = False
        self._is_closing = False
        self._is_assigned = False  # by hand: nothing is shared, nothing given away
        self._retry: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------ life

    async def start(self, assigned: Sequence[MessageQueue] | None) -> None:
        """Begin; with fixed queues when the user assigned them, else by rebalance."""
        await self.offsets.load()
        self.subscriptions.refresh(self.instance.clock.now_ms())
        self.instance.register_consumer(self)
        self._is_registered = True
        topics = {queue.topic for queue in assigned or ()} | set(self.topics())
        await asyncio.gather(*(self._find_route(topic) for topic in topics))
        await self.instance.heartbeat()
        if assigned is None:
            await self.rebalance.start()
        else:
            await self.assign(assigned)

    async def close(self) -> None:
        """Stop pulling, store what was committed, leave the group."""
        self._is_closing = True
        self._arrived.set()  # nobody has to wait for messages any longer
        try:
            await self.rebalance.stop()
            if self._retry is not None:
                self._retry.cancel()
                await asyncio.wait([self._retry])
            async with self._changing:
                for held in self._held.values():
                    held.process_queue.drop()
                await asyncio.gather(*(held.loop.stop() for held in self._held.values()))
                await self.offsets.persist(list(self._held), acknowledged=True)
                self._held.clear()
            if self._is_registered:
                await self.instance.unregister_consumer(self.group)
        finally:
            await self.instance.release()

    async def _find_route(self, topic: str) -> None:
        try:
            await self.instance.routes.subscribe_queues(topic)
        except RocketqError as error:
            logger.debug("no route of %s at the start of %s: %s", topic, self.group, error)

    # -------------------------------------------------------------------- messages

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
        held = self._held.get(queue)
        if held is not None:
            held.position = offset

    def finish(self, queue: MessageQueue, offset: int) -> None:
        """The user is done with everything of the queue below this offset."""
        held = self._held.get(queue)
        if held is not None:
            held.position = held.finished = offset

    def finish_all(self) -> None:
        """The user asks for more, and so is done with all that was handed out."""
        for held in self._held.values():
            held.finished = held.position

    def _uncached(self, count: int) -> None:
        self._cached -= count
        if self._cached <= self.settings.pull_threshold_for_all:
            self._room.set()

    # --------------------------------------------------------------------- offsets

    def commit(
        self, queues: Iterable[MessageQueue] | None = None, *, finished: bool = False
    ) -> None:
        """Put positions into the offset store."""
        for queue in list(self._held) if queues is None else queues:
            held = self._held.get(queue)
            if held is None:
                continue
            offset = held.finished if finished else held.position
            if offset >= 0:
                self.offsets.update(queue, offset)

    async def persist(self) -> None:
        await self.offsets.persist(list(self._held), acknowledged=True)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from another offset; what is cached of the queue is dropped."""
        async with self._changing:
            held = self._held.get(queue)
            if held is None:
                raise InvalidState(f"{queue} is not assigned to this consumer (any more)")
            await self._drop(queue, held)
            self._add(queue, offset)

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The first offset there is, and the one after the last."""
        address = (await self.instance.routes.broker_of(queue)).address
        api = self.instance.api
        return await api.min_offset(address, queue), await api.max_offset(address, queue)

    # ---------------------------------------------------------------------- queues

    def queues(self) -> Collection[MessageQueue]:
        return self._held.keys()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._paused.difference_update(queues)
        self._resumed.set()
        self._resumed = asyncio.Event()

    async def assign(self, queues: Sequence[MessageQueue]) -> None:
        """Hold exactly these queues, of whatever topics."""
        self._is_assigned = True
        wanted = set(queues)
        complete = True
        for topic in {queue.topic for queue in (*self._held, *wanted)}:
            mine = sorted(queue for queue in wanted if queue.topic == topic)
            complete &= await self.hold(topic, mine, mine)
        if not complete:
            # There is no rebalance to come back to it.
            self._retry = asyncio.create_task(
                self._assign_again(queues), name=f"rocketq-assign-{self.group}"
            )

    async def _assign_again(self, queues: Sequence[MessageQueue]) -> None:
        await asyncio.sleep(_NO_START_DELAY_S)
        await self.assign(queues)

    def subscribed_topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        async with self._changing:
            held_before = {queue for queue in self._held if queue.topic == topic}
            for queue in held_before - set(mine):
                await self._release(queue, self._held[queue])
            new = [queue for queue in mine if queue not in self._held]
            for queue in new:
                self.offsets.forget(queue)
            starts = await asyncio.gather(
                *(self._start_offset(queue) for queue in new), return_exceptions=True
            )
            for queue, start in zip(new, starts, strict=True):
                if isinstance(start, RocketqError):
                    logger.warning("%s is not pulled yet, its start is unknown: %s", queue, start)
                elif isinstance(start, BaseException):
                    raise start
                else:
                    self._add(queue, start)
        held = {queue for queue in self._held if queue.topic == topic}
        if held != held_before:
            self._changed(topic, everyones, sorted(held))
        return held == set(mine)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        if self._is_assigned:
            return True
        async with self._changing:
            for queue, held in list(self._held.items()):
                if queue.topic not in topics:
                    await self._release(queue, held)
        return True

    def _changed(
        self, topic: str, everyones: Sequence[MessageQueue], held: Sequence[MessageQueue]
    ) -> None:
        logger.info("%s now has %d queues of %s", self.group, len(held), topic)
        self.subscriptions.raise_version(topic, self.instance.clock.now_ms())
        self.instance.heartbeat_soon()
        namespace = self.instance.config.namespace
        tell_assignment(self._on_assignment(topic), namespace, topic, everyones, held)

    async def _start_offset(self, queue: MessageQueue) -> int:
        return await start_offset(
            self.instance,
            self.offsets,
            queue,
            self.settings.consume_from,
            self.settings.consume_timestamp_ms,
        )

    def _add(self, queue: MessageQueue, offset: int) -> None:
        now_ms = self.instance.clock.now_ms()
        process_queue = ProcessQueue(queue, self.settings.limits, now_ms)
        loop = PullLoop(self, process_queue, offset)
        self._held[queue] = HeldQueue(process_queue, loop, offset)
        loop.start()

    async def _drop(self, queue: MessageQueue, held: HeldQueue) -> None:
        held.process_queue.drop()
        await held.loop.stop()
        self._uncached(held.process_queue.count)
        del self._held[queue]

    async def _release(self, queue: MessageQueue, held: HeldQueue) -> None:
        await self._drop(queue, held)
        await self.offsets.persist([queue])
        self.offsets.forget(queue)

    # ----------------------------------------------------------- for the pull loops

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
        if self._cached > self.settings.pull_threshold_for_all:
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
        held = self._held.get(process_queue.queue)
        if held is not None and offset > held.position:
            if held.finished == held.position:
                held.finished = offset
            held.position = offset

    def offset_moved(self, process_queue: ProcessQueue, offset: int) -> bool:
        held = self._held.get(process_queue.queue)
        if held is not None and process_queue.count == 0:
            held.position = held.finished = offset
        return True

    # ------------------------------------------------------- for the client instance

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_ACTIVELY,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from.value,
            subscription_data_set=[subscription.data() for subscription in self.subscriptions],
        )

    def topics(self) -> Sequence[str]:
        return [*self.subscriptions.topics(), *{queue.topic for queue in self._held}]

    def routes_changed(self, topic: str) -> None:
        self.rebalance.soon()

    def rebalance_soon(self) -> None:
        self.rebalance.soon()

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self._held))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if queue in self._held:
                await self.seek(queue, offset)
                self.offsets.update(queue, offset)
        await self.persist()

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.snapshot(topic)

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        return running_info(
            self.instance,
            settings=self.settings,
            consume_type=CONSUME_ACTIVELY,
            is_orderly=False,
            concurrency=0,
            started_ms=self.started_ms,
            subscriptions=self.subscriptions,
            process_queues=[held.process_queue for held in self._held.values()],
            offsets=self.offsets,
            statistics=self.statistics,
            with_stacks=with_stacks,
        )

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        raise InvalidState(f"{self.group} polls for its messages: there is no listener to call")
