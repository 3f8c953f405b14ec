"""The queues a consumer holds that fetches ahead, each with its process queue and pull loop.

    taking       (orderly: lock at the broker) → find the start → process queue → pull loop
    releasing    stop pulling → (orderly: let the listener finish) → store the offset → (unlock)
    restarting   the same queue again from another offset, when the broker refused the old one
                 or an administrator has set a new one; late results of before do not count

Changes come one after the other: from the rebalance, from resets, from the end.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.options import FetchConfig
from rocketq.client.consumer.process_queue import FlowLimits, ProcessQueue
from rocketq.client.consumer.pull_loop import PullLoop, PullOwner
from rocketq.client.consumer.queue_locks import QueueLocks
from rocketq.client.consumer.start_offset import start_offset
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_FINISH_BEFORE_UNLOCK_S: Final = 0.5
_FORCE_UNLOCK_AFTER_MS: Final = 20_000
_FINISH_BEFORE_RESTART_S: Final = 10.0


class HeldQueue(NamedTuple):
    """One queue that is held."""

    process_queue: ProcessQueue
    loop: PullLoop


class QueueOwner(PullOwner, Protocol):
    """What is asked of the consumer whose queues these are."""

    @property
    def config(self) -> FetchConfig: ...

    def queue_taken(self, queue: MessageQueue, offset: int) -> None:
        """A queue is consumed from this offset on, for the first time or anew."""
        ...

    def queue_dropped(self, process_queue: ProcessQueue) -> None:
        """What is cached of a queue does not count any more."""
        ...

    def assignment_changed(
        self, topic: str, everyones: Sequence[MessageQueue], held: Sequence[MessageQueue]
    ) -> None:
        """Other queues of a topic are held than before."""
        ...


class HeldQueues:
    """Takes and releases queues for one consumer. Belongs to its loop."""

    def __init__(
        self, owner: QueueOwner, limits: FlowLimits, *, locks: QueueLocks | None = None
    ) -> None:
        self._owner = owner
        self._offsets: OffsetStore = owner.offsets
        self._limits = limits
        self._locks = locks
        self._starts_from = owner.config.starts_from
        self._start_ms = owner.config.start_ms(owner.instance.clock.now_ms())
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._changing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, queue: object) -> bool:
        return queue in self._held

    def queues(self) -> Collection[MessageQueue]:
        return self._held.keys()

    def process_queues(self) -> Iterator[ProcessQueue]:
        return (held.process_queue for held in list(self._held.values()))

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        """Hold exactly these queues of a topic; False when some could not be had or released."""
        async with self._changing:
            changed = await self._release_all_but(topic, set(mine))
            changed |= await self._take([queue for queue in mine if queue not in self._held])
        held = sorted(queue for queue in self._held if queue.topic == topic)
        if changed:
            self._owner.assignment_changed(topic, everyones, held)
        return set(held) == set(mine)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        """Release the queues of all topics but these; False when some had to be kept for now."""
        async with self._changing:
            others = {queue.topic for queue in self._held} - set(topics)
            for topic in others:
                await self._release_all_but(topic, set())
        return not any(queue.topic in others for queue in self._held)

    async def restart(self, offsets: Mapping[MessageQueue, int], *, commit: bool = True) -> None:
        """Consume these queues again from other offsets, which are stored if `commit`."""
        async with self._changing:
            before = {queue: self._held[queue] for queue in offsets if queue in self._held}
            for held in before.values():
                held.process_queue.drop()
            for queue, held in before.items():
                await held.loop.stop()
                if self._locks is not None:
                    # In order means that the old run must be over before the new one begins.
                    await held.process_queue.quiet(_FINISH_BEFORE_RESTART_S)
                self._owner.queue_dropped(held.process_queue)
                if commit:
                    self._offsets.update(queue, offsets[queue])
            if commit:
                await self._offsets.persist(list(before), acknowledged=True)
            for queue, held in before.items():
                logger.info("consuming %s from offset %d", queue, offsets[queue])
                self._add(queue, offsets[queue], held.process_queue)

    async def stop_pulling(self) -> None:
        """Pull no more; what the listener has may be finished."""
        async with self._changing:
            for held in self._held.values():
                held.process_queue.retire()
            await asyncio.gather(*(held.loop.stop() for held in self._held.values()))

    async def release_at_end(self) -> None:
        """Store all offsets, give all locks back, hold nothing any more."""
        async with self._changing:
            queues = list(self._held)
            await self._offsets.persist(queues, acknowledged=True)
            if self._locks is not None and queues:
                await self._locks.unlock(queues, acknowledged=True)
            for held in self._held.values():
                held.process_queue.drop()
            self._held.clear()

    # Taking

    async def _take(self, queues: Sequence[MessageQueue]) -> bool:
        if self._locks is not None and queues:
            granted, _ = await self._locks.lock(queues)
            for queue in sorted(set(queues) - granted):
                logger.info("%s is still locked by another client", queue)
            queues = sorted(granted & set(queues))
        for queue in queues:
            self._offsets.forget(queue)
        starts = await asyncio.gather(
            *(self._start_offset(queue) for queue in queues), return_exceptions=True
        )
        taken = False
        for queue, start in zip(queues, starts, strict=True):
            if isinstance(start, RocketqError):
                logger.warning("%s is not consumed yet, its start is unknown: %s", queue, start)
            elif isinstance(start, BaseException):
                raise start
            else:
                self._add(queue, start)
                taken = True
        return taken

    async def _start_offset(self, queue: MessageQueue) -> int:
        return await start_offset(
            self._owner.instance, self._offsets, queue, self._starts_from, self._start_ms
        )

    def _add(self, queue: MessageQueue, offset: int, before: ProcessQueue | None = None) -> None:
        now_ms = self._owner.instance.clock.now_ms()
        process_queue = ProcessQueue(queue, self._limits, now_ms)
        if self._locks is not None:
            process_queue.locked = before is None or before.locked
            process_queue.last_lock_ms = now_ms if before is None else before.last_lock_ms
        loop = PullLoop(self._owner, process_queue, offset)
        self._held[queue] = HeldQueue(process_queue, loop)
        self._owner.queue_taken(queue, offset)
        loop.start()

    # Releasing

    async def _release_all_but(self, topic: str, wanted: set[MessageQueue]) -> bool:
        released = False
        for queue, held in list(self._held.items()):
            if queue.topic != topic:
                continue
            if queue in wanted and not held.process_queue.retired and held.loop.is_alive:
                continue
            released |= await self._release(queue, held)
        return released

    async def _release(self, queue: MessageQueue, held: HeldQueue) -> bool:
        process_queue = held.process_queue
        if self._locks is None:
            process_queue.drop()
            await held.loop.stop()
            await self._offsets.persist([queue])
        else:
            process_queue.retire()
            await held.loop.stop()
            if not await self._may_unlock(process_queue):
                return False
            process_queue.drop()
            # The next owner may ask for the offset as soon as it has the lock.
            await self._offsets.persist([queue], acknowledged=True)
            await self._locks.unlock([queue])
        self._owner.queue_dropped(process_queue)
        self._offsets.forget(queue)
        del self._held[queue]
        return True

    async def _may_unlock(self, process_queue: ProcessQueue) -> bool:
        if await process_queue.quiet(_FINISH_BEFORE_UNLOCK_S):
            return True
        process_queue.try_unlock_times += 1
        now_ms = self._owner.instance.clock.now_ms()
        if now_ms - process_queue.last_lock_ms > _FORCE_UNLOCK_AFTER_MS:
            logger.warning(
                "%s is given away although the listener still has messages of it",
                process_queue.queue,
            )
            return True
        logger.info("%s waits for its listener before it is given away", process_queue.queue)
        return False
