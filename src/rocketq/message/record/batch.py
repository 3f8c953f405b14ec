"""Batches: several messages of one topic in the body of one send request.

Each message in the body takes, big-endian:

    int32     total size of this item
    int32     magic, 0
    int32     CRC, 0
    int32     flag
    int32     body size, then the body
    int16     properties size, then the properties

The broker makes one record of each item. Only for topics with a batch index it keeps the
whole body as one record, an inner batch, which the client takes apart.
"""

import struct

import cython

from rocketq.common.errors import RocketqError
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.record.writer import new_record

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.rocketq.common.big_endian import get32

ITEM_FIXED_SIZE = 22
"""What an item takes besides its body and properties."""

_HEAD = struct.Struct(">iiiii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class InvalidBatch(RocketqError):
    """Bytes that are not a batch, or messages that do not make one."""


def encode_batch(messages) -> bytes:
    """The body of a request that sends these messages."""
    parts = []
    for message in messages:
        body = message.body
        properties = message.encoded_properties()
        if len(properties) > 32_767:
            raise InvalidBatch(f"{len(properties)} bytes of properties, at most 32767 may be")
        size = 22 + len(body) + len(properties)
        parts.append(_HEAD.pack(size, 0, 0, message.flag, len(body)))
        parts.append(body)
        parts.append(_INT16.pack(len(properties)))
        parts.append(properties)
    return b"".join(parts)


@cython.final
@cython.freelist(64)
@cython.cclass
class BatchItem:
    """One message of a batch: its flag, where its body lies in the batch, its properties.

    `record_size` is for whoever stores it.
    """

    def __init__(self) -> None:
        self.flag = 0
        self.body_at = 0
        self.body_size = 0
        self.properties = b""
        self.record_size = 0


def split_batch(body) -> list:
    """Flag, body and properties of each item, the body as a slice of the batch.

    Raises `InvalidBatch` if the items do not fill the body exactly.
    """
    view = memoryview(body)
    return [
        (item.flag, view[item.body_at : item.body_at + item.body_size], item.properties)
        for item in batch_items(body)
    ]


@cython.ccall
def batch_items(body) -> list:
    """The items of a batch; raises `InvalidBatch` if they do not fill it exactly."""
    if cython.compiled:
        raw = cython.declare(Py_buffer)
        PyObject_GetBuffer(body, cython.address(raw), PyBUF_SIMPLE)
        try:
            return _items(cython.cast(cython.p_const_uchar, raw.buf), raw.len)
        finally:
            PyBuffer_Release(cython.address(raw))
    else:
        return _items(memoryview(body), len(body))


@cython.cfunc
def _items(data: cython.p_const_uchar, size: cython.Py_ssize_t) -> list:
    items: list = []
    at: cython.Py_ssize_t = 0
    while at < size:
        end: cython.Py_ssize_t = _item_end(data, at, size)
        item: BatchItem = BatchItem.__new__(BatchItem)
        item.flag = _get32(data, at + 12)
        item.body_at = at + 20
        item.body_size = _get32(data, at + 16)
        item.properties = _bytes_at(data, item.body_at + item.body_size + 2, end)
        items.append(item)
        at = end
    return items


@cython.cfunc
@cython.inline
def _bytes_at(
    data: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(
            cython.cast(cython.p_const_char, data + start), end - start
        )
    else:
        return bytes(data[start:end])


@cython.cfunc
@cython.exceptval(-1)
def _item_end(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the item that starts here ends; raises unless its parts add up to its size."""
    if end - at >= 22:
        size: cython.Py_ssize_t = _get32(data, at)
        body_size: cython.Py_ssize_t = _get32(data, at + 16)
        if body_size >= 0 and 22 + body_size <= size and size <= end - at:
            properties_at: cython.Py_ssize_t = at + 20 + body_size
            properties_size: cython.Py_ssize_t = data[properties_at] << 8 | data[properties_at + 1]
            if properties_size <= 32_767 and 22 + body_size + properties_size == size:
                return at + size
    raise InvalidBatch(f"no message of a batch at {at} of {end} bytes")


def unwrap_inner_batch(message) -> list:
    """The messages of an inner batch; a message that is none comes back alone.

    They share everything with the record they came in except flag, body and properties, and
    are numbered from its queue offset on.
    """
    flag = message.sys_flag
    if not (flag & SysFlag.INNER_BATCH and flag & SysFlag.NEED_UNWRAP):
        return [message]
    base = message.get_property("INNER_BASE")
    first_offset = int(base) if base else message.queue_offset
    own_flag = flag & ~(SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP | SysFlag.COMPRESSED)
    return [
        MessageExt(
            new_record(
                message.raw_topic,
                body,
                properties,
                queue_id=message.queue_id,
                flag=item_flag,
                queue_offset=first_offset + index,
                physical_offset=message.physical_offset,
                sys_flag=own_flag & ~SysFlag.COMPRESSION_MASK,
                born_timestamp=message.born_timestamp,
                born_host=message.raw_born_host,
                store_timestamp=message.store_timestamp,
                store_host=message.raw_store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset,
            ),
            message.broker_name,
        )
        for index, (item_flag, body, properties) in enumerate(split_batch(message.body))
    ]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get32(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return get32(data + at)
    else:
        return _INT32.unpack_from(data, at)[0]
