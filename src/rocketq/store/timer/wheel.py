"""The timer wheel: for each tick of time, the chain of units in the timer log due in it.

1,209,600 slots of 32 bytes, big-endian, whatever the precision; twice a week of seconds:

    time    int64   of the slot, in units of the precision
    first   int64   its first unit in the timer log, -1 when there is none
    last    int64   its last one
    count   int32   how many, a hint
    magic   int32   unused

A slot that holds another time than the one asked for is empty. The wheel lives in memory that
is taken page by page as slots are used; pages that changed are written to the file.
"""

import mmap
import struct
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import Disk

_SLOT: Final = struct.Struct(">qqqii")
SLOT_SIZE: Final = _SLOT.size
SLOTS: Final = 2 * 604_800
WHEEL_SIZE: Final = SLOTS * SLOT_SIZE
assert WHEEL_SIZE == 38_707_200

_PAGE: Final = 4_096


class Slot(NamedTuple):
    """What is due in one tick."""

    first: int
    last: int
    waiting: int


class TimerWheel:
    """Changed by the one who places and delivers timers, on the event loop."""

    def __init__(self, path: Path, precision_ms: int, disk: Disk) -> None:
        self._path = path
        self._precision_ms = precision_ms
        self._disk = disk
        self._memory = mmap.mmap(-1, WHEEL_SIZE)
        self._dirty: set[int] = set()
        self._used: set[int] = set()  # pages that may hold slots

    def load(self) -> None:
        """Read the file, if there is one."""
        if not self._path.exists():
            return
        size = self._path.stat().st_size
        if size == 0:
            return
        if size != WHEEL_SIZE:
            raise StoreMismatch(
                f"{self._path} has {size} bytes; a timer wheel has {WHEEL_SIZE}: move it away "
                "to have it made again from the timer log"
            )
        descriptor = self._disk.open(self._path, writable=False)
        try:
            mapped = self._disk.map(descriptor, size, writable=False)
            for start, end in self._disk.data_ranges(descriptor, 0, size):
                self._memory[start:end] = mapped[start:end]
                self._used.update(range(start // _PAGE, (end + _PAGE - 1) // _PAGE))
        finally:
            self._disk.close(descriptor)

    def get(self, slot_ms: int) -> Slot | None:
        """What is due in the tick that begins then; None for nothing."""
        time, first, last, count, _ = _SLOT.unpack_from(self._memory, self._at(slot_ms))
        if time != slot_ms // self._precision_ms or last < 0:
            return None
        return Slot(first, last, count)

    def put(self, slot_ms: int, slot: Slot) -> None:
        at = self._at(slot_ms)
        _SLOT.pack_into(self._memory, at, slot_ms // self._precision_ms, *slot, 0)
        self._dirty.add(at // _PAGE)
        self._used.add(at // _PAGE)

    def clear(self, slot_ms: int) -> None:
        """Everything in it has been delivered."""
        self.put(slot_ms, Slot(-1, -1, 0))

    def waiting(self, slot_ms: int) -> int:
        slot = self.get(slot_ms)
        return slot.waiting if slot is not None else 0

    def beyond(self, end: int) -> dict[int, Slot]:
        """The slots that name units of the timer log from a position on, by their time."""
        found = {}
        for number in sorted(self._used):
            page = self._memory[number * _PAGE : (number + 1) * _PAGE]
            for time, first, last, count, _ in _SLOT.iter_unpack(page):
                if last >= end:
                    found[time * self._precision_ms] = Slot(first, last, count)
        return found

    def take_dirty(self) -> list[tuple[int, bytes]]:
        """Copies of the pages that changed since the last call, with their places."""
        pages = [
            (page * _PAGE, self._memory[page * _PAGE : (page + 1) * _PAGE])
            for page in sorted(self._dirty)
        ]
        self._dirty.clear()
        return pages

    def write(self, pages: list[tuple[int, bytes]]) -> None:
        """Bring pages to the disk. May run in another thread; raises `OSError`."""
        is_new = not self._path.exists() or self._path.stat().st_size == 0
        if is_new:
            self._disk.remove(self._path)
            self._disk.create(self._path, WHEEL_SIZE, reserve=False)
        descriptor = self._disk.open(self._path)
        try:
            for at, page in pages:
                self._disk.write(descriptor, page, at)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        if is_new:
            self._disk.sync_folder(self._path.parent)

    def dirty_again(self, pages: list[tuple[int, bytes]]) -> None:
        """What could not be written has to be written next time."""
        self._dirty.update(at // _PAGE for at, _ in pages)

    def _at(self, slot_ms: int) -> int:
        return slot_ms // self._precision_ms % SLOTS * SLOT_SIZE
