"""Where half messages are, packed: what a broker needs to be told to end them."""

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]
"""For each half message: row of the task, queue, place in the log, place among the halves."""


class HalfPlace(NamedTuple):
    """A half message to be ended."""

    key: str
    queue_id: int
    log_offset: int
    half_offset: int
    is_ordered: bool


def pack(places: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Differences column by column, which are small and alike."""
    return pack_table(np.array(list(places), np.int64).reshape(-1, 4))


def pack_table(table: Table) -> bytes:
    steps = np.diff(table, axis=0, prepend=np.zeros((1, 4), np.int64))
    return zlib.compress(np.ascontiguousarray(steps.T).tobytes(), 1)


def unpack_table(packed: bytes) -> Table:
    steps = np.frombuffer(zlib.decompress(packed), np.int64).reshape(4, -1).T
    table: Table = np.cumsum(steps, axis=0)
    return table


def places_of(packed: bytes, prefix: str, *, is_ordered: bool = False) -> Iterator[HalfPlace]:
    """One by one; the unique keys are those that the encoder of rows makes."""
    for row, queue_id, log_offset, half_offset in unpack_table(packed).tolist():
        yield HalfPlace(f"{prefix}{row:08X}", queue_id, log_offset, half_offset, is_ordered)
