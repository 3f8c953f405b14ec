"""The replication wire of RocketMQ, without epochs: what a master and its slaves say.

The slave speaks first, and says nothing else ever:

    position   int64   where its log ends: where the master is to begin, and from then on how
                       much the slave has

The master answers with pieces of its log, one behind the other. A piece lies in one file of
the log and has nothing to do with where records begin and end:

    position   int64   where the piece begins in the log
    size       int32   its length; 0 is a sign of life
    bytes
"""

import struct
from typing import Final, NamedTuple

_REPORT: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qi")

REPORT_SIZE: Final = _REPORT.size
HEAD_SIZE: Final = _HEAD.size

encode_report = _REPORT.pack
encode_head = _HEAD.pack


class InvalidFrame(ValueError):
    """Bytes that no master sends."""


class Reports:
    """What a slave says, of which only the newest matters."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> int | None:
        """The newest position in what has come, None if none is complete."""
        if self._rest:
            data = self._rest + data
        whole = len(data) // REPORT_SIZE * REPORT_SIZE
        self._rest = data[whole:]
        if whole == 0:
            return None
        position: int = _REPORT.unpack_from(data, whole - REPORT_SIZE)[0]
        return position


class Piece(NamedTuple):
    """A part of the master's log, or an empty one: a sign of life."""

    position: int
    data: memoryview


class Pieces:
    """What a master says, handed out as it comes: also parts of a piece."""

    def __init__(self) -> None:
        self._head = b""  # of the next piece, as far as it has come
        self._position = 0
        self._missing = 0

    def take(self, data: memoryview) -> list[Piece]:
        """The pieces, and parts of pieces, in what has come."""
        pieces = []
        at, end = 0, len(data)
        while at < end:
            if self._missing == 0:
                if self._head or end - at < HEAD_SIZE:
                    needed = HEAD_SIZE - len(self._head)
                    self._head += data[at : at + needed]
                    at += needed
                    if len(self._head) < HEAD_SIZE:
                        break
                    self._position, self._missing = _HEAD.unpack(self._head)
                    self._head = b""
                else:
                    self._position, self._missing = _HEAD.unpack_from(data, at)
                    at += HEAD_SIZE
                if self._missing < 0:
                    raise InvalidFrame(f"a piece of {self._missing} bytes at {self._position}")
                if self._missing == 0:
                    pieces.append(Piece(self._position, data[:0]))
                    continue
            size = min(self._missing, end - at)
            if size:
                pieces.append(Piece(self._position, data[at : at + size]))
                at += size
                self._missing -= size
                self._position += size
        return pieces
