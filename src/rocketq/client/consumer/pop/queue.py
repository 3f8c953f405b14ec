"""The queues that a push consumer pops: what came, a loop for each, and how they are held.

taking      a pop queue and a loop that keeps a pop under way
releasing   stop the loop; what is cached and not consumed comes again, to whoever pops next
"""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import OUTAGES, is_outage
from rocketq.client.consumer.pop.requests import MOST_PER_POP, PopRequests
from rocketq.client.consumer.process_queue import FlowLimits, Piece, ProcessQueue
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.consumer.subscription import Subscription
from rocketq.client.errors import BrokerRejected
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import ResponseCode

logger = logging.getLogger(__name__)

_ERROR_DELAY_S: Final = 1.0
_BUSY_DELAY_S: Final = 0.02
_MOST_BYTES: Final = 1 << 40


class PopSettings(NamedTuple):
    """How the queues of one consumer are popped."""

    invisible_ms: int
    poll_ms: int
    threshold: int
    """Popping pauses with more messages not acknowledged."""
    from_first: bool
    max_reconsume_times: int


class PopQueue(ProcessQueue):
    """Popped messages that wait for the listener, as long as they are ours."""

    __slots__ = ("_batches", "_clock")

    def __init__(self, queue: MessageQueue, limits: FlowLimits, clock: Clock) -> None:
        super().__init__(queue, limits, clock.now_ms())
        self._clock = clock
        self._batches: deque[list[float]] = deque()

    def put_until(self, messages: Sequence[MessageExt], expires_at: float) -> None:
        """Add what a pop brought, and when it becomes visible to others again."""
        self._batches.append([expires_at, len(messages)])
        self.put(messages)

    def take(self, limit: int) -> Piece | None:
        """Cut the next piece; what others may have by now is passed over."""
        now = self._clock.monotonic()
        batches = self._batches
        while batches and batches[0][0] <= now:
            self._pass_over(int(batches.popleft()[1]))
        if not batches:
            return None
        piece = super().take(min(limit, int(batches[0][1])))
        if piece is not None:
            batches[0][1] -= len(piece.messages)
            if not batches[0][1]:
                batches.popleft()
        return piece

    def _pass_over(self, count: int) -> None:
        expired = [self.waiting.popleft() for _ in range(count)]
        self._forget(count, sum([len(message.record) for message in expired]))
        logger.warning(
            "%d messages of %s waited for the listener until they were visible again: "
            "they come another time",
            count,
            self.queue,
        )


class PopOwner(Protocol):
    """What is asked of the consumer whose queues these are."""

    instance: ClientInstance
    statistics: ConsumerStatistics
    pop_settings: PopSettings
    pop_requests: PopRequests

    def subscription(self, topic: str) -> Subscription | None: ...

    async def admit(self, process_queue: ProcessQueue) -> float:
        """Wait until the queue may be popped; above 0: not yet, ask again after that time."""
        ...

    def filtered(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """What the filters of the consumer leave."""
        ...

    def popped(self, queue: PopQueue) -> None:
        """Messages were put into the queue."""
        ...

    def give_up(self, messages: Sequence[MessageExt]) -> None:
        """Acknowledge messages that nobody is to see."""
        ...


class PopLoop:
    """Pops one queue until it retires."""

    __slots__ = ("_owner", "_queue", "_task")

    def __init__(self, owner: PopOwner, queue: PopQueue) -> None:
        self._owner = owner
        self._queue = queue
        self._task = asyncio.create_task(self._run(), name=f"rocketq-pop-{queue.queue}")

    @property
    def is_alive(self) -> bool:
        return not self._task.done()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._queue.retired:
            try:
                pause_s = await self._pop_once()
            except RocketqError as error:
                pause_s = self._failed(error)
            except Exception:
                logger.exception("popping %s failed", self._queue.queue)
                pause_s = _ERROR_DELAY_S
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _pop_once(self) -> float:
        owner, queue = self._owner, self._queue
        settings = owner.pop_settings
        pause_s = await owner.admit(queue)
        if pause_s or queue.retired:
            return pause_s
        subscription = owner.subscription(queue.queue.topic)
        if subscription is None:
            queue.retire()
            return 0.0
        clock = owner.instance.clock
        began_at = clock.monotonic()
        popped = await owner.pop_requests.pop(
            queue.queue,
            subscription,
            max_messages=MOST_PER_POP,
            invisible_ms=settings.invisible_ms,
            poll_ms=settings.poll_ms,
            from_first=settings.from_first,
        )
        now = clock.monotonic()
        queue.last_pull_ms = clock.now_ms()
        self._is_there()
        if not popped.messages:
            return _ERROR_DELAY_S if popped.is_full else 0.0
        owner.statistics.pulled(queue.queue.topic, len(popped.messages), (now - began_at) * 1000)
        messages = self._wanted(popped.messages)
        if messages:
            queue.put_until(messages, now + settings.invisible_ms / 1000)
            owner.popped(queue)
        return 0.0

    def _wanted(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Without those that came too often, or that a filter of the user leaves out."""
        most = self._owner.pop_settings.max_reconsume_times
        kept = self._owner.filtered([each for each in messages if each.reconsume_times <= most])
        if len(kept) < len(messages):
            ids = set(map(id, kept))
            left_out = [message for message in messages if id(message) not in ids]
            for message in left_out:
                if message.reconsume_times > most:
                    logger.warning(
                        "message %s of %s has come %d times and is given up",
                        message.msg_id,
                        message.topic,
                        message.reconsume_times + 1,
                    )
            self._owner.give_up(left_out)
        return kept

    def _is_there(self) -> None:
        address = self._owner.instance.routes.master(self._queue.queue.broker_name)
        if address is not None:
            OUTAGES.answered(f"broker {address}")

    def _failed(self, error: RocketqError) -> float:
        queue = self._queue.queue
        address = self._owner.instance.routes.master(queue.broker_name)
        if isinstance(error, BrokerRejected) and error.code == ResponseCode.FLOW_CONTROL:
            return _BUSY_DELAY_S
        if is_outage(error) and address is not None:
            OUTAGES.failed(f"broker {address}", error)
            self._owner.instance.refresh_route_soon(queue.topic)
        else:
            logger.warning("%s cannot be popped: %s", queue, error)
        return _ERROR_DELAY_S


class PoppedQueues:
    """Takes and releases queues to pop, for one consumer. Belongs to its loop."""

    def __init__(self, owner: PopOwner) -> None:
        self._owner = owner
        # Each queue of a broker has its own bound, as in RocketMQ.
        self._limits = FlowLimits(count=owner.pop_settings.threshold, size=_MOST_BYTES)
        self._held: dict[MessageQueue, tuple[PopQueue, PopLoop]] = {}

    def queues(self) -> Collection[MessageQueue]:
        return self._held.keys()

    def pop_queues(self) -> list[PopQueue]:
        """What is held of each."""
        return [pop_queue for pop_queue, _ in self._held.values()]

    async def hold(self, topic: str, mine: Sequence[MessageQueue]) -> bool:
        """Pop exactly these queues of a topic; whether that is a change."""
        changed = await self._release(
            [
                queue
                for queue, (pop_queue, loop) in self._held.items()
                if queue.topic == topic
                and (queue not in mine or pop_queue.retired or not loop.is_alive)
            ]
        )
        for queue in mine:
            if queue not in self._held:
                pop_queue = PopQueue(queue, self._limits, self._owner.instance.clock)
                self._held[queue] = pop_queue, PopLoop(self._owner, pop_queue)
                changed = True
        return changed

    async def release_other_topics(self, topics: Sequence[str]) -> None:
        await self._release([queue for queue in self._held if queue.topic not in topics])

    async def stop(self) -> None:
        """Pop no more; what the listener has may be finished, and acknowledged."""
        await self._release(list(self._held))

    async def _release(self, queues: Collection[MessageQueue]) -> bool:
        for queue in queues:
            pop_queue, loop = self._held.pop(queue)
            # Retired, not dropped: what the listener has is still ours to acknowledge.
            pop_queue.retire()
            await loop.stop()
        return bool(queues)
