"""Replies to sends that wait until their messages are safe.

With `SYNC_FLUSH` a message is acknowledged once it is on the disk. The store flushes groups
of messages, and everything sent in one read of a connection waits as one: one callback, one
write, however many messages.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from rocketq.broker.config import LiveConfig
from rocketq.store import MessageStore, PutStatus

logger = logging.getLogger(__name__)


class Acknowledgements:
    """Counts what waits, so that senders can be told to wait instead."""

    def __init__(self, live: LiveConfig, store: MessageStore) -> None:
        self._live = live
        self._store = store
        self._waiting = 0
        # Whether so many wait that further sends should be refused. Looked at for every send,
        # so it is worked out when it changes.
        self.is_full = False
        self._all_answered: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        """Messages stored and not acknowledged yet."""
        return self._waiting

    def _count(self, change: int) -> None:
        self._waiting += change
        if self._waiting == 0 and self._all_answered is not None:
            self._all_answered.set()
        self.is_full = self._waiting >= self._live.broker.send_thread_pool_queue_capacity

    async def answered(self, within_s: float) -> None:
        """Wait until everybody who waits now, or begins to meanwhile, is answered; or so long."""
        self._all_answered = asyncio.Event()
        if self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._all_answered.wait()

    def when_safe(self, position: int, count: int, answer: Callable[[PutStatus], None]) -> bool:
        """Have `answer` called once the log is safe up to a position.

        False when there is nothing to wait for: then the caller answers, at once.
        """
        future = self._store.durable(position)
        if future is None:
            return False
        self._count(count)

        def done(flushed: asyncio.Future[PutStatus]) -> None:
            self._count(-count)
            has_failed = flushed.cancelled() or flushed.exception() is not None
            answer(PutStatus.UNKNOWN_ERROR if has_failed else flushed.result())

        future.add_done_callback(done)
        return True
