"""The entries of encoded properties: the one place that knows what an entry is.

    name 0x01 value 0x02   repeated

An entry ends with 0x02 or with the text, its name with its first 0x01. Without a name or
without a value it does not exist. Of entries with the same name the last one counts.

    while at < end:
        stop = entries.entry_end(data, at, end)
        if entries.is_named(data, at, stop, b"TAGS", 4):
            ...                                          its value is data[at + 5 : stop]
        at = stop + 1

As in `rocketq.common.memory`, these functions stand here for Python and in entries.pxd for compiled
modules, where `data` is an address. Everything that reads properties is made of them: the SDK,
the store's dispatch, the broker's short way, Spark's columns.
"""

from typing import NamedTuple

from rocketq.common import memory
from rocketq.common.memory import Buffer


class Span(NamedTuple):
    """Where a value lies; at -1 when there is none."""

    at: int
    size: int


def entry_end(data: Buffer, at: int, end: int) -> int:
    """Where the entry that starts here stops: at its 0x02, or at the end."""
    return memory.find(data, at, end, 2)


def name_end(data: Buffer, at: int, stop: int) -> int:
    """Where the name of an entry ends and its value follows, or -1 if it is not an entry."""
    found = memory.find(data, at, stop, 1)
    return found if at < found and found + 1 < stop else -1


def is_named(data: Buffer, at: int, stop: int, name: Buffer, size: int) -> bool:
    """Whether this is an entry with that name, of `size` bytes, one at least."""
    return stop - at > size + 1 and data[at + size] == 1 and memory.same(data, at, name, size)


def find_value(data: Buffer, at: int, end: int, name: Buffer, size: int) -> Span:
    """Where the value of a property lies: of its last entry."""
    found = Span(-1, 0)
    while at < end:
        stop = entry_end(data, at, end)
        if is_named(data, at, stop, name, size):
            found = Span(at + size + 1, stop - at - size - 1)
        at = stop + 1
    return found
