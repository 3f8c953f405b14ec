"""Reading stored records: whether one is whole, what it says, and the message it holds.

The layout is that of `rocketq.message.record.writer`. Bytes are taken as they come, from a disk or
a peer, so nothing is read before the sizes around it are known to be right.

This module is compiled where that is possible and runs unchanged where it is not. The
functions at its end, which get single fields, take a pointer when compiled and a buffer when
not; everything above them is the same both ways.
"""

import struct
from enum import IntEnum

import cython

from rocketq.message.message import MessageExt
from rocketq.message.record.writer import (
    CRC_TAIL_NAME,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    InvalidRecord,
)

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcmp
    from cython.cimports.rocketq.common.big_endian import get16, get32, get64
    from cython.cimports.rocketq.message.record.checksum import crc32
else:
    from rocketq.message.record.checksum import crc32

_SIZE_AND_MAGIC = struct.Struct(">iI")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_V1 = cython.declare(cython.uint, MAGIC_V1)
_V2 = cython.declare(cython.uint, MAGIC_V2)
_BLANK = cython.declare(cython.uint, MAGIC_BLANK)


class RecordStatus(IntEnum):
    """What a check found."""

    VALID = 0
    BLANK = 1
    """The end of a commit log file."""
    TORN = 2
    """Fewer bytes than the record says it has."""
    BAD_MAGIC = 3
    """No record at all; zeros end up here."""
    BAD_BODY_CRC = 4
    BAD_PROPERTY_CRC = 5
    """The checksum in the properties differs, or is missing though required."""
    BAD_SIZE = 6
    """The sizes of the parts do not add up to the total."""


_VALID = cython.declare(cython.int, 0)
_IS_BLANK = cython.declare(cython.int, 1)
_TORN = cython.declare(cython.int, 2)
_BAD_MAGIC = cython.declare(cython.int, 3)
_BAD_BODY_CRC = cython.declare(cython.int, 4)
_BAD_PROPERTY_CRC = cython.declare(cython.int, 5)
_BAD_SIZE = cython.declare(cython.int, 6)


@cython.final
@cython.freelist(16)
@cython.cclass
class RecordCheck:
    """The outcome of `check_record`: a `RecordStatus`, and the size the record claims."""

    def __init__(self, status: cython.int, size: cython.int) -> None:
        self.status = status
        self.size = size

    @property
    def is_valid(self):
        return self.status == 0

    @property
    def is_blank(self):
        return self.status == 1

    def __repr__(self):
        return f"RecordCheck({RecordStatus(self.status).name}, size={self.size})"


@cython.final
@cython.freelist(16)
@cython.cclass
class RecordFields:
    """What the store wants to know of a record to index it; read at once, copied out.

    Attributes are declared in record_reader.pxd: size, queue_id, flag, queue_offset,
    physical_offset, sys_flag, born_timestamp, store_timestamp, reconsume_times,
    prepared_transaction_offset, body_at, body_size, topic and properties.
    """


# --- Checking


@cython.ccall
def check_record(
    buffer,
    at: cython.Py_ssize_t = 0,
    check_crc: cython.bint = True,
    require_property_crc: cython.bint = False,
) -> RecordCheck:
    """Say whether a valid record starts here.

    In this order: enough bytes, a known magic, the checksum of the body, the checksum in the
    properties, the sizes of the parts. The checksum in the properties is compared where there
    is one, and missed only when it is required. The physical offset is not looked at.
    """
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
        try:
            return _check(
                cython.cast(cython.p_const_uchar, view.buf),
                at,
                view.len,
                check_crc,
                require_property_crc,
            )
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        return _check(buffer, at, len(buffer), check_crc, require_property_crc)


@cython.cfunc
def _check(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    check_crc: cython.bint,
    require_property_crc: cython.bint,
) -> RecordCheck:
    if at < 0 or end - at < 8:
        return RecordCheck(_TORN, 0)
    size: cython.int = _get32(data, at)
    if size > end - at:
        return RecordCheck(_TORN, size)
    magic: cython.uint = _magic(data, at)
    if magic == _BLANK:
        return RecordCheck(_IS_BLANK, size)
    if magic != _V1 and magic != _V2:
        return RecordCheck(_BAD_MAGIC, size)
    body_at: cython.Py_ssize_t = _body_at(data, at, size)
    if body_at < 0:
        return RecordCheck(_BAD_SIZE, size)
    body_size: cython.Py_ssize_t = _get32(data, body_at - 4)
    stated: cython.longlong = _get32(data, at + 8)
    if check_crc and body_size > 0 and crc32(data, body_at, body_size) != stated:
        return RecordCheck(_BAD_BODY_CRC, size)
    properties_at: cython.Py_ssize_t = _properties_at(data, at, size, body_at)
    if properties_at < 0 or properties_at + _get16(data, properties_at - 2) != at + size:
        return RecordCheck(_BAD_SIZE, size)
    if check_crc or require_property_crc:
        stated = _property_crc(data, at, size, properties_at)
        if stated < 0:
            if require_property_crc:
                return RecordCheck(_BAD_PROPERTY_CRC, size)
        elif crc32(data, at, size - 20) != stated:
            return RecordCheck(_BAD_PROPERTY_CRC, size)
    return RecordCheck(_VALID, size)


# --- Reading


@cython.ccall
def read_record(buffer, at: cython.Py_ssize_t = 0) -> RecordFields:
    """The fields of the record that starts here; `InvalidRecord` if none does.

    Checksums are not compared: that is `check_record`'s business.
    """
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
        try:
            return _read(cython.cast(cython.p_const_uchar, view.buf), at, view.len)
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        return _read(buffer, at, len(buffer))


@cython.cfunc
def _read(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> RecordFields:
    size: cython.Py_ssize_t = _record_size_at(data, at, end)
    body_at: cython.Py_ssize_t = _body_at(data, at, size)
    properties_at: cython.Py_ssize_t = _properties_at(data, at, size, body_at)
    fields: RecordFields = RecordFields()
    fields.size = size
    fields.queue_id = _get32(data, at + 12)
    fields.flag = _get32(data, at + 16)
    fields.queue_offset = _get64(data, at + 20)
    fields.physical_offset = _get64(data, at + 28)
    fields.sys_flag = _get32(data, at + 36)
    fields.born_timestamp = _get64(data, at + 40)
    fields.store_timestamp = _get64(data, at + (68 if fields.sys_flag & 0x10 else 56))
    fields.reconsume_times = _get32(data, body_at - 16)
    fields.prepared_transaction_offset = _get64(data, body_at - 12)
    fields.body_at = body_at
    fields.body_size = _get32(data, body_at - 4)
    topic_at: cython.Py_ssize_t = body_at + fields.body_size + 1
    if _magic(data, at) == _V2:
        topic_at += 1
    fields.topic = _copy(data, topic_at, properties_at - 2)
    fields.properties = _copy(data, properties_at, at + size)
    return fields


def scan_records(buffer) -> list:
    """Start and size of each of the records that fill a buffer, one after the other."""
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
        try:
            return _scan(cython.cast(cython.p_const_uchar, view.buf), view.len)
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        return _scan(buffer, len(buffer))


@cython.cfunc
def _scan(data: cython.p_const_uchar, end: cython.Py_ssize_t) -> list:
    found: list = []
    at: cython.Py_ssize_t = 0
    while at < end:
        size: cython.Py_ssize_t = _record_size_at(data, at, end)
        found.append((at, size))
        at += size
    return found


def decode_record(buffer, at: cython.Py_ssize_t = 0, broker_name="") -> MessageExt:
    """The message whose record starts here; its bytes are copied."""
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
        try:
            data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
            size: cython.Py_ssize_t = _record_size_at(data, at, view.len)
            return MessageExt(_copy(data, at, at + size), broker_name)
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        size = _record_size_at(buffer, at, len(buffer))
        return MessageExt(_copy(buffer, at, at + size), broker_name)


def decode_records(buffer, broker_name="", added=None) -> list:
    """The messages of a pull response.

    Each has a copy of its record, so that keeping one does not keep the whole response.
    `added` are properties that all of them get on top of their own.
    """
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
        try:
            return _decode(
                cython.cast(cython.p_const_uchar, view.buf), view.len, broker_name, added
            )
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        return _decode(buffer, len(buffer), broker_name, added)


@cython.cfunc
def _decode(data: cython.p_const_uchar, end: cython.Py_ssize_t, broker_name, added) -> list:
    messages: list = []
    at: cython.Py_ssize_t = 0
    while at < end:
        size: cython.Py_ssize_t = _record_size_at(data, at, end)
        messages.append(MessageExt(_copy(data, at, at + size), broker_name, added))
        at += size
    return messages


@cython.cfunc
@cython.exceptval(-1)
def _record_size_at(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Size of the record here, whose parts add up to it; raises if there is none."""
    if at < 0 or end - at < 91:
        raise InvalidRecord(f"a record does not fit into the {end - at} bytes at {at}")
    size: cython.Py_ssize_t = _get32(data, at)
    magic: cython.uint = _magic(data, at)
    if (magic != _V1 and magic != _V2) or size > end - at:
        raise InvalidRecord(f"no record at {at}: magic {magic:08X}, size {size}")
    body_at: cython.Py_ssize_t = _body_at(data, at, size)
    if body_at >= 0:
        properties_at: cython.Py_ssize_t = _properties_at(data, at, size, body_at)
        if properties_at >= 0 and properties_at + _get16(data, properties_at - 2) == at + size:
            return size
    raise InvalidRecord(f"the parts of the record at {at} do not add up to {size} bytes")


# --- Where the parts of a record lie. None of these reads past at + size.


@cython.cfunc
@cython.exceptval(check=False)
def _body_at(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the body starts, or -1 if it cannot be all there."""
    if size < 91:
        return -1
    sys_flag: cython.int = _get32(data, at + 36)
    body_at: cython.Py_ssize_t = at + 88
    if sys_flag & 0x10:
        body_at += 12
    if sys_flag & 0x20:
        body_at += 12
    if body_at + 3 > at + size:
        return -1
    body_size: cython.Py_ssize_t = _get32(data, body_at - 4)
    if body_size < 0 or body_at + body_size + 3 > at + size:
        return -1
    return body_at


@cython.cfunc
@cython.exceptval(check=False)
def _properties_at(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    body_at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where the properties start, their size just before, or -1 if that is not inside."""
    topic_at: cython.Py_ssize_t = body_at + _get32(data, body_at - 4)
    topic_size: cython.Py_ssize_t
    if _magic(data, at) == _V2:
        topic_size = _get16(data, topic_at)
        topic_at += 2
    else:
        topic_size = data[topic_at]
        topic_at += 1
        if topic_size > 127:  # the size is a signed byte
            return -1
    if topic_size < 0 or topic_at + topic_size + 2 > at + size:
        return -1
    return topic_at + topic_size + 2


@cython.cfunc
@cython.exceptval(check=False)
def _property_crc(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    properties_at: cython.Py_ssize_t,
) -> cython.longlong:
    """The checksum at the end of the properties, or -1 without one.

    One that is no number, or has no end, was damaged: it is a value that no checksum has.
    """
    tail: cython.Py_ssize_t = at + size - 20
    if tail < properties_at or not _is_crc_name(data, tail):
        return -1
    if data[at + size - 1] != 2:
        return 0x100000000
    crc: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(10):
        digit: cython.int = data[tail + 18 - i] - 48
        if digit < 0 or digit > 9:
            return 0x100000000
        crc = crc * 10 + digit
    return crc


# --- Single fields: of memory when compiled, of a buffer when not.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get16(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.short:
    if cython.compiled:
        return get16(data + at)
    else:
        return _INT16.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get32(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return get32(data + at)
    else:
        return _INT32.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get64(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return get64(data + at)
    else:
        return _INT64.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _magic(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
    if cython.compiled:
        return cython.cast(cython.uint, get32(data + at + 4))
    else:
        return _SIZE_AND_MAGIC.unpack_from(data, at)[1]


@cython.cfunc
@cython.inline
def _copy(data: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(
            cython.cast(cython.p_const_char, data) + start, end - start
        )
    else:
        return bytes(data[start:end])


@cython.cfunc
@cython.exceptval(check=False)
def _is_crc_name(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
    if cython.compiled:
        return memcmp(data + at, b"__CRC32#\x01", 9) == 0
    else:
        return data[at : at + 9] == CRC_TAIL_NAME
