# cython: annotation_typing=False
"""The walk over encoded properties (`rocketq.message.properties.codec`): one of them, or all.

Compiled where possible (walk.pxd gives the types).
"""

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.message.properties import entries


def get_property(encoded: Buffer, name: bytes, start: int = 0) -> bytes | None:
    """One value out of encoded properties that begin at `start`, or None."""
    raw = encoded if type(encoded) is bytes else bytes(encoded)
    if start < 0:
        raise IndexError(start)
    if not name:
        return None
    data = memory.address(raw)
    found = entries.find_value(data, start, len(raw), memory.address(name), len(name))
    if found.at < 0:
        return None
    return memory.bytes_at(data, found.at, found.size)


def decode_properties(encoded: Buffer) -> dict[str, str]:
    """The map; what cannot be read as an entry is skipped, as RocketMQ does."""
    raw = encoded if type(encoded) is bytes else bytes(encoded)
    data = memory.address(raw)
    properties: dict[str, str] = {}
    at = 0
    end = len(raw)
    while at < end:
        stop = entries.entry_end(data, at, end)
        name_end = entries.name_end(data, at, stop)
        if name_end >= 0:
            name = memory.text_at(data, at, name_end - at)
            properties[name] = memory.text_at(data, name_end + 1, stop - name_end - 1)
        at = stop + 1
    return properties
