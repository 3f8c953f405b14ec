# cython: annotation_typing=False
"""Writing stored records (`rocketq.message.record.layout`).

`rocketq.message.record.reader` checks and reads them. Compiled where possible (writer.pxd gives
the types).
"""

import mmap

from rocketq.common import memory
from rocketq.common.errors import RocketqError
from rocketq.common.memory import Buffer, WritableBuffer
from rocketq.message.record import checksum, layout

LOCAL_HOST = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class InvalidRecord(RocketqError):
    """Bytes that are not a stored record, or fields that do not make one."""


# Sizes


def record_size(
    body_size: int,
    topic_size: int,
    properties_size: int,
    born_v6: bool = False,
    store_v6: bool = False,
) -> int:
    """Bytes a record takes. Properties count with their checksum, if there is to be one."""
    size = layout.FIXED_SIZE + body_size + topic_size + properties_size
    if topic_size > layout.MAX_TOPIC_SIZE_V1:
        size += 1
    if born_v6:
        size += layout.V6_SIZE - layout.V4_SIZE
    if store_v6:
        size += layout.V6_SIZE - layout.V4_SIZE
    return size


def crc_tail_size(properties: Buffer, in_batch: bool = False) -> int:
    """Bytes the checksum adds to these properties.

    A separator goes before it when the properties do not end with one; records of a batch
    do without, as RocketMQ writes them.
    """
    size = len(properties)
    if size > 0 and not in_batch and properties[size - 1] != 2:
        return layout.CRC_TAIL_SIZE + 1
    return layout.CRC_TAIL_SIZE


# Encoding


def encode_record(
    out: WritableBuffer,
    at: int,
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    properties: Buffer,
    property_crc: bool = False,
    in_batch: bool = False,
) -> int:
    """Write one record into a writable buffer, and say how many bytes it took.

    Body and properties may be any bytes-like object. The IPv6 bits of the flag are set from
    the sizes of the hosts; the version follows from the size of the topic. With
    `property_crc` the properties must not hold a checksum already.
    """
    tail_size = crc_tail_size(properties, in_batch) if property_crc else 0
    target = memory.hold_writable(out)
    try:
        body_held = memory.hold(body)
        try:
            properties_held = memory.hold(properties)
            try:
                size = _checked_size(
                    body_held.len,
                    len(topic),
                    properties_held.len + tail_size,
                    len(born_host),
                    len(store_host),
                )
                if at < 0 or at + size > target.len:
                    raise InvalidRecord(f"{size} bytes do not fit at {at} into {target.len}")
                write_record(
                    memory.start(target),
                    at,
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
                    memory.start(body_held),
                    0,
                    body_held.len,
                    memory.start(properties_held),
                    properties_held.len,
                    tail_size,
                )
                return size
            finally:
                memory.release(properties_held)
        finally:
            memory.release(body_held)
    finally:
        memory.release(target)


def _checked_size(
    body_size: int, topic_size: int, properties_size: int, born_size: int, store_size: int
) -> int:
    """The size of a record of such parts, if there can be one."""
    if (born_size != layout.V4_SIZE and born_size != layout.V6_SIZE) or (
        store_size != layout.V4_SIZE and store_size != layout.V6_SIZE
    ):
        raise InvalidRecord(f"hosts take 8 or 20 bytes, not {born_size} and {store_size}")
    if (
        topic_size > layout.MAX_TOPIC_SIZE
        or properties_size > layout.MAX_PROPERTIES_SIZE
        or body_size > layout.MAX_BODY_SIZE
    ):
        raise InvalidRecord(
            f"a topic of {topic_size}, a body of {body_size} or properties of "
            f"{properties_size} bytes do not fit into a record"
        )
    return record_size(
        body_size,
        topic_size,
        properties_size,
        born_size == layout.V6_SIZE,
        store_size == layout.V6_SIZE,
    )


def write_record(
    out: WritableBuffer,
    at: int,
    size: int,
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    body_at: int,
    body_size: int,
    properties: Buffer,
    properties_size: int,
    tail_size: int,
) -> None:
    """Write a record of known size to memory that has room for it; nothing is checked.

    The body is the `body_size` bytes of `body` from `body_at` on.
    """
    start = at
    topic_size = len(topic)
    born_size = len(born_host)
    store_size = len(store_host)
    memory.put32(out, at + layout.SIZE_AT, size)
    if topic_size > layout.MAX_TOPIC_SIZE_V1:
        memory.put32(out, at + layout.MAGIC_AT, layout.MAGIC_V2)
    else:
        memory.put32(out, at + layout.MAGIC_AT, layout.MAGIC_V1)
    memory.put32(out, at + layout.BODY_CRC_AT, checksum.crc32(body, body_at, body_size))
    memory.put32(out, at + layout.QUEUE_ID_AT, queue_id)
    memory.put32(out, at + layout.FLAG_AT, flag)
    memory.put64(out, at + layout.QUEUE_OFFSET_AT, queue_offset)
    memory.put64(out, at + layout.PHYSICAL_OFFSET_AT, physical_offset)
    memory.put32(out, at + layout.SYS_FLAG_AT, _with_host_bits(sys_flag, born_size, store_size))
    memory.put64(out, at + layout.BORN_TIME_AT, born_timestamp)
    at = memory.put(out, at + layout.BORN_HOST_AT, born_host)
    memory.put64(out, at, store_timestamp)
    at = memory.put(out, at + 8, store_host)
    memory.put32(out, at, reconsume_times)
    memory.put64(out, at + 4, prepared_transaction_offset)
    memory.put32(out, at + 12, body_size)
    memory.copy(out, at + 16, body, body_at, body_size)
    at += 16 + body_size
    if topic_size > layout.MAX_TOPIC_SIZE_V1:
        memory.put16(out, at, topic_size)
        at += 2
    else:
        out[at] = topic_size
        at += 1
    at = memory.put(out, at, topic)
    memory.put16(out, at, properties_size + tail_size)
    memory.copy(out, at + 2, properties, 0, properties_size)
    at += 2 + properties_size
    if tail_size > 0:
        if tail_size > layout.CRC_TAIL_SIZE:
            out[at] = 2
            at += 1
        _put_crc_tail(out, at, checksum.crc32(out, start, size - layout.CRC_TAIL_SIZE))


def _put_crc_tail(out: WritableBuffer, at: int, crc: int) -> None:
    at = memory.put(out, at, layout.CRC_TAIL_NAME)
    for place in range(at, at + 10):
        out[place] = 48 + crc % 10
        crc //= 10
    out[at + 10] = 2


def _with_host_bits(sys_flag: int, born_size: int, store_size: int) -> int:
    """The flag with its IPv6 bits as the hosts are."""
    sys_flag &= ~(layout.BORN_V6 | layout.STORE_V6)
    if born_size == layout.V6_SIZE:
        sys_flag |= layout.BORN_V6
    if store_size == layout.V6_SIZE:
        sys_flag |= layout.STORE_V6
    return sys_flag


def new_record(
    topic: bytes,
    body: Buffer = b"",
    properties: Buffer = b"",
    *,
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: bytes = LOCAL_HOST,
    store_timestamp: int = 0,
    store_host: bytes = LOCAL_HOST,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    property_crc: bool = False,
) -> bytes:
    """A record on its own, for what is not on its way into a commit log."""
    tail_size = crc_tail_size(properties) if property_crc else 0
    out = bytearray(
        record_size(
            len(body),
            len(topic),
            len(properties) + tail_size,
            len(born_host) == layout.V6_SIZE,
            len(store_host) == layout.V6_SIZE,
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


def write_blank(out: WritableBuffer | mmap.mmap, at: int, remaining: int) -> None:
    """End a commit log file of which this many bytes remain, 8 at least."""
    held = memory.hold_writable(out)
    try:
        memory.put32(memory.start(held), at + layout.SIZE_AT, remaining)
        memory.put32(memory.start(held), at + layout.MAGIC_AT, layout.MAGIC_BLANK)
    finally:
        memory.release(held)
