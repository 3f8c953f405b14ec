"""Consumption in the order of each queue: one piece of a queue at a time.

A queue is consumed only while its lock is held at the broker (not in broadcasting, where every
client has all queues). A piece that fails is put back and the whole queue pauses; a message that
has failed too often is sent to the retry topic, from where the broker takes it to the dead
letters, and the queue continues after it.

    listener's answer      auto_commit             without auto_commit
    SUCCESS                commit                  nothing yet
    COMMIT                 commit                  commit all since the last commit
    ROLLBACK               commit, with a warning  all since the last commit again, after a pause
    LATER, exception       the piece again, after a pause
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.process_queue import NOTHING_TO_COMMIT, Piece, ProcessQueue
from rocketq.client.consumer.push.consumption import Consumption, ConsumptionSettings
from rocketq.client.consumer.push.listener import ConsumeStatus, Listener
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.queue_locks import QueueLocks
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.hooks import ConsumeHook
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt

logger = logging.getLogger(__name__)

_MIN_SUSPEND_MS: Final = 10
_MAX_SUSPEND_MS: Final = 30_000
_AFTER_LOCK_S: Final = 0.01
_AFTER_REFUSED_LOCK_S: Final = 3.0


class OrderlyConsumption(Consumption):
    """Consumes each queue in order, different queues side by side."""

    TASKS_S: ClassVar = 1.0

    def __init__(
        self,
        settings: ConsumptionSettings,
        listener: Listener,
        *,
        offsets: OffsetStore,
        send_back: SendBack,
        locks: QueueLocks,
        hooks: Sequence[ConsumeHook],
        statistics: ConsumerStatistics,
        clock: Clock,
    ) -> None:
        super().__init__(settings, listener, hooks=hooks, statistics=statistics, clock=clock)
        self._offsets = offsets
        self._send_back = send_back
        self._locks = locks

    def next_piece(self) -> Piece | None:
        ready = self._ready
        while ready:
            process_queue = ready.popleft()
            if process_queue.retired:
                process_queue.is_consuming = False
                continue
            if not self._may_consume(process_queue):
                self._start(self._lock_again(process_queue), f"{self._settings.group}-orderly")
                continue
            piece = process_queue.take(self._settings.batch_size)
            if piece is not None:
                return self._hand_out(piece)
            process_queue.is_consuming = False
        return None

    def _may_consume(self, process_queue: ProcessQueue) -> bool:
        return self._settings.is_broadcasting or process_queue.is_lock_valid(self._clock.now_ms())

    async def _lock_again(self, process_queue: ProcessQueue) -> None:
        try:
            await self._locks.renew([process_queue])
        except Exception:
            logger.exception("the lock of %s could not be renewed", process_queue.queue)
        granted = process_queue.is_lock_valid(self._clock.now_ms())
        self._go_on(process_queue, _AFTER_LOCK_S if granted else _AFTER_REFUSED_LOCK_S)

    # The outcome

    def finished(self, piece: Piece) -> None:
        process_queue = piece.process_queue
        status = piece.status
        if process_queue.dropped:
            self._came_back(piece, 0)
            process_queue.is_consuming = False
            return
        if status is None:  # broken off before the listener had an answer
            process_queue.give_back(piece)
            self._came_back(piece, 0)
            self._go_on(process_queue, self._pause_s(piece))
            return
        auto_commit = piece.delivery is None or piece.delivery.auto_commit
        if status is ConsumeStatus.LATER:
            if self._has_exhausted(piece.messages):
                self._start(self._give_up_exhausted(piece), f"{self._settings.group}-orderly")
                return
            for message in piece.messages:
                message.reconsume_times += 1
            process_queue.give_back(piece)
            self._came_back(piece, len(piece.messages))
            self._go_on(process_queue, self._pause_s(piece))
            return
        if status is ConsumeStatus.ROLLBACK and not auto_commit:
            process_queue.give_back_taken()
            self._came_back(piece, len(piece.messages))
            self._go_on(process_queue, self._pause_s(piece))
            return
        if auto_commit and status is not ConsumeStatus.SUCCESS:
            logger.warning("the listener answered %s although auto_commit is on", status.name)
        if auto_commit or status is ConsumeStatus.COMMIT:
            self._commit(process_queue)
        self._came_back(piece, 0)
        self._go_on(process_queue)

    def _commit(self, process_queue: ProcessQueue) -> None:
        offset = process_queue.commit_taken()
        if offset != NOTHING_TO_COMMIT:
            self._offsets.update(process_queue.queue, offset)

    def _pause_s(self, piece: Piece) -> float:
        wanted = None if piece.delivery is None else piece.delivery.suspend_ms
        pause_ms = self._settings.suspend_ms if wanted is None else wanted
        return min(max(pause_ms, _MIN_SUSPEND_MS), _MAX_SUSPEND_MS) / 1000

    def _has_exhausted(self, messages: Sequence[MessageExt]) -> bool:
        limit = self._settings.max_reconsume_times
        return limit >= 0 and any(message.reconsume_times >= limit for message in messages)

    async def _give_up_exhausted(self, piece: Piece) -> None:
        """Send what has failed too often to the retry topic; the rest is consumed again."""
        process_queue = piece.process_queue
        failed_count = len(piece.messages)
        remaining = []
        for message in piece.messages:
            exhausted = message.reconsume_times >= self._settings.max_reconsume_times
            if exhausted and await self._gave_up(message):
                continue
            message.reconsume_times += 1
            remaining.append(message)
        if process_queue.dropped:
            process_queue.is_consuming = False
        elif remaining:
            process_queue.keep(piece, remaining)
            process_queue.give_back(piece)
            self._go_on(process_queue, self._pause_s(piece))
        else:
            self._commit(process_queue)
            self._go_on(process_queue)
            self.runner.wake()
        self._came_back(piece, failed_count)

    async def _gave_up(self, message: MessageExt) -> bool:
        try:
            await self._send_back.send_to_retry_topic(message)
        except RocketqError as error:
            logger.warning(
                "message %s of %s failed %d times and could not be set aside, once more: %s",
                message.msg_id,
                message.topic,
                message.reconsume_times,
                error,
            )
            return False
        except Exception:
            logger.exception("message %s of %s cannot be set aside", message.msg_id, message.topic)
            return False
        return True

    # Going on

    def _go_on(self, process_queue: ProcessQueue, delay_s: float = 0.0) -> None:
        if self._closing:
            return
        if delay_s == 0.0:
            self._ready.append(process_queue)  # the runner asks for the next piece by itself
            return
        self._later(delay_s, partial(self._ready.append, process_queue))
