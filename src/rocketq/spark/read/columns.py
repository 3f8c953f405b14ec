# cython: annotation_typing=False
"""Pulled records, turned into the buffers of Arrow columns.

A pull answers with stored records one after another (`rocketq.message.record.layout`).
`RecordTable` walks over them once and notes where the parts of each wanted record lie:

    record   where it starts          body    where, and how long
    hosts    where the born host ends properties   where, and how long

then each column is filled from there, straight into a buffer of its final size, in Arrow's
layout (the machine's own order; offsets of variable-sized values as one more int32 than there are
rows). No Python object is made for a message.

Compiled where possible (columns.pxd gives the types).
"""

from collections.abc import Iterable
from typing import Final

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.message.hosts import decode_host
from rocketq.message.properties import entries
from rocketq.message.record import layout

# What is noted of each row, as places in a row of numbers.
RECORD: Final = 0
BODY: Final = 1
BODY_SIZE: Final = 2
PROPERTIES: Final = 3
PROPERTIES_SIZE: Final = 4
BORN_HOST_END: Final = 5
WIDTH: Final = 6

_FIRST_MS: Final = -62_135_596_800_000  # the years 1 and 9999
_LAST_MS: Final = 253_402_300_799_999

_KNOWN: Final = (b"UNIQ_KEY", b"KEYS", b"TAGS")

MapBuffers = tuple[bytearray, int, bytearray, bytearray, bytearray, bytearray]


class BrokenRecords(ValueError):
    """The bytes are not records."""


class RecordTable:
    """The wanted records of one pull: of these offsets, and with one of these tags.

    `has_inner_batches`: some records hold several messages; split them first. Bodies stay as they
    are stored: who wants them opens those of `compressed_rows` and gives them to `body_column`.
    """

    def __init__(
        self, buffer: Buffer, start: int, end: int, tags: Iterable[bytes] | None = None
    ) -> None:
        _check_size(len(buffer))
        self._view = memoryview(buffer)
        self._data = memory.viewed(self._view)
        self._noted = memory.unfilled((len(buffer) // layout.FIXED_SIZE + 1) * WIDTH * 8)
        self._rows = memory.int64s(self._noted)
        self._compressed: list[int] = []
        self._found: dict[bytes, bytearray] = {}
        self.count = 0
        self.has_inner_batches = False
        self._note_all(start, end, None if tags is None else tuple(tags))

    def _note_all(self, start: int, end: int, tags: tuple[bytes, ...] | None) -> None:
        size = len(self._view)
        at = 0
        while at < size:
            at += self._note(at, size - at, start, end, tags)

    def _note(
        self, at: int, left: int, start: int, end: int, tags: tuple[bytes, ...] | None
    ) -> int:
        """Note the record that starts here, if it is wanted; its size."""
        data = self._data
        if left < layout.FIXED_SIZE:
            raise BrokenRecords(f"{left} bytes are no record")
        size = memory.get32(data, at + layout.SIZE_AT)
        magic = memory.get32(data, at + layout.MAGIC_AT)
        if (
            size < layout.FIXED_SIZE
            or size > left
            or (magic != layout.MAGIC_V1 and magic != layout.MAGIC_V2)
        ):
            raise BrokenRecords(
                f"no record at byte {at}: size {size}, magic {magic & 0xFFFFFFFF:08x}"
            )
        sys_flag = memory.get32(data, at + layout.SYS_FLAG_AT)
        body = at + layout.body_at(sys_flag)
        if body + 3 > at + size:
            raise BrokenRecords(f"the record at byte {at} has no room for its hosts")
        body_size = memory.get32(data, body - layout.SIZE_BEFORE_BODY)
        if body_size < 0 or body + body_size + 3 > at + size:
            raise BrokenRecords(f"the record at byte {at} has a body of {body_size} bytes")
        place = body + body_size
        if magic == layout.MAGIC_V1:
            place += 1 + data[place]
        else:
            place += 2 + (data[place] << 8 | data[place + 1])
        if place + 2 > at + size:
            raise BrokenRecords(f"the record at byte {at} has a topic beyond its end")
        properties_size = data[place] << 8 | data[place + 1]
        properties = place + 2
        if properties + properties_size > at + size:
            raise BrokenRecords(f"the record at byte {at} has properties beyond its end")
        if sys_flag & layout.INNER_BATCH_BITS:
            self.has_inner_batches = True
        offset = memory.get64(data, at + layout.QUEUE_OFFSET_AT)
        if offset < start or offset >= end:
            return size
        if tags is not None:
            tag = entries.find_value(data, properties, properties + properties_size, b"TAGS", 4)
            if tag.at < 0 or not self._is_one_of(tags, tag.at, tag.size):
                return size
        row = self.count
        if sys_flag & layout.COMPRESSED:
            self._compressed.append(row)
        self._rows[row * WIDTH + RECORD] = at
        self._rows[row * WIDTH + BODY] = body
        self._rows[row * WIDTH + BODY_SIZE] = body_size
        self._rows[row * WIDTH + PROPERTIES] = properties
        self._rows[row * WIDTH + PROPERTIES_SIZE] = properties_size
        self._rows[row * WIDTH + BORN_HOST_END] = at + layout.store_time_at(sys_flag)
        self.count = row + 1
        return size

    def _is_one_of(self, texts: tuple[bytes, ...], at: int, size: int) -> bool:
        """Whether one of these texts lies here."""
        for text in texts:
            if len(text) == size and memory.same(self._data, at, memory.address(text), size):
                return True
        return False

    def _values_of(self, name: bytes) -> bytearray:
        """Where each row has its value of a property, and how long; -1 and 0 without."""
        kept = self._found.get(name)
        if kept is None and name in _KNOWN:
            self._find_known()
            kept = self._found[name]
        if kept is None:
            kept = self._found[name] = self._find_values(name)
        return kept

    def _find_values(self, name: bytes) -> bytearray:
        kept = memory.unfilled(16 * self.count)
        places = memory.int64s(kept)
        wanted = memory.address(name)
        for row in range(self.count):
            at = self._rows[row * WIDTH + PROPERTIES]
            end = at + self._rows[row * WIDTH + PROPERTIES_SIZE]
            found = entries.find_value(self._data, at, end, wanted, len(name))
            places[2 * row] = found.at
            places[2 * row + 1] = found.size
        return kept

    def _find_known(self) -> None:
        """The same for the properties that have columns of their own, in one walk."""
        data = self._data
        for name in _KNOWN:
            self._found[name] = memory.unfilled(16 * self.count)
        ids = memory.int64s(self._found[b"UNIQ_KEY"])
        keys = memory.int64s(self._found[b"KEYS"])
        tags = memory.int64s(self._found[b"TAGS"])
        for row in range(self.count):
            ids[2 * row] = keys[2 * row] = tags[2 * row] = -1
            ids[2 * row + 1] = keys[2 * row + 1] = tags[2 * row + 1] = 0
            at = self._rows[row * WIDTH + PROPERTIES]
            end = at + self._rows[row * WIDTH + PROPERTIES_SIZE]
            while at < end:
                stop = entries.entry_end(data, at, end)
                if entries.is_named(data, at, stop, b"UNIQ_KEY", 8):
                    ids[2 * row] = at + 9
                    ids[2 * row + 1] = stop - at - 9
                elif entries.is_named(data, at, stop, b"KEYS", 4):
                    keys[2 * row] = at + 5
                    keys[2 * row + 1] = stop - at - 5
                elif entries.is_named(data, at, stop, b"TAGS", 4):
                    tags[2 * row] = at + 5
                    tags[2 * row + 1] = stop - at - 5
                at = stop + 1

    # Columns of one size

    def int_column(self, field: int) -> bytearray:
        """An int32 of the record's head, `field` bytes from its start."""
        out = memory.unfilled(4 * self.count)
        to = memory.int32s(out)
        for row in range(self.count):
            to[row] = memory.get32(self._data, self._rows[row * WIDTH + RECORD] + field)
        return out

    def reconsume_column(self) -> bytearray:
        """How often each was consumed before: it lies before the body."""
        out = memory.unfilled(4 * self.count)
        to = memory.int32s(out)
        for row in range(self.count):
            to[row] = memory.get32(
                self._data, self._rows[row * WIDTH + BODY] - layout.RECONSUME_BEFORE_BODY
            )
        return out

    def long_column(self, field: int) -> bytearray:
        """An int64 of the record's head, `field` bytes from its start."""
        out = memory.unfilled(8 * self.count)
        to = memory.int64s(out)
        for row in range(self.count):
            to[row] = memory.get64(self._data, self._rows[row * WIDTH + RECORD] + field)
        return out

    def born_time_column(self) -> bytearray:
        """Microseconds. Producers say it, so it may be any number."""
        out = memory.unfilled(8 * self.count)
        to = memory.int64s(out)
        for row in range(self.count):
            at = self._rows[row * WIDTH + RECORD] + layout.BORN_TIME_AT
            to[row] = _microseconds(memory.get64(self._data, at))
        return out

    def store_time_column(self) -> bytearray:
        """Microseconds: it lies behind the born host."""
        out = memory.unfilled(8 * self.count)
        to = memory.int64s(out)
        for row in range(self.count):
            at = self._rows[row * WIDTH + BORN_HOST_END]
            to[row] = _microseconds(memory.get64(self._data, at))
        return out

    # Columns of any size: (offsets, data) or (validity, offsets, data)

    def compressed_rows(self) -> list[int]:
        """The rows whose bodies say that they are compressed, in order."""
        return self._compressed

    def sys_flag(self, row: int) -> int:
        return memory.get32(self._data, self._rows[row * WIDTH + RECORD] + layout.SYS_FLAG_AT)

    def queue_offset(self, row: int) -> int:
        return memory.get64(self._data, self._rows[row * WIDTH + RECORD] + layout.QUEUE_OFFSET_AT)

    def stored_body(self, row: int) -> Buffer:
        """A body as it is stored."""
        at = self._rows[row * WIDTH + BODY]
        return self._view[at : at + self._rows[row * WIDTH + BODY_SIZE]]

    def body_column(
        self, first: int, end: int, opened: dict[int, bytes]
    ) -> tuple[bytearray, bytearray]:
        """The bodies of these rows; those in `opened` are taken from there."""
        total = 0
        for row in range(first, end):
            total += self._rows[row * WIDTH + BODY_SIZE]
        for row in opened:
            total += len(opened[row]) - self._rows[row * WIDTH + BODY_SIZE]
        _check_size(total)
        offsets, out = memory.unfilled(4 * (end - first + 1)), memory.unfilled(total)
        to_offsets, to = memory.int32s(offsets), memory.room(out)
        to_offsets[0] = 0
        at = 0
        has_opened = bool(opened)
        for row in range(first, end):
            size = self._rows[row * WIDTH + BODY_SIZE]
            plain = opened.get(row) if has_opened else None
            if plain is None:
                memory.copy(to, at, self._data, self._rows[row * WIDTH + BODY], size)
            else:
                size = memory.put(to, at, plain) - at
            at += size
            to_offsets[row - first + 1] = at
        return offsets, out

    def property_column(self, name: bytes) -> tuple[bytearray, bytearray, bytearray]:
        """One property's values; null where a message has none."""
        places = memory.int64s(self._values_of(name))
        validity = bytearray((self.count + 7) // 8)
        offsets = memory.unfilled(4 * (self.count + 1))
        bits, to_offsets = memory.room(validity), memory.int32s(offsets)
        to_offsets[0] = 0
        total = 0
        for row in range(self.count):
            if places[2 * row] >= 0:
                bits[row >> 3] |= 1 << (row & 7)
                total += places[2 * row + 1]
            to_offsets[row + 1] = total
        _check_size(total)
        out = memory.unfilled(total)
        to = memory.room(out)
        total = 0
        for row in range(self.count):
            size = places[2 * row + 1]
            if size:
                memory.copy(to, total, self._data, places[2 * row], size)
                total += size
        return validity, offsets, out

    def id_column(self) -> tuple[bytearray, bytearray]:
        """The unique keys; where there is none, the id that names the place in the log."""
        places = memory.int64s(self._values_of(b"UNIQ_KEY"))
        offsets = memory.unfilled(4 * (self.count + 1))
        to_offsets = memory.int32s(offsets)
        to_offsets[0] = 0
        total = 0
        for row in range(self.count):
            if places[2 * row] >= 0:
                total += places[2 * row + 1]
            else:  # the store host and the position, in hexadecimal
                total += 2 * (self._store_host_size(row) + 8)
            to_offsets[row + 1] = total
        _check_size(total)
        out = memory.unfilled(total)
        to = memory.room(out)
        at = 0
        for row in range(self.count):
            if places[2 * row] >= 0:
                size = places[2 * row + 1]
                memory.copy(to, at, self._data, places[2 * row], size)
                at += size
            else:
                host = self._rows[row * WIDTH + BORN_HOST_END] + 8
                at = memory.put_hex(to, at, self._data, host, self._store_host_size(row))
                place = self._rows[row * WIDTH + RECORD] + layout.PHYSICAL_OFFSET_AT
                at = memory.put_hex(to, at, self._data, place, 8)
        return offsets, out

    def _store_host_size(self, row: int) -> int:
        return layout.store_host_size(self.sys_flag(row))

    def map_column(self) -> MapBuffers:
        """All properties: entry offsets, number of entries, then names and values."""
        total = 0
        for row in range(self.count):
            # An entry has three bytes at least, and one that separates it from the next.
            total += (self._rows[row * WIDTH + PROPERTIES_SIZE] + 1) // 4
        kept = memory.unfilled(16 * total)
        spans = memory.int32s(kept)
        offsets = memory.unfilled(4 * (self.count + 1))
        to_offsets = memory.int32s(offsets)
        to_offsets[0] = 0
        count = 0
        for row in range(self.count):
            count = self._note_entries(row, spans, count)
            to_offsets[row + 1] = count
        names_size = values_size = 0
        for entry in range(count):
            names_size += spans[4 * entry + 1]
            values_size += spans[4 * entry + 3]
        names, values = memory.unfilled(names_size), memory.unfilled(values_size)
        name_offsets = memory.unfilled(4 * (count + 1))
        value_offsets = memory.unfilled(4 * (count + 1))
        to_name_offsets, to_value_offsets = (
            memory.int32s(name_offsets),
            memory.int32s(value_offsets),
        )
        to_names, to_values = memory.room(names), memory.room(values)
        to_name_offsets[0] = 0
        to_value_offsets[0] = 0
        name_at = value_at = 0
        for entry in range(count):
            memory.copy(to_names, name_at, self._data, spans[4 * entry], spans[4 * entry + 1])
            memory.copy(to_values, value_at, self._data, spans[4 * entry + 2], spans[4 * entry + 3])
            name_at += spans[4 * entry + 1]
            value_at += spans[4 * entry + 3]
            to_name_offsets[entry + 1] = name_at
            to_value_offsets[entry + 1] = value_at
        return offsets, count, name_offsets, names, value_offsets, values

    def _note_entries(self, row: int, spans: memoryview, first: int) -> int:
        """Note where names and values of a row lie, from entry `first` on; where the notes end.

        A map has each name once, with its last value.
        """
        data = self._data
        at = self._rows[row * WIDTH + PROPERTIES]
        end = at + self._rows[row * WIDTH + PROPERTIES_SIZE]
        seen = 0  # a bit for each name, perhaps the same for several
        entry = first
        while at < end:
            stop = entries.entry_end(data, at, end)
            middle = entries.name_end(data, at, stop)
            if middle >= 0:
                mark = memory.bit((data[at] * 7 + data[middle - 1] + middle - at) & 63)
                place = entry
                if seen & mark:
                    place = first
                    while place < entry and not (
                        spans[4 * place + 1] == middle - at
                        and memory.same(data, at, memory.part(data, spans[4 * place]), middle - at)
                    ):
                        place += 1
                seen |= mark
                spans[4 * place] = at
                spans[4 * place + 1] = middle - at
                spans[4 * place + 2] = middle + 1
                spans[4 * place + 3] = stop - middle - 1
                if place == entry:
                    entry += 1
            at = stop + 1
        return entry

    def host_column(self) -> tuple[bytearray, bytearray]:
        """host:port of each producer. Neighbours mostly have the same one."""
        offsets, out = memory.unfilled(4 * (self.count + 1)), bytearray()
        to_offsets = memory.int32s(offsets)
        to_offsets[0] = 0
        last = b""
        text = b""
        for row in range(self.count):
            at = self._rows[row * WIDTH + RECORD] + layout.BORN_HOST_AT
            size = self._rows[row * WIDTH + BORN_HOST_END] - at
            if len(last) != size or not memory.same(self._data, at, memory.address(last), size):
                last = memory.bytes_at(self._data, at, size)
                host, port = decode_host(last)
                text = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
            out += text
            to_offsets[row + 1] = len(out)
        return offsets, out


def _check_size(total: int) -> None:
    if total > 0x7FFFFFFF:
        raise BrokenRecords(f"{total} bytes do not fit into one column")


def _microseconds(milliseconds: int) -> int:
    """The same time, or the first or last one that Python and Spark can show."""
    if milliseconds < _FIRST_MS:
        return _FIRST_MS * 1000
    if milliseconds > _LAST_MS:
        return _LAST_MS * 1000
    return milliseconds * 1000
