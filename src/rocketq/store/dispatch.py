# cython: annotation_typing=False
"""From a stored record to what is derived from it: queue entry, index entries, waiting readers.

The dispatcher follows the log. Normally it keeps pace with the appends, each being dispatched
in the turn in which it is written. Where a record may not be seen before it is durable
(SYNC_FLUSH), or an entry could not be written because the disk was full, it stays behind and
catches up by reading the log.

Which entries a record gets, by the transaction bits of its sysFlag:

    none, commit     queue entry, index entries
    prepared         index entries
    rollback         nothing

Compiled where possible (dispatch.pxd gives the types).
"""

from rocketq.common import memory
from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.message import hashing
from rocketq.message.properties import entries
from rocketq.message.properties.walk import get_property
from rocketq.message.record import layout
from rocketq.store.arrival import ArrivalListener
from rocketq.store.index import index_file
from rocketq.store.index.index import Index
from rocketq.store.index.index_file import IndexFile
from rocketq.store.queues.queue_tail import QueueTail


class Dispatcher:
    """Owned by the store; runs on the event loop alone."""

    def __init__(self, index: Index | None, delay_times_ms: tuple[int, ...]) -> None:
        """`index`: the index by key, or None when there is none."""
        self.position = 0  # everything before it is dispatched
        self.last_start = -1  # where the last record dispatched begins
        self.last_timestamp = 0  # and when it was stored
        # Called with each message that can be read from now on.
        self.listener: ArrivalListener | None = None
        self.delay_times_ms = delay_times_ms
        self._index = index
        self._index_file: IndexFile | None = None
        self._scanned: bytes | None = None  # whose properties the fields below are of
        self.has_inner_count = False  # how many messages an inner batch holds
        self._tags_at = self._keys_at = self._unique_at = -1
        self._tags_size = self._keys_size = self._unique_size = 0

    def forget_index_file(self) -> None:
        """Ask the index for its file again: it has changed."""
        self._index_file = None

    def scan(self, properties: bytes) -> bool:
        """Find the properties that matter, in one pass. True: some of them need attention.

        Those are a checksum and the count of an inner batch, which only the appender minds.
        """
        needs_attention = False
        self.has_inner_count = False
        self._tags_at = self._keys_at = self._unique_at = -1
        self._scanned = properties
        data = memory.address(properties)
        at = 0
        end = len(properties)
        while at < end:
            stop = entries.entry_end(data, at, end)
            if entries.is_named(data, at, stop, b"TAGS", 4):
                self._tags_at = at + 5
                self._tags_size = stop - at - 5
            elif entries.is_named(data, at, stop, b"KEYS", 4):
                self._keys_at = at + 5
                self._keys_size = stop - at - 5
            elif entries.is_named(data, at, stop, b"UNIQ_KEY", 8):
                self._unique_at = at + 9
                self._unique_size = stop - at - 9
            elif entries.is_named(data, at, stop, b"__CRC32#", 8):
                needs_attention = True
            elif entries.is_named(data, at, stop, b"INNER_NUM", 9):
                needs_attention = True
                self.has_inner_count = True
            at = stop + 1
        return needs_attention

    def dispatch(
        self,
        tail: QueueTail,
        properties: bytes,
        position: int,
        size: int,
        sys_flag: int,
        timestamp: int,
        queue_offset: int = -1,
    ) -> bool:
        """Derive everything from one record. False: there was no room for an entry.

        With a `queue_offset` the record comes from reading the log again, and parts of it
        may have been dispatched before; without, it has just been written.
        """
        if properties is not self._scanned:
            self.scan(properties)
        code = 0
        transaction = sys_flag & layout.TRANSACTION_BITS
        if (
            transaction != layout.TRANSACTION_PREPARED
            and transaction != layout.TRANSACTION_ROLLBACK
        ):
            if self._tags_at >= 0:
                code = hashing.hash_at(
                    memory.address(properties), self._tags_at, self._tags_size, 0
                )
            if tail.is_schedule:
                code = self._delivery_time(properties, timestamp, code)
            if queue_offset < 0:
                is_done = tail.put(position, size, code)
            else:
                is_done = tail.put_at(queue_offset, position, size, code)
            if not is_done:
                return False
        if self._index is not None and transaction != layout.TRANSACTION_ROLLBACK:
            if self._unique_at >= 0 and not self._put_key(
                tail, properties, self._unique_at, self._unique_size, position, timestamp
            ):
                return False
            if self._keys_at >= 0 and not self._put_keys(
                tail, properties, self._keys_at, self._keys_size, position, timestamp
            ):
                return False
        self.last_start = position
        self.last_timestamp = timestamp
        self.position = position + size
        if (
            self.listener is not None
            and transaction != layout.TRANSACTION_PREPARED
            and transaction != layout.TRANSACTION_ROLLBACK
        ):
            self.listener(
                tail.topic,
                tail.queue_id,
                tail.end // layout.ENTRY_SIZE,
                code,
                timestamp,
                properties,
            )
        return True

    def _put_keys(
        self,
        tail: QueueTail,
        properties: bytes,
        at: int,
        size: int,
        position: int,
        timestamp: int,
    ) -> bool:
        """Index each of several keys, which are separated by blanks."""
        data = memory.address(properties)
        stop = at + size
        start = at
        while at <= stop:
            if at == stop or data[at] == 32:
                if at > start and not self._put_key(
                    tail, properties, start, at - start, position, timestamp
                ):
                    return False
                start = at + 1
            at += 1
        return True

    def _put_key(
        self,
        tail: QueueTail,
        properties: bytes,
        at: int,
        size: int,
        position: int,
        timestamp: int,
    ) -> bool:
        key_hash = index_file.positive_hash(
            hashing.hash_at(memory.address(properties), at, size, tail.index_seed)
        )
        file = self._index_file
        if file is not None:
            if position <= file.end_position and (
                position < file.end_position or file.has(key_hash, position)
            ):
                return True  # indexed before
            if file.put(key_hash, position, timestamp):
                return True
        # Not open yet, full, or without a safe place for the next entry.
        is_first = file is None
        assert self._index is not None
        file = self._index.make_room()
        self._index_file = file
        if file is None:
            return False
        if is_first:
            return self._put_key(tail, properties, at, size, position, timestamp)
        return file.put(key_hash, position, timestamp)

    def _delivery_time(self, properties: bytes, timestamp: int, code: int) -> int:
        """Messages that wait in the schedule topic are filed under the time they are due."""
        level = parse_natural(get_property(properties, b"DELAY"), INT32_MAX)
        if not level:
            return code
        times = self.delay_times_ms
        return timestamp + (times[min(level, len(times)) - 1] if times else 1000)
