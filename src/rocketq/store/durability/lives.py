"""The end of a topic's life: deleted, and never to come back.

What is deleted stays in the log until that is cleaned. So where the life ended is written down
first (`beginnings.py`), then the queues go, all in one turn; it is over when the note is on the
disk.
"""

import asyncio
from collections.abc import Callable

from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queues import ConsumeQueues


class TopicLives:
    """Owned by the store; runs on the event loop, waits for the disk in threads."""

    def __init__(
        self,
        beginnings: Beginnings,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        *,
        make_again: Callable[[str], None],
        on_full: Callable[[OSError], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """`on_full`: the note could not be written; `on_failure`: it may be lost."""
        self._beginnings = beginnings
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._make_again = make_again
        self._on_full = on_full
        self._on_failure = on_failure

    async def delete(self, topic: str) -> int:
        """Delete a topic's queues; returns how many, when nothing can bring them back."""
        if topic not in self._queues:
            return 0
        removed = self.end(topic, self._log.end)
        await self._sync()
        return removed

    async def begin(self, topic: str, position: int) -> bool:
        """Take over where another copy of the log says that a life ended; whether that was new."""
        if position <= self._beginnings.get(topic):
            return False
        self.end(topic, position)
        await self._sync()
        return True

    def end(self, topic: str, position: int) -> int:
        """In one turn: what is before the position is gone, what is added now is new."""
        try:
            self._beginnings.begin(topic, position)
        except OSError as error:
            self._on_full(error)
            raise
        removed = self._queues.remove_topic(topic)
        if position < self._dispatcher.position:
            self._make_again(topic)  # told late: the messages since then are new
        return removed

    async def _sync(self) -> None:
        try:
            await asyncio.to_thread(self._beginnings.sync)
        except OSError as error:
            self._on_failure(error)
            raise
