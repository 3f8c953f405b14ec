# cython: annotation_typing=False
"""Reading stored records: whether one is whole, what it says, and the message it holds.

The layout is that of `rocketq.message.record.layout`. Bytes are taken as they come, from a disk
or a peer, so nothing is read before the sizes around it are known to be right.

Compiled where possible (reader.pxd gives the types).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import cython

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.message.message import MessageExt
from rocketq.message.record import checksum, layout
from rocketq.message.record.writer import InvalidRecord


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


_VALID: Final = int(RecordStatus.VALID)
_BLANK: Final = int(RecordStatus.BLANK)
_TORN: Final = int(RecordStatus.TORN)
_BAD_MAGIC: Final = int(RecordStatus.BAD_MAGIC)
_BAD_BODY_CRC: Final = int(RecordStatus.BAD_BODY_CRC)
_BAD_PROPERTY_CRC: Final = int(RecordStatus.BAD_PROPERTY_CRC)
_BAD_SIZE: Final = int(RecordStatus.BAD_SIZE)


@cython.freelist(16)
@cython.cclass
class RecordCheck:
    """The outcome of `check_record`: a `RecordStatus`, and the size the record claims."""

    def __init__(self, status: int, size: int) -> None:
        self.status = status
        self.size = size

    @property
    def is_valid(self) -> bool:
        return self.status == _VALID

    @property
    def is_blank(self) -> bool:
        return self.status == _BLANK

    def __repr__(self) -> str:
        return f"RecordCheck({RecordStatus(self.status).name}, size={self.size})"


@cython.freelist(16)
@cython.cclass
class RecordFields:
    """What the store wants to know of a record to index it; read at once, copied out."""

    size: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    prepared_transaction_offset: int
    body_at: int
    body_size: int
    topic: bytes
    properties: bytes


# Checking


def check_record(
    buffer: Buffer, at: int = 0, check_crc: bool = True, require_property_crc: bool = False
) -> RecordCheck:
    """Say whether a valid record starts here.

    In this order: enough bytes, a known magic, the checksum of the body, the checksum in the
    properties, the sizes of the parts. The checksum in the properties is compared where there
    is one, and missed only when it is required. The physical offset is not looked at.
    """
    held = memory.hold(buffer)
    try:
        return check_at(memory.start(held), at, held.len, check_crc, require_property_crc)
    finally:
        memory.release(held)


def are_records(buffer: Buffer, count: int, check_crc: bool = True) -> bool:
    """Whether a buffer holds exactly so many valid records, one after another."""
    held = memory.hold(buffer)
    try:
        return _are_records(memory.start(held), held.len, count, check_crc)
    finally:
        memory.release(held)


def _are_records(data: Buffer, end: int, count: int, check_crc: bool) -> bool:
    at = 0
    while at < end:
        check = check_at(data, at, end, check_crc, False)
        if check.status != _VALID:
            return False
        at += check.size
        count -= 1
    return count == 0


def check_at(
    data: Buffer, at: int, end: int, check_crc: bool, require_property_crc: bool
) -> RecordCheck:
    """`check_record` for those who hold the memory."""
    if at < 0 or end - at < layout.BLANK_SIZE:
        return _found(_TORN, 0)
    size = memory.get32(data, at + layout.SIZE_AT)
    if size > end - at:
        return _found(_TORN, size)
    magic = memory.get32(data, at + layout.MAGIC_AT)
    if magic == layout.MAGIC_BLANK:
        return _found(_BLANK, size)
    if magic != layout.MAGIC_V1 and magic != layout.MAGIC_V2:
        return _found(_BAD_MAGIC, size)
    body_at = _body_at(data, at, size)
    if body_at < 0:
        return _found(_BAD_SIZE, size)
    body_size = memory.get32(data, body_at - layout.SIZE_BEFORE_BODY)
    stated = memory.get32(data, at + layout.BODY_CRC_AT)
    if check_crc and body_size > 0 and checksum.crc32(data, body_at, body_size) != stated:
        return _found(_BAD_BODY_CRC, size)
    properties_at = _properties_at(data, at, size, body_at)
    if properties_at < 0 or properties_at + memory.get16(data, properties_at - 2) != at + size:
        return _found(_BAD_SIZE, size)
    if check_crc or require_property_crc:
        stated = _property_crc(data, at, size, properties_at)
        if stated < 0:
            if require_property_crc:
                return _found(_BAD_PROPERTY_CRC, size)
        elif checksum.crc32(data, at, size - layout.CRC_TAIL_SIZE) != stated:
            return _found(_BAD_PROPERTY_CRC, size)
    return _found(_VALID, size)


def _found(status: int, size: int) -> RecordCheck:
    check = RecordCheck.__new__(RecordCheck)
    check.status = status
    check.size = size
    return check


# Reading


def read_record(buffer: Buffer, at: int = 0) -> RecordFields:
    """The fields of the record that starts here; `InvalidRecord` if none does.

    Checksums are not compared: that is `check_record`'s business.
    """
    held = memory.hold(buffer)
    try:
        return read_at(memory.start(held), at, held.len)
    finally:
        memory.release(held)


def read_at(data: Buffer, at: int, end: int) -> RecordFields:
    """`read_record` for those who hold the memory."""
    size = _record_size_at(data, at, end)
    body_at = _body_at(data, at, size)
    properties_at = _properties_at(data, at, size, body_at)
    fields = RecordFields()
    fields.size = size
    fields.queue_id = memory.get32(data, at + layout.QUEUE_ID_AT)
    fields.flag = memory.get32(data, at + layout.FLAG_AT)
    fields.queue_offset = memory.get64(data, at + layout.QUEUE_OFFSET_AT)
    fields.physical_offset = memory.get64(data, at + layout.PHYSICAL_OFFSET_AT)
    fields.sys_flag = memory.get32(data, at + layout.SYS_FLAG_AT)
    fields.born_timestamp = memory.get64(data, at + layout.BORN_TIME_AT)
    fields.store_timestamp = memory.get64(data, at + layout.store_time_at(fields.sys_flag))
    fields.reconsume_times = memory.get32(data, body_at - layout.RECONSUME_BEFORE_BODY)
    fields.prepared_transaction_offset = memory.get64(
        data, body_at - layout.TRANSACTION_BEFORE_BODY
    )
    fields.body_at = body_at
    fields.body_size = memory.get32(data, body_at - layout.SIZE_BEFORE_BODY)
    topic_at = body_at + fields.body_size + 1
    if memory.get32(data, at + layout.MAGIC_AT) == layout.MAGIC_V2:
        topic_at += 1
    fields.topic = memory.bytes_at(data, topic_at, properties_at - 2 - topic_at)
    fields.properties = memory.bytes_at(data, properties_at, at + size - properties_at)
    return fields


def decode_record(buffer: Buffer, at: int = 0, broker_name: str = "") -> MessageExt:
    """The message whose record starts here; its bytes are copied."""
    held = memory.hold(buffer)
    try:
        size = _record_size_at(memory.start(held), at, held.len)
        return MessageExt(memory.bytes_at(memory.start(held), at, size), broker_name)
    finally:
        memory.release(held)


def decode_records(
    buffer: Buffer, broker_name: str = "", added: Mapping[str, str] | None = None
) -> list[MessageExt]:
    """The messages of a pull response.

    Each has a copy of its record, so that keeping one does not keep the whole response.
    `added` are properties that all of them get on top of their own.
    """
    held = memory.hold(buffer)
    try:
        return _decode(memory.start(held), held.len, broker_name, added)
    finally:
        memory.release(held)


def _decode(
    data: Buffer, end: int, broker_name: str, added: Mapping[str, str] | None
) -> list[MessageExt]:
    messages = []
    at = 0
    while at < end:
        size = _record_size_at(data, at, end)
        messages.append(MessageExt(memory.bytes_at(data, at, size), broker_name, added))
        at += size
    return messages


def _record_size_at(data: Buffer, at: int, end: int) -> int:
    """Size of the record here, whose parts add up to it; raises if there is none."""
    if at < 0 or end - at < layout.FIXED_SIZE:
        raise InvalidRecord(f"a record does not fit into the {end - at} bytes at {at}")
    size = memory.get32(data, at + layout.SIZE_AT)
    magic = memory.get32(data, at + layout.MAGIC_AT)
    if (magic != layout.MAGIC_V1 and magic != layout.MAGIC_V2) or size > end - at:
        raise InvalidRecord(f"no record at {at}: magic {magic & 0xFFFFFFFF:08X}, size {size}")
    body_at = _body_at(data, at, size)
    if body_at >= 0:
        properties_at = _properties_at(data, at, size, body_at)
        if properties_at >= 0 and (
            properties_at + memory.get16(data, properties_at - 2) == at + size
        ):
            return size
    raise InvalidRecord(f"the parts of the record at {at} do not add up to {size} bytes")


# Where the parts of a record lie. None of these reads past at + size.


def _body_at(data: Buffer, at: int, size: int) -> int:
    """Where the body starts, or -1 if it cannot be all there."""
    if size < layout.FIXED_SIZE:
        return -1
    body_at = at + layout.body_at(memory.get32(data, at + layout.SYS_FLAG_AT))
    if body_at + 3 > at + size:
        return -1
    body_size = memory.get32(data, body_at - layout.SIZE_BEFORE_BODY)
    if body_size < 0 or body_at + body_size + 3 > at + size:
        return -1
    return body_at


def _properties_at(data: Buffer, at: int, size: int, body_at: int) -> int:
    """Where the properties start, their size just before, or -1 if that is not inside."""
    topic_at = body_at + memory.get32(data, body_at - layout.SIZE_BEFORE_BODY)
    if memory.get32(data, at + layout.MAGIC_AT) == layout.MAGIC_V2:
        topic_size = memory.get16(data, topic_at)
        topic_at += 2
    else:
        topic_size = data[topic_at]
        topic_at += 1
        if topic_size > layout.MAX_TOPIC_SIZE_V1:  # the size is a signed byte
            return -1
    if topic_size < 0 or topic_at + topic_size + 2 > at + size:
        return -1
    return topic_at + topic_size + 2


def _property_crc(data: Buffer, at: int, size: int, properties_at: int) -> int:
    """The checksum at the end of the properties, or -1 without one.

    One that is no number, or has no end, was damaged: it is a value that no checksum has.
    """
    tail = at + size - layout.CRC_TAIL_SIZE
    if tail < properties_at or not memory.same(data, tail, b"__CRC32#\x01", 9):
        return -1
    if data[at + size - 1] != 2:
        return 0x100000000
    crc = 0
    for place in range(tail + 18, tail + 8, -1):
        digit = data[place] - 48
        if digit < 0 or digit > 9:
            return 0x100000000
        crc = crc * 10 + digit
    return crc
