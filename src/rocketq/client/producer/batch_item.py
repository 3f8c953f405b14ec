# cython: annotation_typing=False
"""One message of a batch body, as a producer adds it to the batch it is filling.

    size 4, magic 4, CRC 4, flag 4, body size 4, body, properties size 2, properties

Compiled where possible (batch_item.pxd gives the types).
"""

from rocketq.common import memory

_FIXED_SIZE = 22
_ID_NAME = b"UNIQ_KEY\x01"


def batch_item(flag: int, body: bytes, properties: bytes, new_id: str) -> bytearray:
    """An item with magic 0 and CRC 0; the broker makes the record.

    `new_id` is added to the properties as their unique key, unless it is empty. That the
    properties are not too long is for the caller to see to.
    """
    body_size = len(body)
    properties_size = len(properties)
    if new_id:
        properties_size += len(_ID_NAME) + len(new_id) + 1
    size = _FIXED_SIZE + body_size + properties_size
    item = memory.unfilled(size)
    out = memory.room(item)
    memory.put32(out, 0, size)
    memory.put32(out, 4, 0)
    memory.put32(out, 8, 0)
    memory.put32(out, 12, flag)
    memory.put32(out, 16, body_size)
    at = memory.put(out, 20, body)
    memory.put16(out, at, properties_size)
    at = memory.put(out, at + 2, properties)
    if new_id:
        at = memory.put(out, at, _ID_NAME)
        at = memory.put(out, at, new_id.encode())
        out[at] = 2
    return item
