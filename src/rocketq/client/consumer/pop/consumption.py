"""Consumption of popped messages beside pulled ones: one listener, two ways to settle.

What is done is acknowledged, everything that has gathered in one request. What failed stays
hidden for a while that grows with each attempt, and comes again. There is no offset.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rocketq.client.consumer.pop.queue import PopQueue
from rocketq.client.consumer.pop.requests import PopRequests
from rocketq.client.consumer.process_queue import Piece, ProcessQueue
from rocketq.client.consumer.push.concurrent import ConcurrentConsumption
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt

logger = logging.getLogger(__name__)

DELAYS_S: Final = (
    *(10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200),
)
"""How long a message stays hidden that has failed once, twice, ..."""
_MOST_AT_ONCE: Final = 1024


def delay_after_failure(
    message: MessageExt, level: int, most_times: int, now_ms: int
) -> float | None:
    """How long a message stays hidden that failed; None: it is not to come again.

    `level` is the listener's wish: 0 for none, -1 to give it up.
    """
    if level < 0:
        return None
    times = message.reconsume_times
    if times < most_times:
        return DELAYS_S[min(level or times, len(DELAYS_S) - 1)]
    # It has come often enough, but not for long: the older it is, the longer it stays away.
    age_s = (now_ms - message.born_timestamp) / 1000
    return next((delay_s for delay_s in DELAYS_S if age_s <= 2 * delay_s), None)


class PopConsumption(ConcurrentConsumption):
    """Consumes the pieces of all queues side by side, popped or pulled."""

    def __init__(
        self,
        *arguments: Any,
        requests: PopRequests,
        max_reconsume_times: int,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self._requests = requests
        self._max_reconsume_times = max_reconsume_times
        self._done: list[MessageExt] = []
        self._failed: list[tuple[MessageExt, float]] = []
        self._answering: asyncio.Task[None] | None = None

    def finished(self, piece: Piece) -> None:
        process_queue = piece.process_queue
        if not isinstance(process_queue, PopQueue):
            super().finished(piece)
            return
        self._came_back(piece, len(piece.failures))
        failed = {id(message) for message, _ in piece.failures}
        consumed = piece.messages[: piece.position]
        self.done([message for message in consumed if id(message) not in failed])
        for message, level in piece.failures:
            delay_s = delay_after_failure(
                message, level, self._max_reconsume_times, self._clock.now_ms()
            )
            if delay_s is None:
                logger.warning("message %s of %s is given up", message.msg_id, message.topic)
                self.done([message])
            else:
                self._failed.append((message, delay_s))
        process_queue.finish(piece)
        self._answer_soon()

    def done(self, messages: Sequence[MessageExt]) -> None:
        """Acknowledge messages, together with others."""
        self._done += messages
        self._answer_soon()

    def _answer_soon(self) -> None:
        if self._answering is None and (self._done or self._failed):
            self._answering = asyncio.create_task(self._answer_all(), name="rocketq-acks")

    async def _answer_all(self) -> None:
        # While one request is under way the next ones gather.
        try:
            while self._done or self._failed:
                done, self._done = self._done[:_MOST_AT_ONCE], self._done[_MOST_AT_ONCE:]
                failed, self._failed = self._failed[:_MOST_AT_ONCE], self._failed[_MOST_AT_ONCE:]
                await asyncio.gather(
                    self._ack(done), *(self._hide(message, delay_s) for message, delay_s in failed)
                )
        finally:
            self._answering = None

    async def _ack(self, messages: list[MessageExt]) -> None:
        try:
            await self._requests.ack(messages)
        except RocketqError as error:
            logger.warning(
                "of %d consumed messages some could not be acknowledged and come again: %s",
                len(messages),
                error,
            )
        except Exception:
            logger.exception("acknowledging %d messages failed", len(messages))

    async def _hide(self, message: MessageExt, delay_s: float) -> None:
        try:
            await self._requests.change_invisible([message], round(delay_s * 1000))
        except RocketqError as error:
            logger.warning("message %s comes again sooner: %s", message.msg_id, error)
        except Exception:
            logger.exception("message %s could not be hidden longer", message.msg_id)

    async def send_back_expired(self, process_queues: Iterable[ProcessQueue]) -> None:
        # What a listener keeps too long of a popped queue comes again by itself.
        pulled = [queue for queue in process_queues if not isinstance(queue, PopQueue)]
        await super().send_back_expired(pulled)

    async def close(self, timeout_s: float) -> bool:
        ended = await super().close(timeout_s)
        if self._answering is not None:
            await asyncio.wait([self._answering])
        return ended
