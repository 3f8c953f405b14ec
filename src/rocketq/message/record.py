"""The stored record: one message in the commit log, in pull responses and in replication.

All integers are big-endian.

    position  type      field
    0         int32     total size, this field included
    4         uint32    magic: DAA320A7 (version 1), DAA320AB (version 2), CBD43194 (blank)
    8         uint32    CRC-32 of the body as stored, without the highest bit; 0 without body
    12        int32     queue id
    16        int32     flag, the application's own
    20        int64     queue offset
    28        int64     physical offset, of this record in the commit log
    36        int32     sysFlag, see rocketq.message.flags
    40        int64     born timestamp
    48        8 or 20   born host, see rocketq.message.hosts; 20 when sysFlag has 0x10
    +0        int64     store timestamp
    +8        8 or 20   store host; 20 when sysFlag has 0x20
    +0        int32     reconsume times
    +4        int64     prepared transaction offset
    +12       int32     body size, then the body
    ..        int8      topic size (version 2: int16), then the topic
    ..        int16     properties size, then the properties

With two IPv4 hosts a version 1 record takes 91 bytes more than body, topic and properties.
Version 2 serves topics longer than 127 bytes and nothing else, since older readers refuse it.

A blank record fills the rest of a commit log file: total size and magic, nothing more.

On request the properties end with a checksum of the whole record before it, an entry of
20 bytes, its ten decimal digits from the lowest to the highest:

    `__CRC32#` 0x01 digits 0x02

This module is compiled where that is possible and runs unchanged where it is not. The
functions at its end, which get and put single fields, take a pointer when compiled and a
buffer when not; everything above them is the same both ways.
"""

import struct
import zlib
from enum import IntEnum

import cython

from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_READ,
        PyBUF_SIMPLE,
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.libc.string import memcmp, memcpy, memset

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194

FIXED_SIZE = 91
"""What a version 1 record with two IPv4 hosts takes besides body, topic and properties."""
BLANK_SIZE = 8
"""A record must leave this much room for the blank one that ends its file."""
MAX_PROPERTIES_SIZE = 32_767
MAX_TOPIC_SIZE_V1 = 127
CRC_TAIL_SIZE = 20

_CRC_NAME = b"__CRC32#\x01"
_HEAD = struct.Struct(">iIIiiqqiq")  # up to the born host
_AFTER_HOSTS = struct.Struct(">iqi")  # reconsume times, transaction offset, body size
_SIZE_AND_MAGIC = struct.Struct(">iI")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_V1 = cython.declare(cython.uint, 0xDAA320A7)
_V2 = cython.declare(cython.uint, 0xDAA320AB)
_BLANK = cython.declare(cython.uint, 0xCBD43194)


class InvalidRecord(RocketqError):
    """Bytes that are not a stored record, or fields that do not make one."""


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

    Attributes are declared in record.pxd: size, queue_id, flag, queue_offset, physical_offset,
    sys_flag, born_timestamp, store_timestamp, reconsume_times, prepared_transaction_offset,
    body_at, body_size, topic and properties.
    """


# --- Sizes


@cython.ccall
def record_size(
    body_size: cython.Py_ssize_t,
    topic_size: cython.Py_ssize_t,
    properties_size: cython.Py_ssize_t,
    born_v6: cython.bint = False,
    store_v6: cython.bint = False,
) -> cython.Py_ssize_t:
    """Bytes a record takes. Properties count with their checksum, if there is to be one."""
    size: cython.Py_ssize_t = 91 + body_size + topic_size + properties_size
    if topic_size > 127:
        size += 1
    if born_v6:
        size += 12
    if store_v6:
        size += 12
    return size


@cython.ccall
def crc_tail_size(properties, in_batch: cython.bint = False) -> cython.Py_ssize_t:
    """Bytes the checksum adds to these properties.

    A separator goes before it when the properties do not end with one; records of a batch
    do without, as RocketMQ writes them.
    """
    size: cython.Py_ssize_t = len(properties)
    if size > 0 and not in_batch and properties[size - 1] != 2:
        return 21
    return 20


# --- Encoding


@cython.ccall
def encode_record(
    out,
    at: cython.Py_ssize_t,
    topic: bytes,
    queue_id: cython.int,
    flag: cython.int,
    queue_offset: cython.longlong,
    physical_offset: cython.longlong,
    sys_flag: cython.int,
    born_timestamp: cython.longlong,
    born_host: bytes,
    store_timestamp: cython.longlong,
    store_host: bytes,
    reconsume_times: cython.int,
    prepared_transaction_offset: cython.longlong,
    body,
    properties,
    property_crc: cython.bint = False,
    in_batch: cython.bint = False,
) -> cython.Py_ssize_t:
    """Write one record into a writable buffer, and say how many bytes it took.

    Body and properties may be any bytes-like object. The IPv6 bits of the flag are set from
    the sizes of the hosts; the version follows from the size of the topic. With
    `property_crc` the properties must not hold a checksum already.
    """
    born_size: cython.Py_ssize_t = len(born_host)
    store_size: cython.Py_ssize_t = len(store_host)
    topic_size: cython.Py_ssize_t = len(topic)
    body_size: cython.Py_ssize_t = len(body)
    properties_size: cython.Py_ssize_t = len(properties)
    tail_size: cython.Py_ssize_t = crc_tail_size(properties, in_batch) if property_crc else 0
    if (born_size != 8 and born_size != 20) or (store_size != 8 and store_size != 20):
        raise InvalidRecord(f"hosts take 8 or 20 bytes, not {born_size} and {store_size}")
    if topic_size > 32_767 or properties_size + tail_size > 32_767 or body_size > 0x7FFF0000:
        raise InvalidRecord(
            f"a topic of {topic_size}, a body of {body_size} or properties of "
            f"{properties_size + tail_size} bytes do not fit into a record"
        )
    size: cython.Py_ssize_t = record_size(
        body_size, topic_size, properties_size + tail_size, born_size == 20, store_size == 20
    )
    if at < 0 or at + size > len(out):
        raise InvalidRecord(f"{size} bytes do not fit at {at} into {len(out)}")
    if cython.compiled:
        target = cython.declare(Py_buffer)
        body_view = cython.declare(Py_buffer)
        properties_view = cython.declare(Py_buffer)
        memset(cython.address(target), 0, cython.sizeof(Py_buffer))  # nothing to release yet
        memset(cython.address(body_view), 0, cython.sizeof(Py_buffer))
        memset(cython.address(properties_view), 0, cython.sizeof(Py_buffer))
        try:
            PyObject_GetBuffer(out, cython.address(target), PyBUF_WRITABLE)
            PyObject_GetBuffer(body, cython.address(body_view), PyBUF_SIMPLE)
            PyObject_GetBuffer(properties, cython.address(properties_view), PyBUF_SIMPLE)
            if (
                target.len < at + size
                or body_view.len != body_size
                or properties_view.len != properties_size
            ):
                raise InvalidRecord("a record is made of buffers of single bytes")
            write_record(
                cython.cast(cython.p_uchar, target.buf) + at,
                size,
                topic,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                prepared_transaction_offset,
                cython.cast(cython.p_const_uchar, body_view.buf),
                body_size,
                cython.cast(cython.p_const_uchar, properties_view.buf),
                properties_size,
                tail_size,
            )
        finally:
            PyBuffer_Release(cython.address(properties_view))
            PyBuffer_Release(cython.address(body_view))
            PyBuffer_Release(cython.address(target))
    else:
        sys_flag = _with_host_bits(sys_flag, born_size, store_size)
        parts = [
            _HEAD.pack(
                size,
                MAGIC_V2 if topic_size > 127 else MAGIC_V1,
                zlib.crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp,
            ),
            born_host,
            _INT64.pack(store_timestamp),
            store_host,
            _AFTER_HOSTS.pack(reconsume_times, prepared_transaction_offset, body_size),
            body,
            topic_size.to_bytes(2 if topic_size > 127 else 1, "big"),
            topic,
            _INT16.pack(properties_size + tail_size),
            properties,
        ]
        if tail_size:
            parts.append(b"" if tail_size == 20 else b"\x02")
            crc = zlib.crc32(b"".join(parts)) & 0x7FFFFFFF
            parts.append(_CRC_NAME + (b"%010d" % crc)[::-1] + b"\x02")
        out[at : at + size] = b"".join(parts)
    return size


if cython.compiled:

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write_record(
        start: cython.p_uchar,
        size: cython.Py_ssize_t,
        topic: bytes,
        queue_id: cython.int,
        flag: cython.int,
        queue_offset: cython.longlong,
        physical_offset: cython.longlong,
        sys_flag: cython.int,
        born_timestamp: cython.longlong,
        born_host: bytes,
        store_timestamp: cython.longlong,
        store_host: bytes,
        reconsume_times: cython.int,
        prepared_transaction_offset: cython.longlong,
        body: cython.p_const_uchar,
        body_size: cython.Py_ssize_t,
        properties: cython.p_const_uchar,
        properties_size: cython.Py_ssize_t,
        tail_size: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a record of known size to memory that has room for it; nothing is checked."""
        topic_size: cython.Py_ssize_t = len(topic)
        born_size: cython.Py_ssize_t = len(born_host)
        store_size: cython.Py_ssize_t = len(store_host)
        data: cython.p_uchar = start
        _put_head(
            data,
            size,
            _V2 if topic_size > 127 else _V1,
            _crc32(body, 0, body_size),
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            _with_host_bits(sys_flag, born_size, store_size),
            born_timestamp,
        )
        data += 48
        memcpy(data, cython.cast(cython.p_const_uchar, born_host), born_size)
        data += born_size
        _put64(data, store_timestamp)
        data += 8
        memcpy(data, cython.cast(cython.p_const_uchar, store_host), store_size)
        data += store_size
        _put32(data, reconsume_times)
        _put64(data + 4, prepared_transaction_offset)
        _put32(data + 12, cython.cast(cython.uint, body_size))
        data += 16
        memcpy(data, body, body_size)
        data += body_size
        if topic_size > 127:
            data[0] = cython.cast(cython.uchar, topic_size >> 8)
            data += 1
        data[0] = cython.cast(cython.uchar, topic_size & 0xFF)
        data += 1
        memcpy(data, cython.cast(cython.p_const_uchar, topic), topic_size)
        data += topic_size
        data[0] = cython.cast(cython.uchar, (properties_size + tail_size) >> 8)
        data[1] = cython.cast(cython.uchar, (properties_size + tail_size) & 0xFF)
        data += 2
        memcpy(data, properties, properties_size)
        data += properties_size
        if tail_size > 0:
            if tail_size == 21:
                data[0] = 2
                data += 1
            _put_crc_tail(data, _crc32(start, 0, size - 20))
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _with_host_bits(
    sys_flag: cython.int, born_size: cython.Py_ssize_t, store_size: cython.Py_ssize_t
) -> cython.int:
    """The flag with its IPv6 bits as the hosts are."""
    sys_flag &= ~0x30
    if born_size == 20:
        sys_flag |= 0x10
    if store_size == 20:
        sys_flag |= 0x20
    return sys_flag


def new_record(
    topic,
    body=b"",
    properties=b"",
    *,
    queue_id=0,
    flag=0,
    queue_offset=0,
    physical_offset=0,
    sys_flag=0,
    born_timestamp=0,
    born_host=b"\x7f\x00\x00\x01\x00\x00\x00\x00",
    store_timestamp=0,
    store_host=b"\x7f\x00\x00\x01\x00\x00\x00\x00",
    reconsume_times=0,
    prepared_transaction_offset=0,
    property_crc=False,
) -> bytes:
    """A record on its own, for what is not on its way into a commit log."""
    tail_size = crc_tail_size(properties) if property_crc else 0
    out = bytearray(
        record_size(
            len(body),
            len(topic),
            len(properties) + tail_size,
            len(born_host) == 20,
            len(store_host) == 20,
        )
    )
    encode_record(
        out,
        0,
        topic,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body,
        properties,
        property_crc,
    )
    return bytes(out)


def write_blank(out, at: cython.Py_ssize_t, remaining: cython.Py_ssize_t) -> None:
    """End a commit log file of which this many bytes remain, 8 at least."""
    _SIZE_AND_MAGIC.pack_into(out, at, remaining, MAGIC_BLANK)


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
    if check_crc and body_size > 0 and _crc32(data, body_at, body_size) != stated:
        return RecordCheck(_BAD_BODY_CRC, size)
    properties_at: cython.Py_ssize_t = _properties_at(data, at, size, body_at)
    if properties_at < 0 or properties_at + _get16(data, properties_at - 2) != at + size:
        return RecordCheck(_BAD_SIZE, size)
    if check_crc or require_property_crc:
        stated = _property_crc(data, at, size, properties_at)
        if stated < 0:
            if require_property_crc:
                return RecordCheck(_BAD_PROPERTY_CRC, size)
        elif _crc32(data, at, size - 20) != stated:
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
        return cython.cast(cython.short, (cython.cast(cython.uint, data[at]) << 8) | data[at + 1])
    else:
        return _INT16.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get32(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return cython.cast(cython.int, _unsigned32(data, at))
    else:
        return _INT32.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get64(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return cython.cast(
            cython.longlong,
            (cython.cast(cython.ulonglong, _unsigned32(data, at)) << 32)
            | _unsigned32(data, at + 4),
        )
    else:
        return _INT64.unpack_from(data, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _magic(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
    if cython.compiled:
        return _unsigned32(data, at + 4)
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
        return data[at : at + 9] == _CRC_NAME


@cython.cfunc
@cython.exceptval(0xFFFFFFFF)
def _crc32(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.uint:
    """CRC-32 without its highest bit, as records hold it."""
    if cython.compiled:
        if size >= 1024:
            view = PyMemoryView_FromMemory(cython.cast(cython.p_char, data) + at, size, PyBUF_READ)
            return zlib.crc32(view) & 0x7FFFFFFF
        # Short bodies are done before a call of zlib would have begun.
        p: cython.p_const_uchar = data + at
        crc: cython.uint = 0xFFFFFFFF
        while size >= 16:
            crc = (
                _crc_of_word(crc ^ _little32(p), 12)
                ^ _crc_of_word(_little32(p + 4), 8)
                ^ _crc_of_word(_little32(p + 8), 4)
                ^ _crc_of_word(_little32(p + 12), 0)
            )
            p += 16
            size -= 16
        while size > 0:
            crc = _CRC_TABLES[(crc ^ p[0]) & 0xFF] ^ (crc >> 8)
            p += 1
            size -= 1
        return ~crc & 0x7FFFFFFF
    else:
        return zlib.crc32(memoryview(data)[at : at + size]) & 0x7FFFFFFF


if cython.compiled:
    _CRC_TABLES = cython.declare(cython.uint[4096])

    @cython.cfunc
    def _make_crc_tables() -> cython.void:
        """Table k holds what a byte does to the checksum from k bytes further on."""
        i: cython.int
        for i in range(256):
            crc: cython.uint = i
            for _ in range(8):
                crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
            _CRC_TABLES[i] = crc
        for i in range(256, 4096):
            crc = _CRC_TABLES[i - 256]
            _CRC_TABLES[i] = (crc >> 8) ^ _CRC_TABLES[crc & 0xFF]

    _make_crc_tables()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _crc_of_word(word: cython.uint, behind: cython.int) -> cython.uint:
        """What four bytes do to the checksum, with so many bytes behind them."""
        return (
            _CRC_TABLES[(behind + 3) * 256 + (word & 0xFF)]
            ^ _CRC_TABLES[(behind + 2) * 256 + ((word >> 8) & 0xFF)]
            ^ _CRC_TABLES[(behind + 1) * 256 + ((word >> 16) & 0xFF)]
            ^ _CRC_TABLES[behind * 256 + (word >> 24)]
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _little32(data: cython.p_const_uchar) -> cython.uint:
        return (
            data[0]
            | (cython.cast(cython.uint, data[1]) << 8)
            | (cython.cast(cython.uint, data[2]) << 16)
            | (cython.cast(cython.uint, data[3]) << 24)
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _unsigned32(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
        return (
            (cython.cast(cython.uint, data[at]) << 24)
            | (cython.cast(cython.uint, data[at + 1]) << 16)
            | (cython.cast(cython.uint, data[at + 2]) << 8)
            | data[at + 3]
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put32(data: cython.p_uchar, value: cython.uint) -> cython.void:
        data[0] = cython.cast(cython.uchar, value >> 24)
        data[1] = cython.cast(cython.uchar, value >> 16)
        data[2] = cython.cast(cython.uchar, value >> 8)
        data[3] = cython.cast(cython.uchar, value)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put64(data: cython.p_uchar, value: cython.ulonglong) -> cython.void:
        _put32(data, cython.cast(cython.uint, value >> 32))
        _put32(data + 4, cython.cast(cython.uint, value))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_head(
        data: cython.p_uchar,
        size: cython.Py_ssize_t,
        magic: cython.uint,
        crc: cython.uint,
        queue_id: cython.int,
        flag: cython.int,
        queue_offset: cython.longlong,
        physical_offset: cython.longlong,
        sys_flag: cython.int,
        born_timestamp: cython.longlong,
    ) -> cython.void:
        _put32(data, cython.cast(cython.uint, size))
        _put32(data + 4, magic)
        _put32(data + 8, crc)
        _put32(data + 12, queue_id)
        _put32(data + 16, flag)
        _put64(data + 20, queue_offset)
        _put64(data + 28, physical_offset)
        _put32(data + 36, sys_flag)
        _put64(data + 40, born_timestamp)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _put_crc_tail(data: cython.p_uchar, crc: cython.uint) -> cython.void:
        memcpy(data, cython.cast(cython.p_const_char, b"__CRC32#\x01"), 9)
        i: cython.int
        for i in range(10):
            data[9 + i] = cython.cast(cython.uchar, 48 + crc % 10)
            crc //= 10
        data[19] = 2
