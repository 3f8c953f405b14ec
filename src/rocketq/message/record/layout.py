"""The layout of what RocketMQ stores: the record, the item of a batch, the queue entry.

**The record** is one message in the commit log, in pull responses and in replication. All
integers are big-endian.

    position  type      field
    0         int32     total size, this field included
    4         int32     magic: DAA320A7 (version 1), DAA320AB (version 2), CBD43194 (blank)
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

**The item of a batch** is one message in the body of a batch send:

    0         int32     total size of this item
    4         int32     magic, 0
    8         int32     CRC, 0
    12        int32     flag
    16        int32     body size, then the body
    ..        int16     properties size, then the properties

**The queue entry** says where a message of a queue lies:

    0         int64     where its record starts in the log
    8         int32     its size there, never 0 in a live entry
    12        int64     hash of its tag, or when it is due in the queues of delayed messages

The numbers stand here for Python and in layout.pxd for compiled modules; a test keeps them equal.
"""

import struct
from typing import Final

# Fields of a record, from its start

SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIME_AT: Final = 40
BORN_HOST_AT: Final = 48

# Fields before the body, back from its start

RECONSUME_BEFORE_BODY: Final = 16
TRANSACTION_BEFORE_BODY: Final = 12
SIZE_BEFORE_BODY: Final = 4

# Values and sizes

MAGIC_V1: Final = -626843481
MAGIC_V2: Final = -626843477
MAGIC_BLANK: Final = -875286124
"""DAA320A7, DAA320AB and CBD43194 as numbers with a sign, which `memory.get32` gives."""

FIXED_SIZE: Final = 91
"""What a version 1 record with two IPv4 hosts takes besides body, topic and properties."""
BLANK_SIZE: Final = 8
"""A record must leave this much room for the blank one that ends its file."""
V4_SIZE: Final = 8
V6_SIZE: Final = 20
"""What a host takes, address and port."""
CRC_TAIL_SIZE: Final = 20
CRC_TAIL_NAME: Final = b"__CRC32#\x01"
"""How the checksum in the properties begins."""
MAX_TOPIC_SIZE_V1: Final = 127
MAX_TOPIC_SIZE: Final = 32_767
MAX_PROPERTIES_SIZE: Final = 32_767
"""The size of the properties is a signed 16-bit number."""
MAX_BODY_SIZE: Final = 0x7FFF0000
"""So that the size of the whole record, which is a signed 32-bit number, can be told."""

# The bits of sysFlag by which records are read and dispatched (all: rocketq.message.flags)

COMPRESSED: Final = 0x1
BORN_V6: Final = 0x10
STORE_V6: Final = 0x20
INNER_BATCH: Final = 0x80
INNER_BATCH_BITS: Final = 0xC0
TRANSACTION_BITS: Final = 0xC
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_ROLLBACK: Final = 0xC

# The item of a batch

ITEM_FLAG_AT: Final = 12
ITEM_BODY_SIZE_AT: Final = 16
ITEM_BODY_AT: Final = 20
ITEM_FIXED_SIZE: Final = 22
"""What an item takes besides its body and properties."""

# The queue entry

ENTRY_POSITION_AT: Final = 0
ENTRY_SIZE_AT: Final = 8
ENTRY_TAGS_CODE_AT: Final = 12
ENTRY_SIZE: Final = 20
ENTRY: Final = struct.Struct(">qiq")
assert ENTRY.size == ENTRY_SIZE


def store_time_at(sys_flag: int) -> int:
    """Where the store timestamp lies: behind the born host, whose end this is."""
    return BORN_HOST_AT + (V6_SIZE if sys_flag & BORN_V6 else V4_SIZE)


def store_host_at(sys_flag: int) -> int:
    return store_time_at(sys_flag) + 8


def store_host_size(sys_flag: int) -> int:
    return V6_SIZE if sys_flag & STORE_V6 else V4_SIZE


def body_at(sys_flag: int) -> int:
    """Where the body begins, its size in the four bytes before."""
    return store_host_at(sys_flag) + store_host_size(sys_flag) + RECONSUME_BEFORE_BODY
