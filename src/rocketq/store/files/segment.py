"""One file of a row of equal files: a piece of the log or of a queue, as memory.

A file is named by the position of its first byte, 20 decimal digits, and has its full size
from the beginning. It is mapped when it is first looked at and unmapped when nobody has
looked at it for a while; what readers hold of it stays valid, since every slice holds on to
the mapping.
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rocketq.store.files.disk import Disk


class Holder(Protocol):
    """Something that works on a segment's memory directly, and can be asked to let go."""

    used: bool

    def detach(self) -> None: ...


class _Descriptor:
    """An open file, closed when the last one who uses it lets go of it.

    The event loop may let go of a file while a thread waits for the disk on it. If the number
    were closed then, the wait would fail, or be for whatever file is given the number next.
    """

    __slots__ = ("_disk", "number")

    def __init__(self, path: Path, disk: Disk) -> None:
        self._disk = disk
        self.number = -1
        self.number = disk.open(path)

    def __del__(self) -> None:
        if self.number >= 0:
            self._disk.close(self.number)


class Segment:
    """Owned by one row of segments; touched on the event loop alone, but for `sync`."""

    __slots__ = (
        "_descriptor",
        "_disk",
        "_mapping",
        "_view",
        "holder",
        "new_folder",
        "path",
        "size",
        "start",
        "used",
    )

    def __init__(self, path: Path, start: int, size: int, disk: Disk) -> None:
        self.path = path
        self.start = start
        self.size = size
        self.used = True
        self.holder: Holder | None = None
        self.new_folder: Path | None = None
        """Where its name was made and may not be on the disk; `sync` sees to it."""
        self._disk = disk
        self._descriptor: _Descriptor | None = None
        self._mapping: mmap.mmap | None = None
        self._view: memoryview | None = None

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def is_mapped(self) -> bool:
        return self._mapping is not None

    @property
    def mapping(self) -> mmap.mmap:
        """The whole file as memory."""
        self.used = True
        if self._mapping is None:
            with self._descriptor_for_now() as descriptor:
                self._mapping = self._disk.map(descriptor, self.size)
        return self._mapping

    @property
    def view(self) -> memoryview:
        """The whole file, to be sliced for readers."""
        self.used = True
        if self._view is None:
            self._view = memoryview(self.mapping).toreadonly()
        return self._view

    def slice(self, offset: int, size: int) -> memoryview:
        """Bytes from a position of the row on; they must lie in this file."""
        at = offset - self.start
        assert 0 <= at <= self.size - size, (offset, size, self.start)
        return self.view[at : at + size]

    def hold_open(self) -> None:
        """Keep a descriptor from now on.

        The kernel reports a failed write to the descriptors that were open at the time; a
        file that is waited for with `sync` keeps one so that no failure is missed.
        """
        if self._descriptor is None:
            self._descriptor = _Descriptor(self.path, self._disk)

    def release_descriptor(self) -> None:
        """Keep it no longer: everything is on the disk."""
        self._descriptor = None

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write through the descriptor, at a position of the row."""
        with self._descriptor_for_now() as descriptor:
            self._disk.write(descriptor, data, offset - self.start)

    def write_all(self, pieces: Sequence[memoryview], offset: int) -> None:
        """Write pieces one behind the other through the descriptor, at a position of the row."""
        held = self._descriptor or _Descriptor(self.path, self._disk)
        self._disk.write_all(held.number, pieces, offset - self.start)

    def write_zeros(self, offset: int, size: int) -> None:
        """Make a range safe to write through the mapping, see `rocketq.store.files.disk`."""
        with self._descriptor_for_now() as descriptor:
            self._disk.write_zeros(descriptor, offset - self.start, size)

    def reserve(self, offset: int, size: int) -> None:
        """Make a range safe to write through the mapping, and keep what is in it."""
        with self._descriptor_for_now() as descriptor:
            self._disk.reserve(descriptor, offset - self.start, size)

    def clear_from(self, offset: int) -> None:
        """Leave nothing but zeros from a position on."""
        with self._descriptor_for_now() as descriptor:
            self._disk.clear(descriptor, offset - self.start, self.end - offset)

    def data_ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts of a range that were ever written; the others are known to be zeros."""
        with self._descriptor_for_now() as descriptor:
            ranges = self._disk.data_ranges(descriptor, start - self.start, stop - self.start)
            return [(self.start + data, self.start + end) for data, end in ranges]

    def is_resident(self, offset: int, size: int) -> bool:
        """Whether reading a range will not have to wait for the disk."""
        return self._disk.is_resident(self.mapping, offset - self.start, size)

    def load(self, offset: int, size: int) -> None:
        """Wait until a range is in memory. May run in another thread."""
        try:
            descriptor = self._disk.open(self.path, writable=False)
        except FileNotFoundError:
            return  # deleted meanwhile
        try:
            self._disk.load(descriptor, offset - self.start, size)
        finally:
            self._disk.close(descriptor)

    @contextmanager
    def _descriptor_for_now(self) -> Iterator[int]:
        held = self._descriptor or _Descriptor(self.path, self._disk)
        yield held.number

    def sync(self) -> None:
        """Wait for the disk. May run in another thread."""
        try:
            held = self._descriptor or _Descriptor(self.path, self._disk)
        except FileNotFoundError:
            return  # deleted meanwhile: nothing left to make durable
        self._disk.sync(held.number)
        if self.new_folder is not None:
            # A file whose name is lost is lost. The folder itself may be as new.
            self._disk.sync_folder(self.new_folder)
            self._disk.sync_folder(self.new_folder.parent)
            self.new_folder = None

    def unmap(self) -> None:
        """Let go of the memory; slices that readers hold keep it until they are dropped."""
        if self.holder is not None:
            self.holder.detach()
            self.holder = None
        self._view = None
        self._mapping = None

    def close(self) -> None:
        self.unmap()
        self.release_descriptor()

    def remove(self) -> None:
        """Delete the file; readers keep what they hold."""
        self.close()
        self._disk.remove(self.path)

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size})"
