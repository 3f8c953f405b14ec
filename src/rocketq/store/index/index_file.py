# cython: annotation_typing=False, cdivision=True
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

Compiled where possible (index_file.pxd gives the types): entries are added in the turn in which
their message is appended. Only positive numbers are divided (cdivision).
"""

import mmap
from typing import Final

from rocketq.common import memory

HEADER_SIZE: Final = 40
ENTRY_SIZE: Final = 20

_NOTHING: Final = memoryview(b"")

# Fields of the header

_BEGIN_TIME_AT: Final = 0
_END_TIME_AT: Final = 8
_BEGIN_POSITION_AT: Final = 16
_END_POSITION_AT: Final = 24
_USED_SLOTS_AT: Final = 32
_COUNT_AT: Final = 36
_SLOTS_AT: Final = HEADER_SIZE

# Fields of an entry

_HASH_AT: Final = 0
_POSITION_AT: Final = 4
_SECONDS_AT: Final = 12
_BEFORE_AT: Final = 16
_STEP: Final = ENTRY_SIZE


def positive_hash(java_hash: int) -> int:
    """A key's hash as it is stored: without its sign, and 0 for the one that has no opposite."""
    if java_hash >= 0:
        return java_hash
    if java_hash == -2147483648:
        return 0
    return -java_hash


class IndexFile:
    """Written by the dispatcher alone; read by anyone."""

    def __init__(
        self, view: mmap.mmap | memoryview | bytearray, slots: int, max_entries: int
    ) -> None:
        self.slots = slots
        self.max_entries = max_entries
        self._entries_at = self._slot_at(slots)
        if slots < 1 or max_entries < 1 or len(view) < self._entry_at(max_entries):
            raise ValueError(f"{len(view)} bytes, {slots} slots, {max_entries} entries")
        self._view: memoryview | None = memoryview(view)  # holds it in its place
        self._memory = memory.viewed(self._view)
        self.begin_timestamp = memory.get64(self._memory, _BEGIN_TIME_AT)
        self.end_timestamp = memory.get64(self._memory, _END_TIME_AT)
        self.begin_position = memory.get64(self._memory, _BEGIN_POSITION_AT)
        self.end_position = memory.get64(self._memory, _END_POSITION_AT)
        self.used_slots = memory.get32(self._memory, _USED_SLOTS_AT)
        self.count = max(memory.get32(self._memory, _COUNT_AT), 1)
        self.limit = 0  # entries below this number have room that is safe to write

    @property
    def is_full(self) -> bool:
        return self.count >= self.max_entries

    @property
    def is_empty(self) -> bool:
        return self.count <= 1

    def begin_after(self, position: int, timestamp: int) -> None:
        """Mark a fresh file as the one that follows another, which ended like this."""
        self.begin_position = self.end_position = position
        self.begin_timestamp = self.end_timestamp = timestamp
        self._write_header()

    def put(self, key_hash: int, position: int, timestamp: int) -> bool:
        """Add an entry. False: the file is full, or its next entry has no room yet."""
        if self.count >= self.limit:
            return False
        slot_at = self._slot_at(key_hash % self.slots)
        before = memory.get32(self._memory, slot_at)
        if before <= 0 or before > self.count:
            before = 0
        seconds = 0
        if self.begin_timestamp > 0:
            seconds = (timestamp - self.begin_timestamp) // 1000
            if seconds < 0:
                seconds = 0
            elif seconds > 0x7FFFFFFF:
                seconds = 0x7FFFFFFF
        at = self._entry_at(self.count)
        memory.put32(self._memory, at + _HASH_AT, key_hash)
        memory.put64(self._memory, at + _POSITION_AT, position)
        memory.put32(self._memory, at + _SECONDS_AT, seconds)
        memory.put32(self._memory, at + _BEFORE_AT, before)
        memory.put32(self._memory, slot_at, self.count)
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

    def has(self, key_hash: int, position: int) -> bool:
        """Whether the last message indexed has this key in the index already."""
        number = self.slot(key_hash % self.slots)
        while 0 < number < self.count and number < self.max_entries:
            at = self._entry_at(number)
            if memory.get64(self._memory, at + _POSITION_AT) != position:
                return False
            if memory.get32(self._memory, at + _HASH_AT) == key_hash:
                return True
            number = memory.get32(self._memory, at + _BEFORE_AT)
        return False

    def find(
        self,
        key_hash: int,
        begin_ms: int,
        end_ms: int,
        max_count: int,
        found: list[int],
        most: int,
    ) -> int:
        """Add to `found` the log positions of messages with this hash, newest first.

        Looks at `most` entries at the most, and returns at how many it has looked.
        """
        looked_at = 0
        number = self.slot(key_hash % self.slots)
        # Files of others are read too, and what their numbers say need not be in them.
        last = min(self.count, self.max_entries - 1)
        while 0 < number <= last and len(found) < max_count and looked_at < most:
            looked_at += 1
            at = self._entry_at(number)
            seconds = memory.get32(self._memory, at + _SECONDS_AT)
            if seconds < 0:
                break
            timestamp = self.begin_timestamp + seconds * 1000
            if timestamp < begin_ms - 1000:  # times are kept in whole seconds
                break
            if (
                memory.get32(self._memory, at + _HASH_AT) == key_hash
                and begin_ms <= timestamp + 999
                and timestamp <= end_ms
            ):
                found.append(memory.get64(self._memory, at + _POSITION_AT))
            before = memory.get32(self._memory, at + _BEFORE_AT)
            if before >= number:  # chains only lead to older entries
                break
            number = before
        return looked_at

    def slot(self, slot: int) -> int:
        """The number of the newest entry in a slot, 0 if there is none."""
        if not 0 <= slot < self.slots:
            raise IndexError(slot)
        return memory.get32(self._memory, self._slot_at(slot))

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(hash, position, seconds, number of the entry before it in its slot)."""
        if not 0 <= number < self.max_entries:
            raise IndexError(number)
        at = self._entry_at(number)
        return (
            memory.get32(self._memory, at + _HASH_AT),
            memory.get64(self._memory, at + _POSITION_AT),
            memory.get32(self._memory, at + _SECONDS_AT),
            memory.get32(self._memory, at + _BEFORE_AT),
        )

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether messages of this time range may be indexed here."""
        return self.begin_timestamp <= end_ms and begin_ms <= self.end_timestamp

    def rebuild(self, log_end: int) -> int:
        """Make slots, chains and header anew from the entries, as far as these are right.

        Entries are written one after another with growing positions; after a power failure
        some of the last may be missing, and any slot may be old. Returns how many are kept.
        """
        for at in range(_SLOTS_AT, self._entries_at, 4):
            if memory.get32(self._memory, at) != 0:
                memory.put32(self._memory, at, 0)
        self.used_slots = 0
        number = 1
        first = 0
        last = -1
        seconds = 0
        while number < self.max_entries and self.begin_timestamp > 0:
            at = self._entry_at(number)
            key_hash = memory.get32(self._memory, at + _HASH_AT)
            position = memory.get64(self._memory, at + _POSITION_AT)
            since = memory.get32(self._memory, at + _SECONDS_AT)
            if key_hash < 0 or since < 0 or position < last or position >= log_end:
                break
            if key_hash == 0 and position == 0 and (number > 1 or self.begin_position != 0):
                break  # never written
            slot_at = self._slot_at(key_hash % self.slots)
            before = memory.get32(self._memory, slot_at)
            if before == 0:
                self.used_slots += 1
            memory.put32(self._memory, at + _BEFORE_AT, before)
            memory.put32(self._memory, slot_at, number)
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

    def _slot_at(self, slot: int) -> int:
        return _SLOTS_AT + slot * 4

    def _entry_at(self, number: int) -> int:
        return self._entries_at + number * _STEP

    def _write_header(self) -> None:
        memory.put64(self._memory, _BEGIN_TIME_AT, self.begin_timestamp)
        memory.put64(self._memory, _END_TIME_AT, self.end_timestamp)
        memory.put64(self._memory, _BEGIN_POSITION_AT, self.begin_position)
        memory.put64(self._memory, _END_POSITION_AT, self.end_position)
        memory.put32(self._memory, _USED_SLOTS_AT, self.used_slots)
        memory.put32(self._memory, _COUNT_AT, self.count)

    def close(self) -> None:
        """Let go of the memory."""
        self._view = None
        self._memory = memory.viewed(_NOTHING)
        self.limit = 0
