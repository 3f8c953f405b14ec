"""Check points that wait in memory, because most are acknowledged before long.

With `enablePopBufferMerge` a check point is not written to the revive log when its messages are
popped. It waits here, and acks that find it leave no record either:

    all acknowledged                       nothing was ever written
    after popCkStayBufferTime (10 s), or   the check point is written, with the acks that came
    popCkStayBufferTimeOut (3 s) before
    its messages become visible again

The offset of the group waits too. It moves on in the order of the pops, when a check point is
done or in the log:

    committed   |  ck done  |  ck open  |  ck done  |  ck open  |   the next pop begins here
                            ^ moves to here

A crash therefore loses nothing: what was in here is popped again, acknowledged or not. That is
what may come twice, the pops of the last ten seconds and of the time since the offsets were
written.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.pop.revive_log import CheckPoint, CheckPointKey, ReviveLog
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.loop.slices import Slices, in_slices
from rocketq.common.metrics.family import Histogram

logger = logging.getLogger(__name__)

SCAN_MS: Final = (1.0, 10.0, 100.0, 1_000.0, 2_000.0, 3_000.0)
_TICK_MS: Final = 100
_LEAST_STAY_MS: Final = 1_500
_WRITTEN_A_TURN: Final = 256

QueueKey = tuple[str, str, int]


class _Step:
    """One pop from one queue, or messages that were passed over: the offset moves by it."""

    __slots__ = ("check_point", "leaves", "next_offset", "queue", "revive_queue")

    def __init__(
        self,
        queue: "_Queue",
        next_offset: int,
        check_point: CheckPoint | None = None,
        revive_queue: int = 0,
        leaves: int = 0,
    ) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.check_point = check_point  # None: done
        self.revive_queue = revive_queue
        self.leaves = leaves


class _Queue:
    """What one group has popped from one queue and not committed yet."""

    __slots__ = ("is_forgotten", "key", "steps")

    def __init__(self, key: QueueKey) -> None:
        self.key = key
        self.steps: deque[_Step] = deque()
        self.is_forgotten = False


class MergeBuffer:
    """Filled by pops, emptied by acks and by time. Belongs to the event loop."""

    def __init__(
        self,
        live: LiveConfig,
        offsets: ConsumerOffsets,
        revive_log: ReviveLog,
        exists: Callable[[str, str], bool],
        clock: Clock,
    ) -> None:
        """`exists`: whether a topic and a group are still there."""
        self._live = live
        self._offsets = offsets
        self._revive_log = revive_log
        self._exists = exists
        self._clock = clock
        self._steps: dict[CheckPointKey, _Step] = {}
        self._queues: dict[QueueKey, _Queue] = {}
        # By the tick in which they leave.
        self._leaving: dict[int, dict[_Step, None]] = {}
        self._left_until = 0
        self._is_serving = False
        self.scans = Histogram(SCAN_MS)
        """How long it takes to look for what has to leave."""

    # Popping

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def queue_count(self) -> int:
        """Queues whose offset waits for what is in here."""
        return len(self._queues)

    def add(self, check_point: CheckPoint, revive_queue: int, next_offset: int) -> bool:
        """Keep the check point of a pop; False if it has to be written now."""
        config = self._live.broker
        if not config.enable_pop_buffer_merge or not self._is_serving:
            return False
        leaves_ms = min(
            check_point.pop_time + config.pop_ck_stay_buffer_time,
            check_point.revive_time - config.pop_ck_stay_buffer_time_out,
        )
        key = check_point.key
        if (
            leaves_ms - self._clock.now_ms() < _LEAST_STAY_MS
            or len(self._steps) >= config.pop_ck_max_buffer_size
            or key in self._steps
        ):
            return False
        queue = self._queue((check_point.group, check_point.topic, check_point.queue_id))
        if len(queue.steps) >= config.pop_ck_offset_max_queue_size:
            return False
        tick = leaves_ms // _TICK_MS
        step = _Step(queue, next_offset, check_point, revive_queue, tick)
        queue.steps.append(step)
        self._steps[key] = step
        self._leaving.setdefault(tick, {})[step] = None
        return True

    def _queue(self, key: QueueKey) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(key)
        return queue

    def next_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the next pop begins; None if nothing of that queue is in here."""
        queue = self._queues.get((group, topic, queue_id)) if self._queues else None
        return None if queue is None or not queue.steps else queue.steps[-1].next_offset

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The offset of a group moves on without a check point here, behind those that wait."""
        queue = self._queues.get((group, topic, queue_id)) if self._queues else None
        if queue is None or not queue.steps:
            self._offsets.commit(group, topic, queue_id, offset, client="pop")
        elif queue.steps[-1].check_point is None:
            queue.steps[-1].next_offset = offset
        else:
            queue.steps.append(_Step(queue, offset))

    def forget(self, group: str, topic: str, queue_id: int) -> None:
        """An offset was reset: what was popped before moves it no longer."""
        queue = self._queues.pop((group, topic, queue_id), None)
        if queue is not None:
            queue.is_forgotten = True

    # Acknowledging

    def acknowledge(self, key: CheckPointKey, offsets: Sequence[int]) -> bool:
        """Note acks; False if the check point is not here, so that they must be written."""
        step = self._steps.get(key) if self._steps else None
        if step is None or step.check_point is None:
            return False
        for offset in offsets:
            step.check_point.acknowledge(offset)
        if step.check_point.is_acknowledged:
            self._done(step)
        return True

    def _done(self, step: _Step) -> None:
        """Acknowledged or written: its part of the queue may be committed."""
        assert step.check_point is not None
        del self._steps[step.check_point.key]
        leaving = self._leaving.get(step.leaves)
        if leaving is not None:
            leaving.pop(step, None)
        step.check_point = None
        self._commit(step.queue)

    def _commit(self, queue: _Queue) -> None:
        offset = -1
        while queue.steps and queue.steps[0].check_point is None:
            offset = queue.steps.popleft().next_offset
        if queue.is_forgotten:
            return
        group, topic, queue_id = queue.key
        # Somebody else may have moved the group on: then it stays there.
        if offset > self._offsets.query(group, topic, queue_id) and self._exists(topic, group):
            self._offsets.commit(group, topic, queue_id, offset, client="pop")
        if not queue.steps:
            del self._queues[queue.key]

    # Leaving

    async def run(self, stop: asyncio.Event) -> None:
        """Write what has stayed long enough, and in the end everything."""
        self.serve(True)
        try:
            while not await asked_to_stop(stop, within_s=_TICK_MS / 1000):
                while self.leave_due() and not await asked_to_stop(stop, within_s=0):
                    pass
            self.serve(False)
            await in_slices(self.leave_early())
        finally:
            self.serve(False)
            self._clear()

    def serve(self, is_serving: bool) -> None:
        """Take check points from now on, or take no more."""
        self._is_serving = is_serving
        self._left_until = self._clock.now_ms() // _TICK_MS

    def leave_due(self) -> bool:
        """Write check points whose time here is over, some at a time; true if more are due."""
        began = self._clock.monotonic()
        try:
            return self._leave_due()
        finally:
            self.scans.observe((self._clock.monotonic() - began) * 1000)

    def _leave_due(self) -> bool:
        now = self._clock.now_ms() // _TICK_MS
        if now < self._left_until:  # the clock was set back
            self._left_until = min(self._leaving, default=now)
        if now - self._left_until > 4 * len(self._leaving):  # it was set forward, or slept
            self._left_until = max(self._left_until, min(self._leaving, default=now))
        left = _WRITTEN_A_TURN
        while self._left_until <= now:
            leaving = self._leaving.get(self._left_until, {})
            while leaving:
                if left <= 0:
                    return True
                left -= 1
                if not self._write(next(iter(leaving))):
                    return False  # the store takes nothing: again in the next tick
            self._leaving.pop(self._left_until, None)
            self._left_until += 1
        return False

    def _write(self, step: _Step) -> bool:
        assert step.check_point is not None
        check_point = step.check_point
        if self._exists(check_point.topic, check_point.group):
            result = self._revive_log.put_check_point(check_point, step.revive_queue)
            if not result.is_stored:
                logger.warning("a check point stays in memory: %s", result.status.name)
                return False
        self._done(step)
        return True

    def leave_early(self) -> Slices[None]:
        """Write those that could stay. What the store does not take is popped again."""
        for number, step in enumerate(list(self._steps.values())):
            if step.check_point is not None and not self._write(step):
                return
            if number % _WRITTEN_A_TURN == 0:
                yield

    def _clear(self) -> None:
        for queue in self._queues.values():
            queue.is_forgotten = True
        self._steps.clear()
        self._queues.clear()
        self._leaving.clear()
