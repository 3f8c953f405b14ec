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
from rocketq.message.record import new_record

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )

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


def split_batch(body) -> list:
    """Flag, body and properties of each item, the latter two as slices of the batch.

    Raises `InvalidBatch` if the items do not fill the body exactly.
    """
    view = memoryview(body)
    items: list = []
    at: cython.Py_ssize_t
    body_at: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    end: cython.Py_ssize_t
    flag: cython.int
    if cython.compiled:
        raw = cython.declare(Py_buffer)
        PyObject_GetBuffer(view, cython.address(raw), PyBUF_SIMPLE)
        try:
            data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, raw.buf)
            at = 0
            while at < raw.len:
                end = _item_end(data, at, raw.len)
                flag = _get32(data, at + 12)
                body_at = at + 20
                body_end = body_at + _get32(data, at + 16)
                items.append((flag, view[body_at:body_end], view[body_end + 2 : end]))
                at = end
        finally:
            PyBuffer_Release(cython.address(raw))
    else:
        at = 0
        while at < len(view):
            end = _item_end(view, at, len(view))
            flag = _get32(view, at + 12)
            body_at = at + 20
            body_end = body_at + _get32(view, at + 16)
            items.append((flag, view[body_at:body_end], view[body_end + 2 : end]))
            at = end
    return items


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
        return cython.cast(
            cython.int,
            (cython.cast(cython.uint, data[at]) << 24)
            | (cython.cast(cython.uint, data[at + 1]) << 16)
            | (cython.cast(cython.uint, data[at + 2]) << 8)
            | data[at + 3],
        )
    else:
        return _INT32.unpack_from(data, at)[0]
