from collections.abc import Iterable
from typing import Final, TypeAlias

from rocketq.common.errors import RocketqError
from rocketq.message.message import Message, MessageExt

Buffer: TypeAlias = bytes | bytearray | memoryview

ITEM_FIXED_SIZE: Final = 22

class InvalidBatch(RocketqError): ...

def encode_batch(messages: Iterable[Message]) -> bytes: ...

class BatchItem:
    flag: int
    body_at: int
    body_size: int
    properties: bytes
    record_size: int

def batch_items(body: Buffer) -> list[BatchItem]: ...
def split_batch(body: Buffer) -> list[tuple[int, memoryview, bytes]]: ...
def unwrap_inner_batch(message: MessageExt) -> list[MessageExt]: ...
