"""Requests of a client that wait for another client's reply (`producer/request_reply.py`)."""

from __future__ import annotations

import asyncio
import uuid

from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName


class PendingReplies:
    """The requests of one client instance that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def expect(self) -> tuple[str, asyncio.Future[MessageExt]]:
        """A new correlation id, and where its answer will be."""
        correlation_id = str(uuid.uuid4())
        future: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return correlation_id, future

    def forget(self, correlation_id: str) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, reply: MessageExt) -> bool:
        """Hand an answer to whoever waits; False when nobody does (it came too late)."""
        correlation_id = reply.properties.get(PropertyName.CORRELATION_ID, "")
        future = self._waiting.pop(correlation_id, None)
        if future is None or future.done():
            return False
        future.set_result(reply)
        return True

    def close(self, error: BaseException) -> None:
        """Tell everybody still waiting why there will be no answer."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
