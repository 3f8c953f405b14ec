# cython: annotation_typing=False
"""Java's `String.hashCode`, by which tags and index keys are compared in the store.

    h = 31 * h + unit      over the UTF-16 code units, wrapping at 32 bits, signed

Consume queues hold the hash of each message's tag, index files the hash of each key, so
rocketq has to compute the very same numbers. Compiled where possible (hashing.pxd gives the
types).
"""

from rocketq.common import memory
from rocketq.common.memory import Buffer


def java_hash(text: str) -> int:
    """The hash code of a string.

    >>> java_hash("TagA")
    2598919
    """
    if text.isascii():
        return java_hash_bytes(text.encode("ascii"))
    return _unicode_hash(text, 0)


def java_hash_bytes(data: Buffer, seed: int = 0) -> int:
    """The hash code of UTF-8 text. A `seed` continues from the hash of what comes before.

    >>> java_hash_bytes(b"KEY1", java_hash("TopicTest#"))
    -1656969516
    """
    encoded = data if type(data) is bytes else bytes(data)
    return hash_at(memory.address(encoded), 0, len(encoded), seed)


def tags_code(tags: str | None) -> int:
    """What the consume queue holds for a message with this tag; 0 without one."""
    if not tags:
        return 0
    return java_hash(tags)


def hash_at(data: Buffer, at: int, size: int, seed: int) -> int:
    """The hash code of the UTF-8 text that lies here, going on from a `seed`."""
    code = memory.unsigned32(seed)
    for place in range(at, at + size):
        if data[place] >= 128:  # not one unit of UTF-16 a byte
            return _unicode_hash(memory.text_at(data, at, size), seed)
        code = memory.unsigned32(31 * code + data[place])
    return memory.signed32(code)


def _unicode_hash(text: str, seed: int) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    half = memory.address(units)
    code = memory.unsigned32(seed)
    for place in range(0, len(units), 2):
        code = memory.unsigned32(31 * code + (half[place] << 8 | half[place + 1]))
    return memory.signed32(code)
