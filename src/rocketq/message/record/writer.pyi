from typing import Final, TypeAlias

from _typeshed import WriteableBuffer

from rocketq.common.errors import RocketqError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
FIXED_SIZE: Final = 91
BLANK_SIZE: Final = 8
MAX_PROPERTIES_SIZE: Final = 32_767
MAX_TOPIC_SIZE_V1: Final = 127
CRC_TAIL_SIZE: Final = 20
CRC_TAIL_NAME: Final = b"__CRC32#\x01"

class InvalidRecord(RocketqError): ...

def record_size(
    body_size: int,
    topic_size: int,
    properties_size: int,
    born_v6: bool = False,
    store_v6: bool = False,
) -> int: ...
def crc_tail_size(properties: Buffer, in_batch: bool = False) -> int: ...
def encode_record(
    out: WriteableBuffer,
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
) -> int: ...
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
    born_host: bytes = ...,
    store_timestamp: int = 0,
    store_host: bytes = ...,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    property_crc: bool = False,
) -> bytes: ...
def write_blank(out: WriteableBuffer, at: int, remaining: int) -> None: ...
