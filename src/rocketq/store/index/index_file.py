"""One file of the index by key: a hash table with chains, of fixed size.

    0    int64   store time of the first message      } of those indexed
    8    int64   store time of the last message       } in this file
    16   int64   log position of the first message
    24   int64   log position of the last message
    32   int32   slots in use
    36   int32   number of the next entry; entry 0 is never used
    40   int32   x slots: number of the newest entry in this slot, 0 for none
    ..   20      x entries:
                 int32   hash of `topic#key`, made positive
                 int64   log position of the message
                 int32   seconds since the first message of this file
                 int32   number of the entry before it in its slot, 0 for none

Everything is big-endian. The numbers of slots and entries are configured, not recorded.

This module is compiled where that is possible: entries are added in the turn in which their
message is appended.
"""

import struct

import cython

if cython.compiled:
    from cython.cimports.rocketq.common.big_endian import get32, get64, put32, put64

HEADER_SIZE = 40
ENTRY_SIZE = 20
_SLOTS_AT = cython.declare(cython.longlong, 40)

_HEADER = struct.Struct(">qqqqii")
_ENTRY = struct.Struct(">iqii")
_NUMBER = struct.Struct(">i")
_POSITION = struct.Struct(">q")


@cython.ccall
def positive_hash(java_hash: cython.int) -> cython.int:
    """A key's hash as it is stored: without its sign, and 0 for the one that has no opposite."""
    if java_hash >= 0:
        return java_hash
    if java_hash == -2147483648:
        return 0
    return -java_hash


@cython.final
@cython.cclass
class IndexFile:
    """Written by the dispatcher alone; read by anyone."""

    def __init__(self, view, slots: cython.int, max_entries: cython.int) -> None:
        self.view = view
        self.slots = slots
        self.max_entries = max_entries
        self._entries_at = self._slot_at(slots)
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_position,
            self.end_position,
            self.used_slots,
            self.count,
        ) = _HEADER.unpack_from(view, 0)
        if self.count < 1:
            self.count = 1
        self.limit = 0  # entries below this number have room that is safe to write

    @property
    def is_full(self):
        return self.count >= self.max_entries

    @property
    def is_empty(self):
        return self.count <= 1

    def begin_after(self, position: cython.longlong, timestamp: cython.longlong) -> None:
        """Mark a fresh file as the one that follows another, which ended like this."""
        self.begin_position = self.end_position = position
        self.begin_timestamp = self.end_timestamp = timestamp
        self._write_header()

    @cython.cdivision(True)  # of positive numbers: nothing to adjust
    @cython.ccall
    def put(
        self, key_hash: cython.int, position: cython.longlong, timestamp: cython.longlong
    ) -> cython.bint:
        """Add an entry. False: the file is full, or its next entry has no room yet."""
        if self.count >= self.limit:
            return False
        slot_at: cython.longlong = self._slot_at(key_hash % self.slots)
        before: cython.int = self._number(slot_at)
        if before <= 0 or before > self.count:
            before = 0
        seconds: cython.longlong = 0
        if self.begin_timestamp > 0:
            seconds = (timestamp - self.begin_timestamp) // 1000
            if seconds < 0:
                seconds = 0
            elif seconds > 0x7FFFFFFF:
                seconds = 0x7FFFFFFF
        entry_at: cython.longlong = self._entry_at(self.count)
        if cython.compiled:
            p: cython.p_uchar = cython.address(self.view[entry_at])
            put32(p, key_hash)
            put64(p + 4, position)
            put32(p + 12, cython.cast(cython.int, seconds))
            put32(p + 16, before)
            put32(cython.address(self.view[slot_at]), self.count)
        else:
            _ENTRY.pack_into(self.view, entry_at, key_hash, position, seconds, before)
            _NUMBER.pack_into(self.view, slot_at, self.count)
        if self.count <= 1:
            self.begin_position = position
            self.begin_timestamp = timestamp
        if before == 0:
            self.used_slots += 1
        self.count += 1
        self.end_position = position
        self.end_timestamp = timestamp
        self._write_header()
        return True

    @cython.cdivision(True)
    @cython.ccall
    def has(self, key_hash: cython.int, position: cython.longlong) -> cython.bint:
        """Whether the last message indexed has this key in the index already."""
        number: cython.int = self._number(self._slot_at(key_hash % self.slots))
        while 0 < number < self.count:
            at: cython.longlong = self._entry_at(number)
            if self._position(at + 4) != position:
                return False
            if self._number(at) == key_hash:
                return True
            number = self._number(at + 16)
        return False

    def find(
        self,
        key_hash: cython.int,
        begin_ms: cython.longlong,
        end_ms: cython.longlong,
        max_count: cython.int,
        found: list,
        most: cython.int,
    ) -> int:
        """Add to `found` the log positions of messages with this hash, newest first.

        Looks at `most` entries at the most, and returns at how many it has looked.
        """
        looked_at: cython.int = 0
        number: cython.int = self._number(self._slot_at(key_hash % self.slots))
        while 0 < number <= self.count and len(found) < max_count and looked_at < most:
            looked_at += 1
            at: cython.longlong = self._entry_at(number)
            stored, position, seconds, before = _ENTRY.unpack_from(self.view, at)
            if seconds < 0:
                break
            timestamp: cython.longlong = self.begin_timestamp + seconds * 1000
            if timestamp < begin_ms - 1000:  # times are kept in whole seconds
                break
            if stored == key_hash and begin_ms <= timestamp + 999 and timestamp <= end_ms:
                found.append(position)
            if before >= number:  # chains only lead to older entries
                break
            number = before
        return looked_at

    def slot(self, slot: cython.int) -> cython.int:
        """The number of the newest entry in a slot, 0 if there is none."""
        return self._number(self._slot_at(slot))

    def entry(self, number: cython.int):
        """(hash, position, seconds, number of the entry before it in its slot)."""
        at: cython.longlong = self._entry_at(number)
        return _ENTRY.unpack_from(self.view, at)

    def overlaps(self, begin_ms: cython.longlong, end_ms: cython.longlong) -> cython.bint:
        """Whether messages of this time range may be indexed here."""
        return self.begin_timestamp <= end_ms and begin_ms <= self.end_timestamp

    def rebuild(self, log_end: cython.longlong) -> cython.int:
        """Make slots, chains and header anew from the entries, as far as these are right.

        Entries are written one after another with growing positions; after a power failure
        some of the last may be missing, and any slot may be old. Returns how many are kept.
        """
        at: cython.longlong
        for at in range(HEADER_SIZE, self._entries_at, 4):
            if self._number(at) != 0:
                self._put_number(at, 0)
        self.used_slots = 0
        number: cython.int = 1
        first: cython.longlong = 0
        last: cython.longlong = -1
        seconds: cython.longlong = 0
        while number < self.max_entries and self.begin_timestamp > 0:
            at = self._entry_at(number)
            key_hash: cython.int = self._number(at)
            position: cython.longlong = self._position(at + 4)
            since: cython.int = self._number(at + 12)
            if key_hash < 0 or since < 0 or position < last or position >= log_end:
                break
            if key_hash == 0 and position == 0 and (number > 1 or self.begin_position != 0):
                break  # never written
            slot_at: cython.longlong = self._slot_at(key_hash % self.slots)
            before: cython.int = self._number(slot_at)
            if before == 0:
                self.used_slots += 1
            self._put_number(at + 16, before)
            self._put_number(slot_at, number)
            if number == 1:
                first = position
            last = position
            seconds = since
            number += 1
        if number > 1:
            self.begin_position = first
            self.end_position = last
            self.end_timestamp = self.begin_timestamp + seconds * 1000
        self.count = number
        self._write_header()
        return number - 1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _slot_at(self, slot: cython.longlong) -> cython.longlong:
        return _SLOTS_AT + slot * 4

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _entry_at(self, number: cython.longlong) -> cython.longlong:
        return self._entries_at + number * 20

    @cython.cfunc
    def _number(self, at: cython.longlong) -> cython.int:
        if cython.compiled:
            return get32(cython.address(self.view[at]))
        else:
            return _NUMBER.unpack_from(self.view, at)[0]

    @cython.cfunc
    def _position(self, at: cython.longlong) -> cython.longlong:
        if cython.compiled:
            return get64(cython.address(self.view[at]))
        else:
            return _POSITION.unpack_from(self.view, at)[0]

    @cython.cfunc
    def _put_number(self, at: cython.longlong, number: cython.int):
        if cython.compiled:
            put32(cython.address(self.view[at]), number)
        else:
            _NUMBER.pack_into(self.view, at, number)

    @cython.cfunc
    def _write_header(self):
        if cython.compiled:
            p: cython.p_uchar = cython.address(self.view[0])
            put64(p, self.begin_timestamp)
            put64(p + 8, self.end_timestamp)
            put64(p + 16, self.begin_position)
            put64(p + 24, self.end_position)
            put32(p + 32, self.used_slots)
            put32(p + 36, self.count)
        else:
            _HEADER.pack_into(
                self.view,
                0,
                self.begin_timestamp,
                self.end_timestamp,
                self.begin_position,
                self.end_position,
                self.used_slots,
                self.count,
            )

    def close(self) -> None:
        """Let go of the memory."""
        self.view = None
        self.limit = 0
