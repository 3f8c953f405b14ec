"""Rows of Arrow batches, encoded as the body of one batch send.

The body of SEND_BATCH_MESSAGE is a row of

    size 4 | magic 4 (0) | crc 4 (0) | flag 4 | body size 4 | body | properties size 2 | properties

(`rocketq.message.batch`). `BatchRows` holds the buffers of the columns and writes rows one after
another, with properties joined from tags, keys and the map, and a unique key made of the
writer's prefix and the row's number. No Python object is made for a row, but for each entry of
a properties map.

Compiled where possible; uncompiled the same lines run on memoryviews and bytearrays.
"""

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.libc.string import memchr, memcpy

_HEAD = cython.declare(cython.Py_ssize_t, 22)
_MAX_PROPERTIES = cython.declare(cython.Py_ssize_t, 32767)
_HEX = cython.declare(bytes, b"0123456789ABCDEF")


class UnfitRow(ValueError):
    """A row that cannot be a message; `row` is its place in the batch."""

    def __init__(self, row, why):
        super().__init__(why)
        self.row = row


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
    def has(self, row: cython.Py_ssize_t) -> cython.bint:
        """Whether there is a value, and not an empty one."""
        at: cython.Py_ssize_t = row + self._shift
        if self._validity is not None and not (self._bits[at >> 3] >> (at & 7)) & 1:
            return False
        return self._ends[at + 1] > self._ends[at]

    @cython.cfunc
    def start(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return self._ends[row + self._shift]

    @cython.cfunc
    def size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return self._ends[row + self._shift + 1] - self._ends[row + self._shift]


@cython.final
@cython.cclass
class BatchRows:
    """The rows of one record batch, on their way to brokers."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _bodies = cython.declare(Texts)
    _tags = cython.declare(Texts)
    _keys = cython.declare(Texts)
    _names = cython.declare(Texts)
    _values = cython.declare(Texts)
    _map_ends = cython.declare(object)
    _reserved = cython.declare(frozenset)
    _prefix = cython.declare(bytes)
    _first_row = cython.declare(cython.longlong)

    def __init__(
        self,
        count,
        bodies,
        tags,
        keys,
        properties,
        reserved: frozenset,
        prefix: bytes,
        first_row: cython.longlong,
    ):
        """`properties` is (entry offsets of the rows, names, values) or None."""
        self.count = count
        self._bodies = bodies
        self._tags = tags
        self._keys = keys
        self._map_ends, self._names, self._values = properties or (None, None, None)
        self._reserved = reserved
        self._prefix = prefix
        self._first_row = first_row

    def encode(self, rows, begin: cython.Py_ssize_t, max_bytes: int, max_messages: int):
        """Encode `rows[begin:]` (or all rows from `begin`, where `rows` is None).

        Stops before either limit would be broken, but takes at least one row. Returns the body
        and the place to go on from.
        """
        end: cython.Py_ssize_t = self.count if rows is None else len(rows)
        end = min(end, begin + max_messages)
        out = bytearray(max_bytes)
        capacity: cython.Py_ssize_t = max_bytes
        at: cython.Py_ssize_t = 0
        place: cython.Py_ssize_t = begin
        row: cython.Py_ssize_t
        while place < end:
            row = place if rows is None else rows[place]
            if not self._bodies.has(row):
                raise UnfitRow(row, "the body is null or empty")
            mapped = self._mapped(row)
            properties_size: cython.Py_ssize_t = 9 + 33 + len(mapped)
            if self._tags is not None and self._tags.has(row):
                properties_size += 6 + self._tags.size(row)
            if self._keys is not None and self._keys.has(row):
                properties_size += 6 + self._keys.size(row)
            if properties_size > _MAX_PROPERTIES:
                raise UnfitRow(row, f"its properties take {properties_size} bytes, 32767 may be")
            size: cython.Py_ssize_t = _HEAD + self._bodies.size(row) + properties_size
            if at + size > capacity:
                if at:
                    break
                # A row larger than a batch goes alone; whether it may, the broker says.
                out = bytearray(size)
                capacity = size
            self._write(out, at, row, size, properties_size, mapped)
            at += size
            place += 1
        del out[at:]
        return out, place

    @cython.cfunc
    def _write(
        self,
        out: bytearray,
        at: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        properties_size: cython.Py_ssize_t,
        mapped: bytes,
    ) -> cython.void:
        body_size: cython.Py_ssize_t = self._bodies.size(row)
        _put4(out, at, size)
        _put4(out, at + 16, body_size)
        _copy(out, at + 20, self._bodies, row)
        at += 20 + body_size
        _put2(out, at, properties_size)
        at = _put(out, at + 2, b"UNIQ_KEY\x01")
        at = _put(out, at, self._prefix)
        number: cython.ulonglong = self._first_row + row
        digit: cython.int
        hexadecimal = bytearray(8)
        for digit in range(7, -1, -1):
            hexadecimal[digit] = _HEX[number & 15]
            number >>= 4
        at = _put(out, at, bytes(hexadecimal))
        at = _put(out, at, b"\x02")
        if self._tags is not None and self._tags.has(row):
            at = self._put_text(out, at, b"TAGS\x01", self._tags, row)
        if self._keys is not None and self._keys.has(row):
            at = self._put_text(out, at, b"KEYS\x01", self._keys, row)
        _put(out, at, mapped)

    @cython.cfunc
    def _put_text(
        self,
        out: bytearray,
        at: cython.Py_ssize_t,
        name: bytes,
        texts: Texts,
        row: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        if _has_separator(texts, row):
            raise UnfitRow(row, "tags or keys contain character 1 or 2, which separate properties")
        at = _put(out, at, name)
        _copy(out, at, texts, row)
        return _put(out, at + texts.size(row), b"\x02")

    @cython.cfunc
    def _mapped(self, row: cython.Py_ssize_t) -> bytes:
        """The properties of the map, encoded; the system's own left out."""
        if self._map_ends is None:
            return b""
        parts = []
        entry: cython.Py_ssize_t
        for entry in range(self._map_ends[row], self._map_ends[row + 1]):
            if not self._names.has(entry) or not self._values.has(entry):
                continue
            start: cython.Py_ssize_t = self._names.start(entry)
            name = bytes(self._names._data[start : start + self._names.size(entry)])
            if name in self._reserved:
                continue
            if _has_separator(self._names, entry) or _has_separator(self._values, entry):
                raise UnfitRow(row, f"property {name!r} contains character 1 or 2")
            start = self._values.start(entry)
            value = bytes(self._values._data[start : start + self._values.size(entry)])
            parts.append(b"%b\x01%b\x02" % (name, value))
        return b"".join(parts)


# -- bytes, both ways -------------------------------------------------------------------------


@cython.cfunc
@cython.inline
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
def _put4(out: bytearray, at: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    out[at] = (value >> 24) & 255
    out[at + 1] = (value >> 16) & 255
    out[at + 2] = (value >> 8) & 255
    out[at + 3] = value & 255


@cython.cfunc
@cython.inline
def _put2(out: bytearray, at: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    out[at] = (value >> 8) & 255
    out[at + 1] = value & 255


@cython.cfunc
@cython.inline
def _put(out: bytearray, at: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    """Write bytes; where they end."""
    size: cython.Py_ssize_t = len(data)
    if cython.compiled:
        memcpy(PyByteArray_AS_STRING(out) + at, cython.cast(cython.p_const_uchar, data), size)
    else:
        out[at : at + size] = data
    return at + size


@cython.cfunc
@cython.inline
def _copy(
    out: bytearray, at: cython.Py_ssize_t, texts: Texts, row: cython.Py_ssize_t
) -> cython.void:
    start: cython.Py_ssize_t = texts.start(row)
    size: cython.Py_ssize_t = texts.size(row)
    if cython.compiled:
        memcpy(PyByteArray_AS_STRING(out) + at, texts._bytes + start, size)
    else:
        out[at : at + size] = texts._bytes[start : start + size]


@cython.cfunc
@cython.inline
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
