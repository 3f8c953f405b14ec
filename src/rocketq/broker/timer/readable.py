"""Up to which time everything that is stored can be read.

With SYNC_FLUSH a message can be read when it is on the disk, some time after it was stored.
"""

from rocketq.store import MessageStore


class Readable:
    """Up to which time what is stored can be read, though it lags behind."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._mark = (0, 0)
        self._until_ms = 0

    def readable_until(self, stored_until_ms: int) -> int:
        """All for times before `stored_until_ms` is in the log now: up to when it can be read."""
        end, position = self._store.max_physical_offset, self._store.dispatched_position
        if position >= end:
            self._until_ms = stored_until_ms
        elif position >= self._mark[0]:
            self._until_ms = self._mark[1]
            self._mark = end, stored_until_ms
        return min(self._until_ms, stored_until_ms)
