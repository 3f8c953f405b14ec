"""The replication wire of RocketMQ with epochs, for groups whose master a controller elects.

The slave speaks first:

    state      int32   1, HANDSHAKE
    from_last  int16   1: a log that has nothing begins with the file that is being written
    learner    int16   1: never to be counted as in sync
    broker_id  int64   the one that the controller gave it

The master answers with the reigns in its log (see `rocketq.store.replication.epochs`):

    state      int32   1
    size       int32   of the list, 12 bytes to an entry
    end        int64   where its log ends
    epoch      int32   the newest
    then       int32   epoch, int64 where it begins; as often as there are

From then on the slave says how far its log goes, and the master sends pieces of its own, each
from one reign and one file:

    state      int32   2, TRANSFER                  state      int32   2
    position   int64   where the log ends           size       int32   0 is a sign of life
                                                    position   int64
                                                    epoch      int32   in whose reign
                                                    start      int64   where that begins
                                                    confirmed  int64   all who are in sync have it
                                                    bytes
"""

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from rocketq.store.replication.epochs import Epoch
from rocketq.store.replication.frames import InvalidFrame

HANDSHAKE: Final = 1
TRANSFER: Final = 2

_SLAVE_HELLO: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_MASTER_HELLO: Final = struct.Struct(">iiqi")
_ENTRY: Final = struct.Struct(">iq")
_HEAD: Final = struct.Struct(">iiqiqq")
_STATE: Final = struct.Struct(">i")

HEAD_SIZE: Final = _HEAD.size
_MOST_EPOCHS: Final = 1_000


def encode_slave_hello(broker_id: int, *, from_last: bool, is_learner: bool) -> bytes:
    return _SLAVE_HELLO.pack(HANDSHAKE, from_last, is_learner, broker_id)


def encode_report(position: int) -> bytes:
    return _REPORT.pack(TRANSFER, position)


def encode_master_hello(end: int, epochs: Sequence[Epoch]) -> bytes:
    newest = epochs[-1].number if epochs else 0
    head = _MASTER_HELLO.pack(HANDSHAKE, len(epochs) * _ENTRY.size, end, newest)
    return head + b"".join(_ENTRY.pack(*entry) for entry in epochs)


def encode_head(size: int, position: int, epoch: Epoch, confirmed: int) -> bytes:
    return _HEAD.pack(TRANSFER, size, position, epoch.number, epoch.start, confirmed)


class SlaveHello(NamedTuple):
    """What a slave says first."""

    from_last: bool
    is_learner: bool
    broker_id: int


class MasterHello(NamedTuple):
    """What the master answers."""

    end: int
    epochs: tuple[Epoch, ...]


class SlaveWords:
    """What a slave says: its hello, then reports, of which only the newest matters."""

    def __init__(self) -> None:
        self._rest = b""
        self.hello: SlaveHello | None = None

    def take(self, data: bytes) -> int | None:
        """The newest position in what has come, None if none is complete."""
        data = self._rest + data
        at = 0
        position: int | None = None
        while len(data) - at >= _STATE.size:
            (state,) = _STATE.unpack_from(data, at)
            form = _SLAVE_HELLO if state == HANDSHAKE else _REPORT
            if state not in (HANDSHAKE, TRANSFER) or (state == TRANSFER and self.hello is None):
                raise InvalidFrame(f"it speaks of state {state}")
            if len(data) - at < form.size:
                break
            if state == HANDSHAKE:
                if self.hello is not None:
                    raise InvalidFrame("it says hello twice")
                _, from_last, is_learner, broker_id = form.unpack_from(data, at)
                self.hello = SlaveHello(from_last == 1, is_learner == 1, broker_id)
            else:
                _, position = form.unpack_from(data, at)
            at += form.size
        self._rest = data[at:]
        return position


class EpochPiece(NamedTuple):
    """A part of the master's log, or an empty one: a sign of life."""

    position: int
    data: memoryview
    epoch: Epoch
    confirmed: int


class MasterWords:
    """What a master says: its hello, then pieces, handed out as they come."""

    def __init__(self) -> None:
        self._head = b""  # of the next piece, or all of the hello, as far as it has come
        self._has_hello = False
        self._position = 0
        self._missing = 0
        self._epoch = Epoch(0, 0)
        self._confirmed = 0

    def take(self, data: memoryview) -> Iterator[MasterHello | EpochPiece]:
        while data:
            if not self._has_hello:
                data = yield from self._hello(data)
                continue
            if self._missing == 0:
                needed = HEAD_SIZE - len(self._head)
                self._head += data[:needed]
                data = data[needed:]
                if len(self._head) < HEAD_SIZE:
                    return
                state, self._missing, self._position, number, start, self._confirmed = _HEAD.unpack(
                    self._head
                )
                self._head = b""
                self._epoch = Epoch(number, start)
                if state != TRANSFER or self._missing < 0:
                    raise InvalidFrame(
                        f"state {state}, a piece of {self._missing} bytes at {self._position}"
                    )
                if self._missing == 0:
                    yield EpochPiece(self._position, data[:0], self._epoch, self._confirmed)
                    continue
            part = data[: self._missing]
            data = data[len(part) :]
            self._missing -= len(part)
            position, self._position = self._position, self._position + len(part)
            if part:
                yield EpochPiece(position, part, self._epoch, self._confirmed)

    def _hello(self, data: memoryview) -> Generator[MasterHello, None, memoryview]:
        needed = _MASTER_HELLO.size
        if len(self._head) >= needed:
            _, size, _, _ = _MASTER_HELLO.unpack_from(self._head)
            needed += size
        part = data[: needed - len(self._head)]
        self._head += part
        rest = data[len(part) :]
        if len(self._head) < _MASTER_HELLO.size:
            return rest
        state, size, end, _ = _MASTER_HELLO.unpack_from(self._head)
        if state != HANDSHAKE or size % _ENTRY.size or not 0 <= size <= _MOST_EPOCHS * _ENTRY.size:
            raise InvalidFrame(f"state {state}, a list of {size} bytes")
        if len(self._head) == _MASTER_HELLO.size + size:
            entries = _ENTRY.iter_unpack(self._head[_MASTER_HELLO.size :])
            self._head = b""
            self._has_hello = True
            yield MasterHello(end, tuple(Epoch(*entry) for entry in entries))
        return rest
