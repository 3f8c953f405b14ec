"""Pulled records, turned into the buffers of Arrow columns.

A pull answers with stored records one after another (`rocketq.message.record.writer`).
`RecordTable` walks over them once and notes where the parts of each wanted record lie:

    record   where it starts          body    where, and how long
    hosts    where the born host is   properties   where, and how long

then each column is filled from there, straight into a buffer of its final size, in Arrow's
layout (little-endian; offsets of variable-sized values as one more int32 than there are rows).
No Python object is made for a message.

Compiled where possible. Uncompiled the same lines run on bytes and bytearrays; only the few
functions at the end differ.
"""

import cython

from rocketq.message.hosts import decode_host
from rocketq.remoting.wire.frame import unfilled

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.libc.stdint import int64_t
    from cython.cimports.libc.stdlib import free, malloc
    from cython.cimports.libc.string import memchr, memcmp, memcpy
    from cython.cimports.rocketq.common.big_endian import get32, get64
else:
    int64_t = int

_WIDTH = cython.declare(cython.Py_ssize_t, 6)  # numbers noted for each row
_RECORD = cython.declare(cython.Py_ssize_t, 0)
_BODY = cython.declare(cython.Py_ssize_t, 1)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, 2)
_PROPERTIES = cython.declare(cython.Py_ssize_t, 3)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, 4)
_AFTER_BORN_HOST = cython.declare(cython.Py_ssize_t, 5)

_COMPRESSED = cython.declare(cython.int, 0x1)
_BORN_V6 = cython.declare(cython.int, 0x10)
_STORE_V6 = cython.declare(cython.int, 0x20)
_INNER_BATCH = cython.declare(cython.int, 0xC0)
_MAGIC_V1 = cython.declare(cython.uint, 0xDAA320A7)
_MAGIC_V2 = cython.declare(cython.uint, 0xDAA320AB)
_HEX = cython.declare(bytes, b"0123456789ABCDEF")
_FIRST_MS = cython.declare(int64_t, -62_135_596_800_000)  # the years 1 and 9999
_LAST_MS = cython.declare(int64_t, 253_402_300_799_999)


class BrokenRecords(ValueError):
    """The bytes are not records."""


@cython.final
@cython.cclass
class RecordTable:
    """The wanted records of one pull: of these offsets, and with one of these tags.

    `has_inner_batches`: some records hold several messages; split them first. Bodies stay as they
    are stored: who wants them opens those of `compressed_rows` and gives them to `body_column`.
    """

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    has_inner_batches = cython.declare(cython.bint, visibility="readonly")
    _buffer = cython.declare(object)
    if cython.compiled:
        _data = cython.declare(cython.p_const_uchar)
        _rows = cython.declare(cython.pointer(int64_t))
    _compressed = cython.declare(list)

    def __cinit__(self) -> None:
        if cython.compiled:
            self._rows = cython.NULL

    def __init__(self, buffer, start: int64_t, end: int64_t, tags=None):
        self._buffer = buffer
        self._compressed = []
        self.count = 0
        self.has_inner_batches = False
        size: cython.Py_ssize_t = len(buffer)
        if cython.compiled:
            # An empty answer has no first byte to point at.
            if size:
                view: cython.const_uchar[::1] = buffer
                self._data = cython.address(view[0])
            rows = size // 91 + 1
            self._rows = cython.cast(
                cython.pointer(int64_t), malloc(rows * _WIDTH * cython.sizeof(int64_t))
            )
            if self._rows == cython.NULL:
                raise MemoryError
        else:
            self._data = bytes(buffer)
            self._rows = []
        wanted = None if tags is None else tuple(tags)
        at: cython.Py_ssize_t = 0
        while at < size:
            at += self._note(at, size - at, start, end, wanted)

    def __dealloc__(self) -> None:
        if cython.compiled:
            free(self._rows)

    @cython.cfunc
    def _note(
        self,
        at: cython.Py_ssize_t,
        left: cython.Py_ssize_t,
        start: int64_t,
        end: int64_t,
        tags,
    ) -> cython.Py_ssize_t:
        """Note the record that starts here, if it is wanted; its size."""
        data = self._data
        if left < 91:
            raise BrokenRecords(f"{left} bytes are no record")
        size: cython.Py_ssize_t = _int4(data, at)
        magic: cython.uint = _uint4(data, at + 4)
        if size < 91 or size > left or (magic != _MAGIC_V1 and magic != _MAGIC_V2):
            raise BrokenRecords(f"no record at byte {at}: size {size}, magic {magic:08x}")
        sys_flag: cython.int = _int4(data, at + 36)
        after_born: cython.Py_ssize_t = at + (68 if sys_flag & _BORN_V6 else 56)
        place: cython.Py_ssize_t = after_born + (28 if sys_flag & _STORE_V6 else 16) + 12
        body_size: cython.Py_ssize_t = _int4(data, place)
        body: cython.Py_ssize_t = place + 4
        if body_size < 0 or body + body_size + 3 > at + size:
            raise BrokenRecords(f"the record at byte {at} has a body of {body_size} bytes")
        place = body + body_size
        if magic == _MAGIC_V1:
            place += 1 + data[place]
        else:
            place += 2 + (data[place] << 8 | data[place + 1])
        if place + 2 > at + size:
            raise BrokenRecords(f"the record at byte {at} has a topic beyond its end")
        properties_size: cython.Py_ssize_t = data[place] << 8 | data[place + 1]
        properties: cython.Py_ssize_t = place + 2
        if properties + properties_size > at + size:
            raise BrokenRecords(f"the record at byte {at} has properties beyond its end")
        if sys_flag & _INNER_BATCH:
            self.has_inner_batches = True
        offset: int64_t = _int8(data, at + 20)
        if offset < start or offset >= end:
            return size
        if tags is not None:
            value_at: cython.Py_ssize_t = 0
            value_size: cython.Py_ssize_t = 0
            value_at, value_size = self._find(properties, properties_size, b"TAGS")
            if value_at < 0 or not self._is_one_of(tags, value_at, value_size):
                return size
        row: cython.Py_ssize_t = self.count
        if sys_flag & _COMPRESSED:
            self._compressed.append(row)
        if cython.compiled:
            noted: cython.pointer(int64_t) = self._rows + row * _WIDTH
            noted[_RECORD] = at
            noted[_BODY] = body
            noted[_BODY_SIZE] = body_size
            noted[_PROPERTIES] = properties
            noted[_PROPERTIES_SIZE] = properties_size
            noted[_AFTER_BORN_HOST] = after_born
        else:
            self._rows += (at, body, body_size, properties, properties_size, after_born)
        self.count = row + 1
        return size

    @cython.cfunc
    def _is_one_of(
        self, texts: tuple, at: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether one of these texts lies here."""
        text: bytes
        for text in texts:  # noqa: SIM110 (a generator would be an object a row)
            if len(text) == size and _same(self._data, at, text, size):
                return True
        return False

    @cython.cfunc
    def _find(
        self, at: cython.Py_ssize_t, size: cython.Py_ssize_t, name: bytes
    ) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t]:
        """Where the value of a property lies, and its size; -1 without it."""
        end: cython.Py_ssize_t = at + size
        length: cython.Py_ssize_t = len(name)
        while at < end:
            stop: cython.Py_ssize_t = _find_byte(self._data, at, end, 2)
            if (
                stop - at > length + 1
                and self._data[at + length] == 1
                and _same(self._data, at, name, length)
            ):
                return at + length + 1, stop - at - length - 1
            at = stop + 1
        return -1, 0

    # Columns of one size

    def int_column(self, field: cython.Py_ssize_t) -> bytearray:
        """An int32 of the record's head, `field` bytes from its start."""
        out = unfilled(4 * self.count)
        to = _pointer(out)
        row: cython.Py_ssize_t
        for row in range(self.count):
            _put4(to, 4 * row, _int4(self._data, self._rows[row * _WIDTH] + field))
        return out

    def reconsume_column(self) -> bytearray:
        """How often each was consumed before: it lies behind both hosts."""
        out = unfilled(4 * self.count)
        to = _pointer(out)
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for row in range(self.count):
            at = self._rows[row * _WIDTH]
            at = self._rows[row * _WIDTH + _AFTER_BORN_HOST] + (
                28 if _int4(self._data, at + 36) & _STORE_V6 else 16
            )
            _put4(to, 4 * row, _int4(self._data, at))
        return out

    def long_column(self, field: cython.Py_ssize_t) -> bytearray:
        """An int64 of the record's head, `field` bytes from its start."""
        out = unfilled(8 * self.count)
        to = _pointer(out)
        row: cython.Py_ssize_t
        for row in range(self.count):
            _put8(to, 8 * row, _int8(self._data, self._rows[row * _WIDTH] + field))
        return out

    def born_time_column(self) -> bytearray:
        """Microseconds. Producers say it, so it may be any number."""
        out = unfilled(8 * self.count)
        to = _pointer(out)
        row: cython.Py_ssize_t
        for row in range(self.count):
            at: cython.Py_ssize_t = self._rows[row * _WIDTH]
            _put8(to, 8 * row, _microseconds(_int8(self._data, at + 40)))
        return out

    def store_time_column(self) -> bytearray:
        """Microseconds: it lies behind the born host."""
        out = unfilled(8 * self.count)
        to = _pointer(out)
        row: cython.Py_ssize_t
        for row in range(self.count):
            at: cython.Py_ssize_t = self._rows[row * _WIDTH + _AFTER_BORN_HOST]
            _put8(to, 8 * row, _microseconds(_int8(self._data, at)))
        return out

    # Columns of any size: (offsets, data) or (validity, offsets, data)

    def compressed_rows(self) -> list[int]:
        """The rows whose bodies say that they are compressed, in order."""
        return self._compressed

    def sys_flag(self, row: cython.Py_ssize_t) -> int:
        return _int4(self._data, self._rows[row * _WIDTH] + 36)

    def queue_offset(self, row: cython.Py_ssize_t) -> int:
        return _int8(self._data, self._rows[row * _WIDTH] + 20)

    def stored_body(self, row: cython.Py_ssize_t):
        """A body as it is stored."""
        at: cython.Py_ssize_t = self._rows[row * _WIDTH + _BODY]
        return self._buffer[at : at + self._rows[row * _WIDTH + _BODY_SIZE]]

    def body_column(
        self, first: cython.Py_ssize_t, end: cython.Py_ssize_t, opened: dict
    ) -> tuple[bytearray, bytearray]:
        """The bodies of these rows; those in `opened` are taken from there."""
        total: int64_t = 0
        row: cython.Py_ssize_t
        for row in range(first, end):
            total += self._rows[row * _WIDTH + _BODY_SIZE]
        for row in opened:
            total += len(opened[row]) - self._rows[row * _WIDTH + _BODY_SIZE]
        _check_size(total)
        offsets, out = unfilled(4 * (end - first + 1)), unfilled(total)
        to_offsets, to = _pointer(offsets), _pointer(out)
        _put4(to_offsets, 0, 0)
        at: cython.Py_ssize_t = 0
        has_opened: cython.bint = bool(opened)
        for row in range(first, end):
            size: cython.Py_ssize_t = self._rows[row * _WIDTH + _BODY_SIZE]
            plain = opened.get(row) if has_opened else None
            if plain is None:
                _copy(to, at, self._data, self._rows[row * _WIDTH + _BODY], size)
            else:
                size = len(plain)
                out[at : at + size] = plain
            at += size
            _put4(to_offsets, 4 * (row - first + 1), at)
        return offsets, out

    def property_column(self, name: bytes) -> tuple[bytearray, bytearray, bytearray]:
        """One property's values; null where a message has none."""
        count: cython.Py_ssize_t = self.count
        validity, offsets = bytearray((count + 7) // 8), unfilled(4 * (count + 1))
        places = unfilled(16 * count)
        to_offsets, to_places = _pointer(offsets), _pointer(places)
        _put4(to_offsets, 0, 0)
        total: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        value_at: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        for row in range(count):
            value_at, size = self._find(
                self._rows[row * _WIDTH + _PROPERTIES],
                self._rows[row * _WIDTH + _PROPERTIES_SIZE],
                name,
            )
            if value_at >= 0:
                validity[row >> 3] |= 1 << (row & 7)
                total += size
            _put8(to_places, 16 * row, value_at)
            _put8(to_places, 16 * row + 8, size)
            _put4(to_offsets, 4 * (row + 1), total)
        _check_size(total)
        out = unfilled(total)
        to = _pointer(out)
        total = 0
        for row in range(count):
            size = _get8(to_places, 16 * row + 8)
            if size:
                _copy(to, total, self._data, _get8(to_places, 16 * row), size)
                total += size
        return validity, offsets, out

    def id_column(self) -> tuple[bytearray, bytearray]:
        """The unique keys; where there is none, the id that names the place in the log."""
        count: cython.Py_ssize_t = self.count
        offsets, places = unfilled(4 * (count + 1)), unfilled(16 * count)
        to_offsets, to_places = _pointer(offsets), _pointer(places)
        _put4(to_offsets, 0, 0)
        total: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        for row in range(count):
            at, size = self._find(
                self._rows[row * _WIDTH + _PROPERTIES],
                self._rows[row * _WIDTH + _PROPERTIES_SIZE],
                b"UNIQ_KEY",
            )
            if at < 0:  # the store host and the position, in hexadecimal
                size = 2 * (self._store_host_size(row) + 8)
            total += size
            _put8(to_places, 16 * row, at)
            _put8(to_places, 16 * row + 8, size)
            _put4(to_offsets, 4 * (row + 1), total)
        _check_size(total)
        out = unfilled(total)
        to = _pointer(out)
        total = 0
        for row in range(count):
            at = _get8(to_places, 16 * row)
            size = _get8(to_places, 16 * row + 8)
            if at >= 0:
                _copy(to, total, self._data, at, size)
            else:
                host: cython.Py_ssize_t = self._rows[row * _WIDTH + _AFTER_BORN_HOST] + 8
                host_size: cython.Py_ssize_t = self._store_host_size(row)
                _put_hexadecimal(to, total, self._data, host, host_size)
                position: cython.Py_ssize_t = self._rows[row * _WIDTH] + 28
                _put_hexadecimal(to, total + 2 * host_size, self._data, position, 8)
            total += size
        return offsets, out

    @cython.cfunc
    def _store_host_size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return 20 if _int4(self._data, self._rows[row * _WIDTH] + 36) & _STORE_V6 else 8

    def map_column(self) -> tuple[bytearray, int, bytearray, bytearray, bytearray, bytearray]:
        """All properties: entry offsets, number of entries, then names and values."""
        count: cython.Py_ssize_t = self.count
        entries: cython.Py_ssize_t = 0
        names_size: cython.Py_ssize_t = 0
        values_size: cython.Py_ssize_t = 0
        offsets = unfilled(4 * (count + 1))
        to_offsets = _pointer(offsets)
        _put4(to_offsets, 0, 0)
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        for row in range(count):
            at = self._rows[row * _WIDTH + _PROPERTIES]
            end = at + self._rows[row * _WIDTH + _PROPERTIES_SIZE]
            while at < end:
                stop = _find_byte(self._data, at, end, 2)
                middle = _find_byte(self._data, at, stop, 1)
                if at < middle < stop - 1:
                    entries += 1
                    names_size += middle - at
                    values_size += stop - middle - 1
                at = stop + 1
            _put4(to_offsets, 4 * (row + 1), entries)
        name_offsets, value_offsets = unfilled(4 * (entries + 1)), unfilled(4 * (entries + 1))
        names, values = unfilled(names_size), unfilled(values_size)
        to_name_offsets, to_value_offsets = _pointer(name_offsets), _pointer(value_offsets)
        to_names, to_values = _pointer(names), _pointer(values)
        _put4(to_name_offsets, 0, 0)
        _put4(to_value_offsets, 0, 0)
        entry: cython.Py_ssize_t = 0
        names_size = values_size = 0
        for row in range(count):
            at = self._rows[row * _WIDTH + _PROPERTIES]
            end = at + self._rows[row * _WIDTH + _PROPERTIES_SIZE]
            while at < end:
                stop = _find_byte(self._data, at, end, 2)
                middle = _find_byte(self._data, at, stop, 1)
                if at < middle < stop - 1:
                    _copy(to_names, names_size, self._data, at, middle - at)
                    _copy(to_values, values_size, self._data, middle + 1, stop - middle - 1)
                    names_size += middle - at
                    values_size += stop - middle - 1
                    entry += 1
                    _put4(to_name_offsets, 4 * entry, names_size)
                    _put4(to_value_offsets, 4 * entry, values_size)
                at = stop + 1
        return offsets, entries, name_offsets, names, value_offsets, values

    def host_column(self) -> tuple[bytearray, bytearray]:
        """host:port of each producer. Neighbours mostly have the same one."""
        offsets, out = unfilled(4 * (self.count + 1)), bytearray()
        to_offsets = _pointer(offsets)
        _put4(to_offsets, 0, 0)
        last: bytes = b""
        text: bytes = b""
        row: cython.Py_ssize_t
        for row in range(self.count):
            at: cython.Py_ssize_t = self._rows[row * _WIDTH] + 48
            size: cython.Py_ssize_t = self._rows[row * _WIDTH + _AFTER_BORN_HOST] - at
            if len(last) != size or not _same(self._data, at, last, size):
                last = bytes(self._buffer[at : at + size])
                host, port = decode_host(last)
                text = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
            out += text
            _put4(to_offsets, 4 * (row + 1), len(out))
        return offsets, out


# Bytes and numbers, both ways


def _check_size(total: int64_t) -> None:
    if total > 0x7FFFFFFF:
        raise BrokenRecords(f"{total} bytes do not fit into one column")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _microseconds(milliseconds: int64_t) -> int64_t:
    """The same time, or the first or last one that Python and Spark can show."""
    if milliseconds < _FIRST_MS:
        return _FIRST_MS * 1000
    if milliseconds > _LAST_MS:
        return _LAST_MS * 1000
    return milliseconds * 1000


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pointer(out: bytearray) -> cython.p_uchar:
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(out))
    return out


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint4(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
    if cython.compiled:
        return cython.cast(cython.uint, get32(data + at))
    return int.from_bytes(data[at : at + 4], "big")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int4(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return get32(data + at)
    return int.from_bytes(data[at : at + 4], "big", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int8(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> int64_t:
    if cython.compiled:
        return get64(data + at)
    return int.from_bytes(data[at : at + 8], "big", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put4(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.int) -> cython.void:
    if cython.compiled:
        memcpy(out + at, cython.address(value), 4)
    else:
        out[at : at + 4] = value.to_bytes(4, "little", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put8(out: cython.p_uchar, at: cython.Py_ssize_t, value: int64_t) -> cython.void:
    if cython.compiled:
        memcpy(out + at, cython.address(value), 8)
    else:
        out[at : at + 8] = value.to_bytes(8, "little", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get8(data: cython.p_uchar, at: cython.Py_ssize_t) -> int64_t:
    if cython.compiled:
        value: int64_t = 0
        memcpy(cython.address(value), data + at, 8)
        return value
    return int.from_bytes(data[at : at + 8], "little", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(out + at, data + start, size)
    else:
        out[at : at + size] = data[start : start + size]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_hexadecimal(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        digits: cython.p_const_uchar = _HEX
        place: cython.Py_ssize_t
        for place in range(size):
            out[at + 2 * place] = digits[data[start + place] >> 4]
            out[at + 2 * place + 1] = digits[data[start + place] & 15]
    else:
        out[at : at + 2 * size] = data[start : start + size].hex().upper().encode()


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _find_byte(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    byte: cython.int,
) -> cython.Py_ssize_t:
    """Where the byte is; `end` when it is not before that."""
    if cython.compiled:
        found = cython.cast(cython.p_const_uchar, memchr(data + at, byte, end - at))
        return end if found == cython.NULL else found - data
    place = data.find(byte, at, end)
    return end if place < 0 else place


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, name: bytes, size: cython.Py_ssize_t
) -> cython.bint:
    if cython.compiled:
        return memcmp(data + at, cython.cast(cython.p_const_uchar, name), size) == 0
    return data[at : at + size] == name
