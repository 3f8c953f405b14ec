"""The queues a push consumer holds, each with its process queue and its pull loop.

    taking       (orderly: lock at the broker) → find the start → process queue → pull loop
    releasing    stop pulling → (orderly: let the listener finish) → store the offset → (unlock)
    restarting   the same queue again from another offset, when the broker refused the old one
                 or an administrator has set a new one; late results of before do not count

Changes come one after the other: from the rebalance, from resets, from the end.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rocketq.client.callbacks import tell
from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.process_queue import FlowLimits, ProcessQueue
from rocketq.client.consumer.pull_loop import PullLoop, PullOwner
from rocketq.client.consumer.queue_locks import QueueLocks
from rocketq.client.consumer.start_offset import ConsumeFrom, start_offset
from rocketq.common.errors import RocketqError
from rocketq.message.names import unwrap_namespace
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_FINISH_BEFORE_UNLOCK_S = 0.5
_FORCE_UNLOCK_AFTER_MS = 20_000
_FINISH_BEFORE_RESTART_S = 10.0

AssignmentListener = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], None]
"""Told after a change: the topic, all its queues, and those held now."""


def tell_assignment(
    listener: AssignmentListener | None,
    namespace: str,
    topic: str,
    everyones: Sequence[MessageQueue],
    held: Sequence[MessageQueue],
) -> None:
    """Call a user's listener with the names the user knows; its failure changes nothing."""
    if listener is None:
        return
    bare = unwrap_namespace(namespace, topic)
    tell(
        "the assignment listener failed",
        listener,
        bare,
        [queue._replace(topic=bare) for queue in everyones],
        [queue._replace(topic=bare) for queue in held],
    )


class AssignedQueue(NamedTuple):
    """One queue that is held."""

    process_queue: ProcessQueue
    loop: PullLoop


class AssignedQueues:
    """Takes and releases queues for one push consumer. Belongs to its loop."""

    def __init__(
        self,
        owner: PullOwner,
        *,
        locks: QueueLocks | None,
        limits: FlowLimits,
        consume_from: ConsumeFrom,
        consume_timestamp_ms: int,
        on_change: AssignmentListener,
    ) -> None:
        self._owner = owner
        self._offsets: OffsetStore = owner.offsets
        self._locks = locks
        self._limits = limits
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms
        self._on_change = on_change
        self._assigned: dict[MessageQueue, AssignedQueue] = {}
        self._changing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._assigned)

    def queues(self) -> Collection[MessageQueue]:
        return self._assigned.keys()

    def process_queues(self) -> Iterator[ProcessQueue]:
        return (assigned.process_queue for assigned in list(self._assigned.values()))

    def holds(self, process_queue: ProcessQueue) -> bool:
        """Whether this is the process queue in use, and not one of before."""
        assigned = self._assigned.get(process_queue.queue)
        return assigned is not None and assigned.process_queue is process_queue

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        """Hold exactly these queues of a topic; False when some could not be had or released."""
        async with self._changing:
            changed = await self._release_all_but(topic, set(mine))
            changed |= await self._take([queue for queue in mine if queue not in self._assigned])
        held = [queue for queue in self._assigned if queue.topic == topic]
        if changed:
            logger.info(
                "%s now has %d of the %d queues of %s",
                self._owner.group,
                len(held),
                len(everyones),
                topic,
            )
            self._on_change(topic, everyones, held)
        return set(held) == set(mine)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        """Release the queues of all topics but these; False when some had to be kept for now."""
        async with self._changing:
            others = {queue.topic for queue in self._assigned} - set(topics)
            for topic in others:
                await self._release_all_but(topic, set())
        return not any(queue.topic in others for queue in self._assigned)

    async def restart(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Consume these queues again from other offsets."""
        async with self._changing:
            held = {queue: offset for queue, offset in offsets.items() if queue in self._assigned}
            before = {queue: self._assigned[queue] for queue in held}
            for assigned in before.values():
                assigned.process_queue.drop()
            for queue, assigned in before.items():
                await assigned.loop.stop()
                if self._locks is not None:
                    # In order means that the old run must be over before the new one begins.
                    await assigned.process_queue.quiet(_FINISH_BEFORE_RESTART_S)
                self._offsets.update(queue, held[queue])
            await self._offsets.persist(list(held), acknowledged=True)
            for queue, assigned in before.items():
                logger.info("consuming %s from offset %d", queue, held[queue])
                self._add(queue, held[queue], assigned.process_queue)

    async def stop_pulling(self) -> None:
        """Pull no more; what the listener has may be finished."""
        async with self._changing:
            for assigned in self._assigned.values():
                assigned.process_queue.retire()
            await asyncio.gather(*(assigned.loop.stop() for assigned in self._assigned.values()))

    async def release_at_end(self) -> None:
        """Store all offsets, give all locks back, hold nothing any more."""
        async with self._changing:
            queues = list(self._assigned)
            await self._offsets.persist(queues, acknowledged=True)
            if self._locks is not None and queues:
                await self._locks.unlock(queues, acknowledged=True)
            for assigned in self._assigned.values():
                assigned.process_queue.drop()
            self._assigned.clear()

    # ---------------------------------------------------------------------- taking

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
            self._owner.instance,
            self._offsets,
            queue,
            self._consume_from,
            self._consume_timestamp_ms,
        )

    def _add(self, queue: MessageQueue, offset: int, before: ProcessQueue | None = None) -> None:
        now_ms = self._owner.instance.clock.now_ms()
        process_queue = ProcessQueue(queue, self._limits, now_ms)
        if self._locks is not None:
            process_queue.locked = before is None or before.locked
            process_queue.last_lock_ms = now_ms if before is None else before.last_lock_ms
        loop = PullLoop(self._owner, process_queue, offset)
        self._assigned[queue] = AssignedQueue(process_queue, loop)
        loop.start()

    # ------------------------------------------------------------------- releasing

    async def _release_all_but(self, topic: str, wanted: set[MessageQueue]) -> bool:
        released = False
        for queue, assigned in list(self._assigned.items()):
            if queue.topic != topic:
                continue
            if queue in wanted and not assigned.process_queue.retired and assigned.loop.is_alive:
                continue
            released |= await self._release(queue, assigned)
        return released

    async def _release(self, queue: MessageQueue, assigned: AssignedQueue) -> bool:
        process_queue = assigned.process_queue
        if self._locks is None:
            process_queue.drop()
            await assigned.loop.stop()
            await self._offsets.persist([queue])
        else:
            process_queue.retire()
            await assigned.loop.stop()
            if not await self._may_unlock(process_queue):
                return False
            process_queue.drop()
            # The next owner may ask for the offset as soon as it has the lock.
            await self._offsets.persist([queue], acknowledged=True)
            await self._locks.unlock([queue])
        self._offsets.forget(queue)
        del self._assigned[queue]
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
