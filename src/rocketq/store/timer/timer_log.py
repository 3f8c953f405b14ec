"""The timer log: one unit for each waiting message, chained by the slot it is due in.

Units of 52 bytes, big-endian, in files of `mappedFileSizeTimerLog` bytes:

    size        int32   52
    previous    int64   the unit before it in the same slot, -1 for the first
    magic       int32   1, and 2 for a message to be placed again, 4 for a delete marker
    write time  int64   when it was placed, a multiple of the precision
    delay       int32   from there to the time of its slot, ms
    position    int64   where the message lies in the commit log
    size        int32   its length there
    topic hash  int32   Java's hash of the real topic
    reserved    int64   0

A file ends with `int32 what remains, int64 0, int32 blank magic` where no unit and end fit
any more. Derived data: what a crash takes is written again from the timer topic's queue.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.store.files.disk import Disk
from rocketq.store.files.segments import Segments

_UNIT: Final = struct.Struct(">iqiqiqiiq")
_BLANK: Final = struct.Struct(">iqI")
_BLANK_MAGIC: Final = 0xCBD43194

UNIT_SIZE: Final = _UNIT.size
assert UNIT_SIZE == 52
assert _BLANK.size == 16


class TimerMagic:
    """What a unit stands for: bits. Plain numbers, because each timer is asked for them."""

    DEFAULT: Final = 1
    ROLL: Final = 2
    DELETE: Final = 4


_KNOWN_MAGIC: Final = 0xF
_WHOLE: Final = TimerMagic.ROLL | TimerMagic.DELETE


class TimerUnit(NamedTuple):
    """One waiting message."""

    previous: int
    magic: int
    write_time_ms: int
    delay_ms: int
    position: int
    size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        return self.write_time_ms + self.delay_ms

    @property
    def is_rolled(self) -> bool:
        return self.magic & TimerMagic.ROLL != 0

    @property
    def is_delete_marker(self) -> bool:
        """A rolled marker is only placed again; it deletes when it comes to rest."""
        return self.magic & _WHOLE == TimerMagic.DELETE


def _unit(row: tuple[int, ...], position: int) -> TimerUnit | None:
    """What was read at a position; None if it is no valid unit."""
    size, previous, magic, write_time_ms, delay_ms, at, length, topic_hash, _ = row
    if (
        size != UNIT_SIZE
        or not magic & TimerMagic.DEFAULT
        or magic & ~_KNOWN_MAGIC
        or not -1 <= previous < position
    ):
        return None
    return TimerUnit(previous, magic, write_time_ms, delay_ms, at, length, topic_hash)


class TimerLog:
    """Written by the one who places timers; read by the one who delivers them."""

    def __init__(self, folder: Path, file_size: int, disk: Disk) -> None:
        assert file_size >= UNIT_SIZE + _BLANK.size, file_size
        self._segments = Segments([folder], file_size, disk, reserve=False)
        self._end = 0
        self._pending = bytearray()
        self._pending_start = 0

    # Life

    def load(self) -> None:
        """Look at the files; the end is where `truncate` says."""
        self._segments.load()
        last = self._segments.last
        self._end = self._pending_start = last.end if last is not None else 0

    def truncate(self, end: int) -> None:
        """Forget everything from a position on."""
        while (last := self._segments.last) is not None and last.start >= end > 0:
            self._segments.remove_last()
        last = self._segments.last
        if last is not None and end < last.end:
            last.clear_from(max(end, last.start))
        self._end = self._pending_start = end
        self._pending.clear()

    def close(self) -> None:
        self._segments.close()

    # Writing

    @property
    def start(self) -> int:
        first = self._segments.first
        return first.start if first is not None else self._end

    @property
    def end(self) -> int:
        """Where the next unit goes, unless the file ends before."""
        return self._end

    def add(self, unit: TimerUnit) -> int:
        """Put a unit behind the others; `write` brings it to the file. Returns its position."""
        room = self._segments.file_size - self._end % self._segments.file_size
        if room < UNIT_SIZE + _BLANK.size:
            self._pending += _BLANK.pack(room, 0, _BLANK_MAGIC).ljust(room, b"\0")
            self._end += room
        position = self._end
        self._pending += _UNIT.pack(UNIT_SIZE, *unit, 0)
        self._end += UNIT_SIZE
        return position

    def write(self) -> None:
        """Bring what was added to the files. Raises `OSError`; then `forget_added`."""
        at = self._pending_start
        view = memoryview(bytes(self._pending))
        while view:
            segment = self._segments.find(at)
            if segment is None:
                segment = self._segments.create(at - at % self._segments.file_size)
                segment.new_folder = segment.path.parent
                segment.hold_open()
            piece = view[: segment.end - at]
            segment.write(piece, at)
            at += len(piece)
            view = view[len(piece) :]
        self._pending.clear()
        self._pending_start = self._end

    def forget_added(self) -> None:
        """Take back what `write` could not write."""
        self._end = self._pending_start
        self._pending.clear()

    def sync(self, since: int) -> None:
        """Wait for the disk. May run in another thread."""
        for segment in list(self._segments):
            if segment.end > since:
                segment.sync()

    # Reading

    def read(self, position: int) -> TimerUnit | None:
        """The unit at a position; None where there is no valid one."""
        segment = self._segments.find(position)
        if segment is None or position + UNIT_SIZE > min(segment.end, self._pending_start):
            return None
        return _unit(_UNIT.unpack(segment.slice(position, UNIT_SIZE)), position)

    def chained_before(self, position: int, most: int) -> list[TimerUnit]:
        """The unit at a position and those before it that it leads to one by one: units of one
        slot that were placed together lie together. The last comes first; none if there is no
        valid unit."""
        segment = self._segments.find(position)
        if segment is None or position + UNIT_SIZE > min(segment.end, self._pending_start):
            return []
        count = min((position - segment.start) // UNIT_SIZE + 1, most)
        start = position - (count - 1) * UNIT_SIZE
        rows = list(_UNIT.iter_unpack(segment.slice(start, count * UNIT_SIZE)))
        found: list[TimerUnit] = []
        at = position
        for row in reversed(rows):
            unit = _unit(row, at)
            if unit is None:
                break
            found.append(unit)
            at -= UNIT_SIZE
            if unit.previous != at:
                break
        return found

    def units(self, start: int) -> Iterator[tuple[int, TimerUnit]]:
        """All units from the beginning of a file on, with their positions, up to the first
        place without one."""
        file_size = self._segments.file_size
        at = start
        while True:
            if file_size - at % file_size < UNIT_SIZE + _BLANK.size:
                at += file_size - at % file_size
            unit = self.read(at)
            if unit is None:
                return
            yield at, unit
            at += UNIT_SIZE

    def file_start(self, position: int) -> int:
        """Where the file of a position begins."""
        return position - position % self._segments.file_size

    @property
    def file_size(self) -> int:
        return self._segments.file_size

    # Keeping

    def remove_before(self, min_position: int) -> int:
        """Delete files all of whose messages are gone from the commit log; returns how many."""
        removed = 0
        while len(self._segments) > 1:
            first = self._segments[0]
            capacity = (self._segments.file_size - _BLANK.size) // UNIT_SIZE
            last_unit = self.read(first.start + (capacity - 1) * UNIT_SIZE)
            if last_unit is None or last_unit.position >= min_position:
                break
            self._segments.remove_first()
            removed += 1
        return removed
