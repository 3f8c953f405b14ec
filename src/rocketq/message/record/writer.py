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

Records are made here; `rocketq.message.record.reader` checks and reads them. This module is
compiled where that is possible and runs unchanged where it is not: compiled it puts fields
straight into memory, uncompiled it joins them.
"""

import struct

import cython

from rocketq.common.errors import RocketqError

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_SIMPLE,
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.rocketq.common.big_endian import put32, put64
    from cython.cimports.rocketq.message.record.checksum import crc32
else:
    from rocketq.message.record.checksum import crc32

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
CRC_TAIL_NAME = b"__CRC32#\x01"
"""How the checksum in the properties begins."""

_HEAD = struct.Struct(">iIIiiqqiq")  # up to the born host
_AFTER_HOSTS = struct.Struct(">iqi")  # reconsume times, transaction offset, body size
_SIZE_AND_MAGIC = struct.Struct(">iI")
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")

_V1 = cython.declare(cython.uint, 0xDAA320A7)
_V2 = cython.declare(cython.uint, 0xDAA320AB)


class InvalidRecord(RocketqError):
    """Bytes that are not a stored record, or fields that do not make one."""


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
                crc32(body, 0, body_size),
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
            crc = crc32(b"".join(parts), 0, size - 20)
            parts.append(CRC_TAIL_NAME + (b"%010d" % crc)[::-1] + b"\x02")
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
            crc32(body, 0, body_size),
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
        put64(data, store_timestamp)
        data += 8
        memcpy(data, cython.cast(cython.p_const_uchar, store_host), store_size)
        data += store_size
        put32(data, reconsume_times)
        put64(data + 4, prepared_transaction_offset)
        put32(data + 12, cython.cast(cython.int, body_size))
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
            _put_crc_tail(data, crc32(start, 0, size - 20))
        return 0

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
        put32(data, cython.cast(cython.int, size))
        put32(data + 4, cython.cast(cython.int, magic))
        put32(data + 8, cython.cast(cython.int, crc))
        put32(data + 12, queue_id)
        put32(data + 16, flag)
        put64(data + 20, queue_offset)
        put64(data + 28, physical_offset)
        put32(data + 36, sys_flag)
        put64(data + 40, born_timestamp)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _put_crc_tail(data: cython.p_uchar, crc: cython.uint) -> cython.void:
        memcpy(data, cython.cast(cython.p_const_char, b"__CRC32#\x01"), 9)
        i: cython.int
        for i in range(10):
            data[9 + i] = cython.cast(cython.uchar, 48 + crc % 10)
            crc //= 10
        data[19] = 2


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
