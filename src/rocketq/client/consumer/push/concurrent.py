"""Consumption without regard to order: as many pieces at once as the runner takes.

A piece that fails is sent back message by message, for delivery after a delay; what cannot be
sent back either stays cached and is consumed again here after a few seconds. Only then is the
piece removed and the offset moved on (never back), so nothing is lost on the way: at worst it
comes twice.

A listener that does not return within the consume timeout loses its messages: they are sent back
and removed, and its late answer is ignored.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.process_queue import NOTHING_TO_COMMIT, Piece, ProcessQueue
from rocketq.client.consumer.push.consumption import Consumption, ConsumptionSettings
from rocketq.client.consumer.push.listener import Listener
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.hooks import ConsumeHook
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt

logger = logging.getLogger(__name__)

_EXPIRED_LEVEL: Final = 3
_EXPIRED_PER_ROUND: Final = 16
# A listener that fails on everything must not pile up requests without bound.
_MAX_SEND_BACKS: Final = 256
_MAX_RUN: Final = 64


class ConcurrentConsumption(Consumption):
    """Consumes the pieces of all queues side by side."""

    def __init__(
        self,
        settings: ConsumptionSettings,
        listener: Listener,
        *,
        offsets: OffsetStore,
        send_back: SendBack,
        hooks: Sequence[ConsumeHook],
        statistics: ConsumerStatistics,
        clock: Clock,
    ) -> None:
        super().__init__(settings, listener, hooks=hooks, statistics=statistics, clock=clock)
        self._offsets = offsets
        self._send_back = send_back
        self._again: deque[Piece] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._ready or self._again) and len(self._tasks) < _MAX_SEND_BACKS

    def next_piece(self) -> Piece | None:
        if len(self._tasks) >= _MAX_SEND_BACKS:
            return None
        while self._again:
            again = self._again.popleft()
            if not again.process_queue.retired and not again.is_done:
                again.restart()
                return self._hand_out(again)
        ready = self._ready
        while ready:
            process_queue = ready.popleft()
            if process_queue.retired:
                process_queue.is_consuming = False
                continue
            piece = process_queue.take(self._size_of_next(process_queue))
            if process_queue.waiting:
                ready.append(process_queue)
            else:
                process_queue.is_consuming = False
            if piece is not None:
                return self._hand_out(piece)
        return None

    def _size_of_next(self, process_queue: ProcessQueue) -> int:
        """How many messages the next piece is to have.

        A listener that takes one at a time gets them in runs, which saves most of the cost of a
        piece. Runs are short enough that there are always more of them than calls at once.
        """
        if self._listener.takes_list:
            return self._settings.batch_size
        if self._hooks:
            return 1  # which see each call
        waiting = len(process_queue.waiting) * (len(self._ready) + 1)
        return max(1, min(waiting // (2 * self.runner.concurrency), _MAX_RUN))

    def finished(self, piece: Piece) -> None:
        self._came_back(piece, len(piece.failures))
        # Dropped: the new owner consumes it. Done: it took too long and was sent back already.
        if piece.process_queue.dropped or piece.is_done:
            return
        if piece.failures and not self._settings.is_broadcasting:
            self._start(self._give_back(piece), f"send-back-{piece.queue}")
            return
        for message, _ in piece.failures:
            logger.warning(
                "message %s of %s is lost to this consumer: broadcasting has no retry",
                message.msg_id,
                message.topic,
            )
        self._go_on_with(piece, piece.rest)

    def _go_on_with(self, piece: Piece, remaining: list[MessageExt]) -> None:
        """Forget what is done of a piece; what remains is consumed again here after a while."""
        self._finish(piece, remaining)
        # At the end of the consumer it is left, uncommitted, to the next owner of the queue.
        if remaining and not self._closing:
            self._later(self._settings.retry_locally_after_s, partial(self._again.append, piece))

    def _finish(self, piece: Piece, remaining: list[MessageExt]) -> None:
        """Forget what is done of a piece, and move the offset on."""
        process_queue = piece.process_queue
        if remaining:
            process_queue.keep(piece, remaining)
        else:
            process_queue.finish(piece)
        offset = process_queue.commit_offset
        if offset != NOTHING_TO_COMMIT:
            self._offsets.update(process_queue.queue, offset, only_forward=True)

    # Sending back

    async def _give_back(self, piece: Piece) -> None:
        refused: list[MessageExt] = []
        for message, level in piece.failures:
            if not await self._gave_back(message, level, piece.queue.broker_name):
                message.reconsume_times += 1
                refused.append(message)
        if piece.process_queue.dropped or piece.is_done:
            return
        self._go_on_with(piece, refused + piece.rest)

    async def _gave_back(self, message: MessageExt, level: int, broker_name: str) -> bool:
        try:
            await self._send_back.give_back(message, level, broker_name)
        except RocketqError as error:
            logger.warning(
                "message %s of %s could not be sent back and is consumed again here: %s",
                message.msg_id,
                message.topic,
                error,
            )
            return False
        except Exception:
            logger.exception(
                "message %s of %s could not be sent back", message.msg_id, message.topic
            )
            return False
        return True

    # Expiry

    async def send_back_expired(self, process_queues: Iterable[ProcessQueue]) -> None:
        """Take messages from listeners that have had them longer than the consume timeout."""
        for process_queue in process_queues:
            await self._send_back_expired(process_queue)

    async def _send_back_expired(self, process_queue: ProcessQueue) -> None:
        sent = 0
        while process_queue.taken and sent < _EXPIRED_PER_ROUND and not process_queue.dropped:
            piece = process_queue.taken[0]
            since = self._clock.monotonic() - self._settings.consume_timeout_s
            if not piece.is_running or piece.began_at >= since:
                return
            position = piece.position
            stuck = piece.rest if self._listener.takes_list else piece.rest[:1]
            failures = [*piece.failures, *((message, _EXPIRED_LEVEL) for message in stuck)]
            for message, level in failures:
                if not await self._gave_back(message, level, process_queue.queue.broker_name):
                    return
            if piece.is_done or process_queue.dropped or piece.position != position:
                return  # the listener came back while its messages were sent back
            logger.warning(
                "the listener has had %d messages of %s for more than %s s: sent back",
                len(stuck),
                process_queue.queue,
                self._settings.consume_timeout_s,
            )
            sent += len(failures)
            behind = process_queue.split(piece, position + len(stuck))
            self._finish(piece, [])
            if behind is not None:
                self._again.append(behind)
                self.runner.wake()
