# cython: annotation_typing=False
"""One message of a batch body, as a producer adds it to the batch it is filling.

The layout is in `rocketq.message.record.layout`.

Compiled where possible (batch_item.pxd gives the types).
"""

from typing import Final

from rocketq.common import memory
from rocketq.message.record import layout

_ID_NAME: Final = b"UNIQ_KEY\x01"


def batch_item(flag: int, body: bytes, properties: bytes, new_id: str) -> bytearray:
    """An item with magic 0 and CRC 0; the broker makes the record.

    `new_id` is added to the properties as their unique key, unless it is empty. That the
    properties are not too long is for the caller to see to.
    """
    body_size = len(body)
    properties_size = len(properties)
    if new_id:
        properties_size += len(_ID_NAME) + len(new_id) + 1
    size = layout.ITEM_FIXED_SIZE + body_size + properties_size
    item = memory.unfilled(size)
    out = memory.room(item)
    memory.put32(out, 0, size)
    memory.put32(out, 4, 0)
    memory.put32(out, 8, 0)
    memory.put32(out, layout.ITEM_FLAG_AT, flag)
    memory.put32(out, layout.ITEM_BODY_SIZE_AT, body_size)
    at = memory.put(out, layout.ITEM_BODY_AT, body)
    memory.put16(out, at, properties_size)
    at = memory.put(out, at + 2, properties)
    if new_id:
        at = memory.put(out, at, _ID_NAME)
        at = memory.put(out, at, new_id.encode())
        out[at] = 2
    return item
