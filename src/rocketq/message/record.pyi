from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias, final

from _typeshed import ReadableBuffer, WriteableBuffer

from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
FIXED_SIZE: Final = 91
BLANK_SIZE: Final = 8
MAX_PROPERTIES_SIZE: Final = 32_767
MAX_TOPIC_SIZE_V1: Final = 127
CRC_TAIL_SIZE: Final = 20

class InvalidRecord(RocketqError): ...

class RecordStatus(IntEnum):
    VALID = 0
    BLANK = 1
    TORN = 2
    BAD_MAGIC = 3
    BAD_BODY_CRC = 4
    BAD_PROPERTY_CRC = 5
    BAD_SIZE = 6

@final
class RecordCheck:
    def __init__(self, status: int, size: int) -> None: ...
    @property
    def status(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def is_valid(self) -> bool: ...
    @property
    def is_blank(self) -> bool: ...

@final
class RecordFields:
    @property
    def size(self) -> int: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def born_timestamp(self) -> int: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def prepared_transaction_offset(self) -> int: ...
    @property
    def body_at(self) -> int: ...
    @property
    def body_size(self) -> int: ...
    @property
    def topic(self) -> bytes: ...
    @property
    def properties(self) -> bytes: ...

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
def check_record(
    buffer: ReadableBuffer,
    at: int = 0,
    check_crc: bool = True,
    require_property_crc: bool = False,
) -> RecordCheck: ...
def read_record(buffer: ReadableBuffer, at: int = 0) -> RecordFields: ...
def scan_records(buffer: ReadableBuffer) -> list[tuple[int, int]]: ...
def decode_record(buffer: ReadableBuffer, at: int = 0, broker_name: str = "") -> MessageExt: ...
def decode_records(
    buffer: ReadableBuffer, broker_name: str = "", added: Mapping[str, str] | None = None
) -> list[MessageExt]: ...
