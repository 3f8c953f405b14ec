# cython: annotation_typing=False
"""Batches: several messages of one topic in the body of one send request.

Each message in the body is an item as `rocketq.message.record.layout` has it. The broker makes
one record of each item. Only for topics with a batch index it keeps the whole body as one
record, an inner batch, which the client takes apart.

Compiled where possible (batch.pxd gives the types).
"""

import struct
from collections.abc import Iterable

import cython

from rocketq.common import memory
from rocketq.common.errors import RocketqError
from rocketq.common.memory import Buffer
from rocketq.message.flags import SysFlag
from rocketq.message.message import Message, MessageExt
from rocketq.message.record import layout
from rocketq.message.record.writer import new_record

_HEAD = struct.Struct(">iiiii")
_INT16 = struct.Struct(">h")


class InvalidBatch(RocketqError):
    """Bytes that are not a batch, or messages that do not make one."""


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a request that sends these messages, the plain way.

    Producers fill theirs item by item (`client/producer/batch_item.py`), Spark a column at a time
    (`spark/write/encoder.py`). Those are tested against this.
    """
    parts = []
    for message in messages:
        body = message.body
        properties = message.encoded_properties()
        if len(properties) > layout.MAX_PROPERTIES_SIZE:
            raise InvalidBatch(
                f"{len(properties)} bytes of properties, "
                f"at most {layout.MAX_PROPERTIES_SIZE} may be"
            )
        size = layout.ITEM_FIXED_SIZE + len(body) + len(properties)
        parts.append(_HEAD.pack(size, 0, 0, message.flag, len(body)))
        parts.append(body)
        parts.append(_INT16.pack(len(properties)))
        parts.append(properties)
    return b"".join(parts)


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


def split_batch(body: Buffer) -> list[tuple[int, memoryview, bytes]]:
    """Flag, body and properties of each item, the body as a slice of the batch.

    Raises `InvalidBatch` if the items do not fill the body exactly.
    """
    view = memoryview(body)
    return [
        (item.flag, view[item.body_at : item.body_at + item.body_size], item.properties)
        for item in batch_items(body)
    ]


def batch_items(body: Buffer) -> list[BatchItem]:
    """The items of a batch; raises `InvalidBatch` if they do not fill it exactly."""
    held = memory.hold(body)
    try:
        return _items(memory.start(held), held.len)
    finally:
        memory.release(held)


def _items(data: Buffer, size: int) -> list[BatchItem]:
    items = []
    at = 0
    while at < size:
        end = _item_end(data, at, size)
        item = BatchItem.__new__(BatchItem)
        item.flag = memory.get32(data, at + layout.ITEM_FLAG_AT)
        item.body_at = at + layout.ITEM_BODY_AT
        item.body_size = memory.get32(data, at + layout.ITEM_BODY_SIZE_AT)
        properties_at = item.body_at + item.body_size + 2
        item.properties = memory.bytes_at(data, properties_at, end - properties_at)
        items.append(item)
        at = end
    return items


def _item_end(data: Buffer, at: int, end: int) -> int:
    """Where the item that starts here ends; raises unless its parts add up to its size."""
    if end - at >= layout.ITEM_FIXED_SIZE:
        size = memory.get32(data, at)
        body_size = memory.get32(data, at + layout.ITEM_BODY_SIZE_AT)
        if body_size >= 0 and layout.ITEM_FIXED_SIZE + body_size <= size and size <= end - at:
            properties_size = memory.get16(data, at + layout.ITEM_BODY_AT + body_size)
            if (
                properties_size >= 0
                and layout.ITEM_FIXED_SIZE + body_size + properties_size == size
            ):
                return at + size
    raise InvalidBatch(f"no message of a batch at {at} of {end} bytes")


def unwrap_inner_batch(message: MessageExt) -> list[MessageExt]:
    """The messages of an inner batch; any other message comes back alone.

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
