"""The door to the store for every message the broker itself decides to keep.

Before a message is appended, each transformation may redirect it: a message with a delay
level goes to the schedule topic first, whoever stores it. They change the message in place
and raise `RequestRejected` for one that cannot be stored.
"""

import asyncio
from collections.abc import Callable

from rocketq.store import AppendResult, MessageInner, MessageStore

Transformation = Callable[[MessageInner], None]


class MessageWriter:
    """Appends messages, and waits for their durability where asked to."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._transformations: list[Transformation] = []

    def add_transformation(self, transformation: Transformation) -> None:
        self._transformations.append(transformation)

    def put(self, message: MessageInner) -> AppendResult:
        """Store a message in this turn; how durable it is shows later."""
        for transform in self._transformations:
            transform(message)
        return self._store.append(message)

    async def put_durably(self, message: MessageInner) -> AppendResult:
        """Store a message and wait until it is as safe as the configuration wants it."""
        result = self.put(message)
        if not result.is_stored or not message.wait_store:
            return result
        safe = self._store.durable(result.end)
        if safe is None:
            return result
        # Others wait for the same flush: this one's cancellation must not be theirs.
        status = await asyncio.shield(safe)
        return AppendResult(
            status,
            result.physical_offset,
            result.size,
            result.queue_offset,
            result.store_timestamp,
            result.count,
            result.physical_offsets,
        )
