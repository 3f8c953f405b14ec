"""Rows of Arrow batches, encoded as the body of one batch send.

The body of SEND_BATCH_MESSAGE is a row of

    size 4 | magic 4 (0) | crc 4 (0) | flag 4 | body size 4 | body | properties size 2 | properties

(`rocketq.message.record.batch`). `BatchRows` holds the buffers of the columns and writes rows one
after another, with properties joined from tags, keys, sharding key and the map, and a unique key
made of the writer's prefix and the row's number:

    UNIQ_KEY 0x01 prefix(24) number(8, hexadecimal) 0x02
    TAGS 0x01 ... 0x02   KEYS 0x01 ... 0x02   __SHARDINGKEY 0x01 ... 0x02   those of the map

No Python object is made for a row.

Compiled where possible; uncompiled the same lines run on memoryviews and bytearrays, and only
the few functions at the end differ.
"""

import sys

import cython

from rocketq.message.hashing import java_hash_bytes

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.libc.string import memchr, memcpy

_HEAD = cython.declare(cython.Py_ssize_t, 22)
_UNIQUE_KEY = cython.declare(cython.Py_ssize_t, 9 + 24 + 8 + 1)
_MAX_PROPERTIES = cython.declare(cython.Py_ssize_t, 32767)
_HEX = cython.declare(bytes, b"0123456789ABCDEF")


class UnfitRow(ValueError):
    """A row that cannot be a message; `row` is its place in the batch."""

    def __init__(self, row, why):
        super().__init__(why)
        self.row = row


@cython.final
@cython.cclass
class Numbers:
    """A column, or a choice of rows: 32-bit numbers in a buffer."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _buffer = cython.declare(object)
    if cython.compiled:
        _values = cython.declare(cython.pointer(cython.const_int))

    def __init__(self, buffer):
        """`buffer`: anything of four bytes a number, in the machine's own order."""
        self._buffer = memoryview(buffer).cast("B")
        self.count = len(self._buffer) // 4
        if cython.compiled:
            self._values = cython.cast(cython.pointer(cython.const_int), _address(self._buffer))
        else:
            self._values = self._buffer.cast("i")

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def at(self, place: cython.Py_ssize_t) -> cython.int:
        return self._values[place]


@cython.final
@cython.cclass
class Texts:
    """A column of variable-sized values: Arrow's buffers, seen as bytes."""

    _validity = cython.declare(object)
    _offsets = cython.declare(object)
    _data = cython.declare(object)
    _shift = cython.declare(cython.Py_ssize_t)
    if cython.compiled:
        _bits = cython.declare(cython.p_const_uchar)
        _ends = cython.declare(cython.pointer(cython.const_int))
        _bytes = cython.declare(cython.p_const_uchar)

    def __init__(self, validity, offsets, data, shift: cython.Py_ssize_t):
        """`shift`: rows to skip in the buffers, where the array is a slice."""
        self._validity = validity
        self._offsets = offsets
        self._data = data
        self._shift = shift
        if cython.compiled:
            self._bits = _address(validity)
            self._ends = cython.cast(cython.pointer(cython.const_int), _address(offsets))
            self._bytes = _address(data)
        else:
            self._bits = validity
            self._ends = memoryview(offsets).cast("i") if len(offsets) else ()
            self._bytes = data

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def start(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return self._ends[row + self._shift]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How long the value is; 0 when there is none."""
        at: cython.Py_ssize_t = row + self._shift
        if self._validity is not None and not (self._bits[at >> 3] >> (at & 7)) & 1:
            return 0
        return self._ends[at + 1] - self._ends[at]

    @cython.cfunc
    def value(self, row: cython.Py_ssize_t) -> bytes:
        """The value as an object, for the rare case."""
        start: cython.Py_ssize_t = self.start(row)
        return bytes(self._data[start : start + self.size(row)])

    def java_hashes(self, count: cython.Py_ssize_t) -> bytearray:
        """Java's hash code of the first `count` values, 32 bits each; 0 where there is none."""
        out = bytearray(4 * count)
        row: cython.Py_ssize_t
        place: cython.Py_ssize_t
        for row in range(count):
            code: cython.uint = 0
            start: cython.Py_ssize_t = self.start(row)
            for place in range(start, start + self.size(row)):
                byte: cython.uint = self._bytes[place]
                if byte >= 128:  # not one unit of UTF-16 a byte
                    code = java_hash_bytes(self.value(row)) & 0xFFFFFFFF
                    break
                code = (31 * code + byte) & 0xFFFFFFFF
            _put_own4(out, 4 * row, code)
        return out


@cython.final
@cython.cclass
class BatchRows:
    """The rows of one record batch, on their way to brokers."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _bodies = cython.declare(Texts)
    _tags = cython.declare(Texts)
    _keys = cython.declare(Texts)
    _sharding_keys = cython.declare(Texts)
    _entries = cython.declare(Numbers)
    _names = cython.declare(Texts)
    _values = cython.declare(Texts)
    _flags = cython.declare(Numbers)
    _reserved = cython.declare(frozenset)
    _prefix = cython.declare(bytes)
    _first_row = cython.declare(cython.longlong)

    def __init__(
        self,
        count,
        bodies,
        tags,
        keys,
        sharding_keys,
        properties,
        flags,
        reserved: frozenset,
        prefix: bytes,
        first_row: cython.longlong,
    ):
        """`properties` is (where the entries of each row end, names, values) or None."""
        if len(prefix) != 24:
            raise ValueError(f"a prefix of {len(prefix)} characters")
        self.count = count
        self._bodies = bodies
        self._tags = tags
        self._keys = keys
        self._sharding_keys = sharding_keys
        self._entries, self._names, self._values = properties or (None, None, None)
        self._flags = flags
        self._reserved = reserved
        self._prefix = prefix
        self._first_row = first_row

    def encode(self, rows, begin: cython.Py_ssize_t, max_bytes: int, max_messages: int):
        """Encode the rows `rows` names from place `begin` on (without `rows`, all from `begin`).

        Stops before either limit would be broken, but takes at least one row. Returns the body
        and the place to go on from.
        """
        chosen: Numbers = rows
        end: cython.Py_ssize_t = self.count if chosen is None else chosen.count
        end = min(end, begin + max_messages)
        out = bytearray(max_bytes)
        capacity: cython.Py_ssize_t = max_bytes
        at: cython.Py_ssize_t = 0
        place: cython.Py_ssize_t = begin
        row: cython.Py_ssize_t
        while place < end:
            row = place if chosen is None else chosen.at(place)
            properties_size: cython.Py_ssize_t = self._properties_size(row)
            size: cython.Py_ssize_t = _HEAD + self._bodies.size(row) + properties_size
            if at + size > capacity:
                if at:
                    break
                # A row larger than a batch goes alone; whether it may, the broker says.
                out = bytearray(size)
                capacity = size
            self._write(out, at, row, size, properties_size)
            at += size
            place += 1
        del out[at:]
        return out, place

    @cython.cfunc
    @cython.exceptval(-1)
    def _properties_size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How long a row's properties become; raises where there can be no such message."""
        if self._bodies.size(row) == 0:
            raise UnfitRow(row, "the body is null or empty")
        size: cython.Py_ssize_t = _UNIQUE_KEY
        if self._tags is not None and self._tags.size(row):
            self._check(row, self._tags)
            size += 6 + self._tags.size(row)
        if self._keys is not None and self._keys.size(row):
            self._check(row, self._keys)
            size += 6 + self._keys.size(row)
        if self._sharding_keys is not None and self._sharding_keys.size(row):
            self._check(row, self._sharding_keys)
            size += 15 + self._sharding_keys.size(row)
        if self._entries is not None:
            entry: cython.Py_ssize_t
            for entry in range(self._entries.at(row), self._entries.at(row + 1)):
                if self._is_wanted(entry):
                    if _has_separator(self._names, entry) or _has_separator(self._values, entry):
                        name = self._names.value(entry)
                        raise UnfitRow(row, f"property {name!r} contains character 1 or 2")
                    size += self._names.size(entry) + self._values.size(entry) + 2
        if size > _MAX_PROPERTIES:
            raise UnfitRow(row, f"its properties take {size} bytes, 32767 may be")
        return size

    @cython.cfunc
    @cython.exceptval(-1)
    def _is_wanted(self, entry: cython.Py_ssize_t) -> cython.int:
        """Whether an entry of the map becomes a property: the system's own names do not."""
        if self._names.size(entry) == 0 or self._values.size(entry) == 0:
            return 0
        # No reserved name begins with a small letter, and most others do.
        first: cython.int = self._names._bytes[self._names.start(entry)]
        if first >= 97:
            return 1
        return 0 if self._names.value(entry) in self._reserved else 1

    @cython.cfunc
    @cython.exceptval(-1)
    def _check(self, row: cython.Py_ssize_t, texts: Texts) -> cython.int:
        """Refuse a text with one of the characters that separate properties."""
        if _has_separator(texts, row):
            raise UnfitRow(row, f"{texts.value(row)!r} contains character 1 or 2")
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _write(
        self,
        out: bytearray,
        at: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        properties_size: cython.Py_ssize_t,
    ) -> cython.void:
        body_size: cython.Py_ssize_t = self._bodies.size(row)
        _put4(out, at, size)
        if self._flags is not None:
            _put4(out, at + 12, self._flags.at(row))
        _put4(out, at + 16, body_size)
        at = _put_text(out, at + 20, self._bodies, row)
        _put2(out, at, properties_size)
        at = _put(out, at + 2, b"UNIQ_KEY\x01", 9)
        at = _put(out, at, self._prefix, 24)
        at = _put_hexadecimal(out, at, self._first_row + row)
        at = _put(out, at, b"\x02", 1)
        if self._tags is not None and self._tags.size(row):
            at = _put(out, at, b"TAGS\x01", 5)
            at = _put_text(out, at, self._tags, row)
            at = _put(out, at, b"\x02", 1)
        if self._keys is not None and self._keys.size(row):
            at = _put(out, at, b"KEYS\x01", 5)
            at = _put_text(out, at, self._keys, row)
            at = _put(out, at, b"\x02", 1)
        if self._sharding_keys is not None and self._sharding_keys.size(row):
            at = _put(out, at, b"__SHARDINGKEY\x01", 14)
            at = _put_text(out, at, self._sharding_keys, row)
            at = _put(out, at, b"\x02", 1)
        if self._entries is not None:
            entry: cython.Py_ssize_t
            for entry in range(self._entries.at(row), self._entries.at(row + 1)):
                if self._is_wanted(entry):
                    at = _put_text(out, at, self._names, entry)
                    at = _put(out, at, b"\x01", 1)
                    at = _put_text(out, at, self._values, entry)
                    at = _put(out, at, b"\x02", 1)


# Bytes, both ways


@cython.cfunc
def _address(buffer) -> cython.p_const_uchar:
    """Where a buffer's bytes begin; nowhere for an empty or absent one."""
    if cython.compiled:
        if buffer is None or len(buffer) == 0:
            return cython.cast(cython.p_const_uchar, cython.NULL)
        view: cython.const_uchar[::1] = buffer
        return cython.address(view[0])
    return buffer


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put4(out: bytearray, at: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    _put2(out, at, value >> 16)
    _put2(out, at + 2, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_own4(out: bytearray, at: cython.Py_ssize_t, value: cython.uint) -> cython.void:
    """In the machine's own order."""
    if cython.compiled:
        memcpy(_pointer(out) + at, cython.address(value), 4)
    else:
        out[at : at + 4] = value.to_bytes(4, sys.byteorder)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put2(out: bytearray, at: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    to = _pointer(out)
    to[at] = (value >> 8) & 255
    to[at + 1] = value & 255


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_hexadecimal(
    out: bytearray, at: cython.Py_ssize_t, number: cython.ulonglong
) -> cython.Py_ssize_t:
    """The lowest 32 bits as eight digits; where they end."""
    to = _pointer(out)
    digits = _letters(_HEX)
    place: cython.Py_ssize_t
    for place in range(at + 7, at - 1, -1):
        to[place] = digits[number & 15]
        number >>= 4
    return at + 8


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
def _letters(text: bytes) -> cython.p_const_uchar:
    if cython.compiled:
        return cython.cast(cython.p_const_uchar, text)
    return text


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    out: bytearray, at: cython.Py_ssize_t, data: bytes, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write bytes; where they end."""
    if cython.compiled:
        memcpy(_pointer(out) + at, _letters(data), size)
    else:
        out[at : at + size] = data
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_text(
    out: bytearray, at: cython.Py_ssize_t, texts: Texts, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a value; where it ends."""
    start: cython.Py_ssize_t = texts.start(row)
    size: cython.Py_ssize_t = texts.size(row)
    if cython.compiled:
        memcpy(_pointer(out) + at, texts._bytes + start, size)
    else:
        out[at : at + size] = texts._bytes[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _has_separator(texts: Texts, row: cython.Py_ssize_t) -> cython.bint:
    start: cython.Py_ssize_t = texts.start(row)
    size: cython.Py_ssize_t = texts.size(row)
    if cython.compiled:
        return (
            memchr(texts._bytes + start, 1, size) != cython.NULL
            or memchr(texts._bytes + start, 2, size) != cython.NULL
        )
    value = bytes(texts._bytes[start : start + size])
    return b"\x01" in value or b"\x02" in value
