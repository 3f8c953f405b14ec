from collections.abc import Iterable
from typing import Final, TypeAlias

from rocketq.common.errors import RocketqError
from rocketq.message.message import Message, MessageExt

Buffer: TypeAlias = bytes | bytearray | memoryview

ITEM_FIXED_SIZE: Final = 22

class InvalidBatch(RocketqError): ...

def encode_batch(messages: Iterable[Message]) -> bytes: ...
def split_batch(body: Buffer) -> list[tuple[int, memoryview, memoryview]]: ...
def unwrap_inner_batch(message: MessageExt) -> list[MessageExt]: ...
