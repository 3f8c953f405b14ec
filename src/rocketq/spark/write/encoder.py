# cython: annotation_typing=False
"""Rows of Arrow batches, encoded as the body of one batch send.

The body of SEND_BATCH_MESSAGE is a row of items (`rocketq.message.record.layout`). `BatchRows`
holds the buffers of the columns and writes rows one after another, with properties joined from
tags, keys, sharding key and the map, and a unique key made of the writer's prefix and the row's
number:

    UNIQ_KEY 0x01 prefix(24) number(8, hexadecimal) 0x02
    TAGS 0x01 ... 0x02   KEYS 0x01 ... 0x02   __SHARDINGKEY 0x01 ... 0x02   those of the map

No Python object is made for a row. Compiled where possible (encoder.pxd gives the types).
"""

from typing import Final

from rocketq.common import memory
from rocketq.common.memory import Buffer, WritableBuffer
from rocketq.message import hashing
from rocketq.message.record import layout

_PREFIX_SIZE: Final = 24
_UNIQUE_KEY_SIZE: Final = 9 + _PREFIX_SIZE + 8 + 1


class UnfitRow(ValueError):
    """A row that cannot be a message; `row` is its place in the batch."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


class Numbers:
    """A column, or a choice of rows: 32-bit numbers in a buffer."""

    def __init__(self, buffer: Buffer) -> None:
        """`buffer`: anything of four bytes a number, in the machine's own order."""
        self._view = _bytes_of(buffer)
        self.count = len(self._view) // 4
        self.values = memory.viewed_int32s(self._view)


class Texts:
    """A column of variable-sized values: Arrow's buffers, seen as bytes."""

    def __init__(self, validity: Buffer | None, offsets: Buffer, data: Buffer, shift: int) -> None:
        """`shift`: rows to skip in the buffers, where the array is a slice."""
        self._has_validity = validity is not None
        self._validity = _bytes_of(b"" if validity is None else validity)
        self._offsets = _bytes_of(offsets)
        self._data = _bytes_of(data)
        self._shift = shift
        self._bits = memory.viewed(self._validity)
        self._ends = memory.viewed_int32s(self._offsets)
        self.data = memory.viewed(self._data)

    def start(self, row: int) -> int:
        """Where the value begins in `data`."""
        at: int = self._ends[row + self._shift]
        return at

    def size(self, row: int) -> int:
        """How long the value is; 0 when there is none."""
        at = row + self._shift
        if self._has_validity and not (self._bits[at >> 3] >> (at & 7)) & 1:
            return 0
        size: int = self._ends[at + 1] - self._ends[at]
        return size

    def value(self, row: int) -> bytes:
        """The value as an object, for the rare case."""
        return memory.bytes_at(self.data, self.start(row), self.size(row))

    def java_hashes(self, count: int) -> bytearray:
        """Java's hash code of the first `count` values, 32 bits each; 0 where there is none."""
        out = memory.unfilled(4 * count)
        to = memory.int32s(out)
        for row in range(count):
            to[row] = hashing.hash_at(self.data, self.start(row), self.size(row), 0)
        return out


class BatchRows:
    """The rows of one record batch, on their way to brokers."""

    def __init__(
        self,
        count: int,
        bodies: Texts,
        tags: Texts | None,
        keys: Texts | None,
        sharding_keys: Texts | None,
        properties: tuple[Numbers, Texts, Texts] | None,
        flags: Numbers | None,
        reserved: frozenset[bytes],
        prefix: bytes,
        first_row: int,
    ) -> None:
        """`properties` is (where the entries of each row end, names, values) or None."""
        if len(prefix) != _PREFIX_SIZE:
            raise ValueError(f"a prefix of {len(prefix)} characters")
        self.count = count
        self._bodies = bodies
        self._tags = tags
        self._keys = keys
        self._sharding_keys = sharding_keys
        self._entries = None if properties is None else properties[0]
        # Never looked at without entries.
        self._names = bodies if properties is None else properties[1]
        self._values = bodies if properties is None else properties[2]
        self._flags = flags
        self._reserved = reserved
        self._prefix = prefix
        self._first_row = first_row

    def encode(
        self, rows: Numbers | None, begin: int, max_bytes: int, max_messages: int
    ) -> tuple[bytearray, int]:
        """Encode the rows `rows` names from place `begin` on (without `rows`, all from `begin`).

        Stops before either limit would be broken, but takes at least one row. Returns the body
        and the place to go on from.
        """
        end = self.count if rows is None else rows.count
        end = min(end, begin + max_messages)
        out = bytearray(max_bytes)
        at = 0
        place = begin
        while place < end:
            row = place if rows is None else rows.values[place]
            properties_size = self._properties_size(row)
            size = layout.ITEM_FIXED_SIZE + self._bodies.size(row) + properties_size
            if at + size > len(out):
                if at:
                    break
                # A row larger than a batch goes alone; whether it may, the broker says.
                out = bytearray(size)
            self._write(memory.room(out), at, row, size, properties_size)
            at += size
            place += 1
        del out[at:]
        return out, place

    def _properties_size(self, row: int) -> int:
        """How long a row's properties become; raises where there can be no such message."""
        if self._bodies.size(row) == 0:
            raise UnfitRow(row, "the body is null or empty")
        size = _UNIQUE_KEY_SIZE
        if self._tags is not None:
            size += self._entry_size(self._tags, row, 4)
        if self._keys is not None:
            size += self._entry_size(self._keys, row, 4)
        if self._sharding_keys is not None:
            size += self._entry_size(self._sharding_keys, row, 13)
        if self._entries is not None:
            for entry in range(self._entries.values[row], self._entries.values[row + 1]):
                if self._is_wanted(entry):
                    if _has_separator(self._names, entry) or _has_separator(self._values, entry):
                        name = self._names.value(entry)
                        raise UnfitRow(row, f"property {name!r} contains character 1 or 2")
                    size += self._names.size(entry) + self._values.size(entry) + 2
        if size > layout.MAX_PROPERTIES_SIZE:
            limit = layout.MAX_PROPERTIES_SIZE
            raise UnfitRow(row, f"its properties take {size} bytes, {limit} may be")
        return size

    def _entry_size(self, texts: Texts, row: int, name_size: int) -> int:
        """What an entry takes; refuses a text with a character that separates properties."""
        size = texts.size(row)
        if size == 0:
            return 0
        if _has_separator(texts, row):
            raise UnfitRow(row, f"{texts.value(row)!r} contains character 1 or 2")
        return name_size + 2 + size

    def _is_wanted(self, entry: int) -> bool:
        """Whether an entry of the map becomes a property: the system's own names do not."""
        if self._names.size(entry) == 0 or self._values.size(entry) == 0:
            return False
        # No reserved name begins with a small letter, and most others do.
        if self._names.data[self._names.start(entry)] >= 97:
            return True
        return self._names.value(entry) not in self._reserved

    def _write(
        self, out: WritableBuffer, at: int, row: int, size: int, properties_size: int
    ) -> None:
        """Write one item into zeros."""
        memory.put32(out, at, size)
        if self._flags is not None:
            memory.put32(out, at + layout.ITEM_FLAG_AT, self._flags.values[row])
        memory.put32(out, at + layout.ITEM_BODY_SIZE_AT, self._bodies.size(row))
        at = _put_text(out, at + layout.ITEM_BODY_AT, self._bodies, row)
        memory.put16(out, at, properties_size)
        memory.copy(out, at + 2, b"UNIQ_KEY\x01", 0, 9)
        memory.copy(out, at + 11, memory.address(self._prefix), 0, 24)
        at = memory.put_hex_number(out, at + 35, self._first_row + row, 8)
        out[at] = 2
        at += 1
        if self._tags is not None and self._tags.size(row):
            memory.copy(out, at, b"TAGS\x01", 0, 5)
            at = _put_text(out, at + 5, self._tags, row)
            out[at] = 2
            at += 1
        if self._keys is not None and self._keys.size(row):
            memory.copy(out, at, b"KEYS\x01", 0, 5)
            at = _put_text(out, at + 5, self._keys, row)
            out[at] = 2
            at += 1
        if self._sharding_keys is not None and self._sharding_keys.size(row):
            memory.copy(out, at, b"__SHARDINGKEY\x01", 0, 14)
            at = _put_text(out, at + 14, self._sharding_keys, row)
            out[at] = 2
            at += 1
        if self._entries is not None:
            for entry in range(self._entries.values[row], self._entries.values[row + 1]):
                if self._is_wanted(entry):
                    at = _put_text(out, at, self._names, entry)
                    out[at] = 1
                    at = _put_text(out, at + 1, self._values, entry)
                    out[at] = 2
                    at += 1


def _put_text(out: WritableBuffer, at: int, texts: Texts, row: int) -> int:
    """Write a value; where it ends."""
    size = texts.size(row)
    memory.copy(out, at, texts.data, texts.start(row), size)
    return at + size


def _has_separator(texts: Texts, row: int) -> bool:
    start = texts.start(row)
    end = start + texts.size(row)
    return (
        memory.find(texts.data, start, end, 1) < end or memory.find(texts.data, start, end, 2) < end
    )


def _bytes_of(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view if view.format == "B" else view.cast("B")
