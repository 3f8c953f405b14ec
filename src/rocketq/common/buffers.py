# cython: annotation_typing=False
"""Bytes in whatever form they lie in memory, for modules that are not compiled."""

from rocketq.common import memory
from rocketq.common.memory import Buffer, WritableBuffer

__all__ = ["Buffer", "WritableBuffer", "unfilled"]


def unfilled(size: int) -> bytearray:
    """A buffer of which every byte is going to be written: until then it may hold anything."""
    return memory.unfilled(size)
