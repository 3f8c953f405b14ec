"""From a stored record to what is derived from it: queue entry, index entries, waiting readers.

The dispatcher follows the log. Normally it keeps pace with the appends, each being dispatched
in the turn in which it is written. Where a record may not be seen before it is durable
(SYNC_FLUSH), or an entry could not be written because the disk was full, it stays behind and
catches up by reading the log.

Which entries a record gets, by the transaction bits of its sysFlag:

    none, commit     queue entry, index entries
    prepared         index entries
    rollback         nothing

This module is compiled where that is possible.
"""

import cython

from rocketq.common.numbers import INT32_MAX, parse_natural
from rocketq.message.hashing import java_hash_bytes
from rocketq.message.properties.entries import find_value
from rocketq.message.properties.walk import get_property

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcmp
    from cython.cimports.rocketq.store.index.index_file import IndexFile, positive_hash
    from cython.cimports.rocketq.store.queues.queue_tail import QueueTail
else:
    from rocketq.store.index.index_file import IndexFile, positive_hash
    from rocketq.store.queues.queue_tail import QueueTail

_TRANSACTION = cython.declare(cython.int, 0xC)
_PREPARED = cython.declare(cython.int, 0x4)
_ROLLBACK = cython.declare(cython.int, 0xC)


@cython.final
@cython.cclass
class Dispatcher:
    """Owned by the store; runs on the event loop alone."""

    def __init__(self, index, delay_times_ms) -> None:
        """`index`: the index by key, or None when there is none."""
        self.position = 0  # everything before it is dispatched
        self.last_start = -1  # where the last record dispatched begins
        self.last_timestamp = 0  # and when it was stored
        self.listener = None  # called with each message that can be read from now on
        self.delay_times_ms = delay_times_ms
        self._index = index
        self._index_file = None
        self._scanned = None  # whose properties the places below are of
        self._tags_at = self._keys_at = self._unique_at = -1
        self._tags_size = self._keys_size = self._unique_size = 0

    def forget_index_file(self) -> None:
        """Ask the index for its file again: it has changed."""
        self._index_file = None

    @cython.ccall
    def scan(self, properties: bytes) -> cython.bint:
        """Find the properties that matter, in one pass. True: some of them need attention.

        Those are a checksum and the mark of an inner batch, which only the appender minds.
        """
        needs_attention: cython.bint = False
        self._tags_at = self._keys_at = self._unique_at = -1
        self._scanned = properties
        if cython.compiled:
            raw: cython.p_const_char = properties
            length: cython.Py_ssize_t = len(properties)
            at: cython.Py_ssize_t = 0
            while at < length:
                found: cython.p_const_char = cython.cast(
                    cython.p_const_char, memchr(raw + at, 2, length - at)
                )
                stop: cython.Py_ssize_t = length if found == cython.NULL else found - raw
                # A name and a value, separated by 1, with neither of them empty. Names that
                # matter are 4, 8 or 9 letters long.
                if stop - at > 5 and raw[at + 4] == 1:
                    if memcmp(raw + at, b"TAGS", 4) == 0:
                        self._tags_at = at + 5
                        self._tags_size = stop - at - 5
                    elif memcmp(raw + at, b"KEYS", 4) == 0:
                        self._keys_at = at + 5
                        self._keys_size = stop - at - 5
                elif stop - at > 9 and raw[at + 8] == 1:
                    if memcmp(raw + at, b"UNIQ_KEY", 8) == 0:
                        self._unique_at = at + 9
                        self._unique_size = stop - at - 9
                    elif memcmp(raw + at, b"__CRC32#", 8) == 0:
                        needs_attention = True
                elif stop - at > 10 and raw[at + 9] == 1 and memcmp(raw + at, b"INNER_NUM", 9) == 0:
                    needs_attention = True
                at = stop + 1
        else:
            end = len(properties)
            self._tags_at, self._tags_size = find_value(properties, 0, end, b"TAGS", 4)
            self._keys_at, self._keys_size = find_value(properties, 0, end, b"KEYS", 4)
            self._unique_at, self._unique_size = find_value(properties, 0, end, b"UNIQ_KEY", 8)
            needs_attention = (
                find_value(properties, 0, end, b"__CRC32#", 8).at >= 0
                or find_value(properties, 0, end, b"INNER_NUM", 9).at >= 0
            )
        return needs_attention

    @cython.ccall
    def dispatch(
        self,
        tail: QueueTail,
        properties: bytes,
        position: cython.longlong,
        size: cython.int,
        sys_flag: cython.int,
        timestamp: cython.longlong,
        queue_offset: cython.longlong = -1,
    ) -> cython.bint:
        """Derive everything from one record. False: there was no room for an entry.

        With a `queue_offset` the record comes from reading the log again, and parts of it
        may have been dispatched before; without, it has just been written.
        """
        if properties is not self._scanned:
            self.scan(properties)
        code: cython.longlong = 0
        done: cython.bint
        transaction: cython.int = sys_flag & _TRANSACTION
        if transaction != _PREPARED and transaction != _ROLLBACK:
            if self._tags_at >= 0:
                code = _hash(properties, self._tags_at, self._tags_size, 0)
            if tail.is_schedule:
                code = self._delivery_time(properties, timestamp, code)
            if queue_offset < 0:
                done = tail.put(position, size, code)
            else:
                done = tail.put_at(queue_offset, position, size, code)
            if not done:
                return False
        if self._index is not None and transaction != _ROLLBACK:
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
        if self.listener is not None and transaction != _PREPARED and transaction != _ROLLBACK:
            self.listener(tail.topic, tail.queue_id, tail.end // 20, code, timestamp, properties)
        return True

    @cython.cfunc
    def _put_keys(
        self,
        tail: QueueTail,
        properties: bytes,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        position: cython.longlong,
        timestamp: cython.longlong,
    ) -> cython.bint:
        """Index each of several keys, which are separated by blanks."""
        stop: cython.Py_ssize_t = at + size
        start: cython.Py_ssize_t = at
        while at <= stop:
            if at == stop or properties[at] == 32:
                if at > start and not self._put_key(
                    tail, properties, start, at - start, position, timestamp
                ):
                    return False
                start = at + 1
            at += 1
        return True

    @cython.cfunc
    def _put_key(
        self,
        tail: QueueTail,
        properties: bytes,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        position: cython.longlong,
        timestamp: cython.longlong,
    ) -> cython.bint:
        key_hash: cython.int = positive_hash(_hash(properties, at, size, tail.index_seed))
        file: IndexFile = self._index_file
        if file is not None:
            if position <= file.end_position and (
                position < file.end_position or file.has(key_hash, position)
            ):
                return True  # indexed before
            if file.put(key_hash, position, timestamp):
                return True
        # Not open yet, full, or without a safe place for the next entry.
        is_first: cython.bint = file is None
        file = self._index.make_room()
        self._index_file = file
        if file is None:
            return False
        if is_first:
            return self._put_key(tail, properties, at, size, position, timestamp)
        return file.put(key_hash, position, timestamp)

    @cython.cfunc
    def _delivery_time(
        self, properties: bytes, timestamp: cython.longlong, code: cython.longlong
    ) -> cython.longlong:
        """Messages that wait in the schedule topic are filed under the time they are due."""
        level = parse_natural(get_property(properties, b"DELAY"), INT32_MAX)
        if not level:
            return code
        times = self.delay_times_ms
        return timestamp + (times[min(level, len(times)) - 1] if times else 1000)


@cython.cfunc
def _hash(
    text: bytes, at: cython.Py_ssize_t, size: cython.Py_ssize_t, seed: cython.int
) -> cython.int:
    """Java's hash of a piece of UTF-8 text, going on from the hash of what is before it."""
    if cython.compiled:
        raw: cython.p_const_uchar = text
        h: cython.uint = cython.cast(cython.uint, seed)
        i: cython.Py_ssize_t
        for i in range(at, at + size):
            if raw[i] >= 128:
                return java_hash_bytes(text[at : at + size], seed)
            h = 31 * h + raw[i]
        return cython.cast(cython.int, h)
    else:
        return java_hash_bytes(text[at : at + size], seed)
