"""A disk that forgets what was not synced.

Files are real ones, in memory, so that the store can map them. Beside them is kept what a loss
of power cannot take away: the content of each file when it was last synced, and the names of
each directory when that was. After a crash of the program alone everything written is there.
After a loss of power each sector that was written since has its old or its new content, or
begins with the new one and goes on with the old, as chance decides. Names are there or not.

Files are mostly holes (the timer wheel has 38 MB), so what is kept of one are its pages that
hold anything.
"""

import asyncio
import errno
import mmap
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from rocketq.store.files.disk import Disk, DiskUsage
from rocketq.store.files.disk_thread import DiskThread

P = ParamSpec("P")
T = TypeVar("T")

_SECTOR: Final = 512
_PAGE: Final = 4096
_HOLE: Final = bytes(_PAGE)


class _Content(NamedTuple):
    """A file: its size, and those of its pages that are not empty."""

    size: int
    pages: dict[int, bytes]


_EMPTY: Final = _Content(0, {})


class SimulatedDisk(Disk):
    """The disk of one host."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.is_full = False
        self.fails_sync = False
        self.slow_s = 0.0
        """What each wait for the disk takes more than usual."""
        self.counts: Counter[str] = Counter()
        """How often what happened."""
        self._chance = chance
        self._boot = chance.randbytes(16)
        self._opened: dict[int, Path] = {}
        self._synced: dict[Path, _Content] = {}
        self._unsynced_names: set[Path] = set()
        self._removed: dict[Path, _Content] = {}
        root.mkdir(parents=True, exist_ok=True)

    # As a disk

    def create(self, path: Path, size: int, *, reserve: bool) -> None:
        self._need_room()
        super().create(path, size, reserve=False)
        self._synced[path] = _EMPTY
        self._unsynced_names.add(path)

    def open(self, path: Path, *, writable: bool = True) -> int:
        descriptor = super().open(path, writable=writable)
        self._opened[descriptor] = path
        if path not in self._synced:
            self._synced[path] = _content(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._opened.pop(descriptor, None)
        super().close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        self._need_room()
        super().write(descriptor, data, offset)

    def write_all(self, descriptor: int, pieces: Sequence[memoryview], offset: int) -> None:
        self._need_room()
        super().write_all(descriptor, pieces, offset)

    def reserve(self, descriptor: int, offset: int, size: int) -> None:
        self._need_room()

    def is_resident(self, mapping: mmap.mmap, offset: int, size: int) -> bool:
        return True

    def sync(self, descriptor: int) -> None:
        self._need_sync()
        path = self._opened[descriptor]
        self._synced[path] = _content(descriptor)

    def sync_folder(self, folder: Path) -> None:
        self._unsynced_names = {path for path in self._unsynced_names if path.parent != folder}
        self._removed = {
            path: content for path, content in self._removed.items() if path.parent != folder
        }

    def sync_file_system(self, folder: Path) -> None:
        self._need_sync()
        for path in self._synced:
            if path.exists():
                self._synced[path] = _read(path)
        self._unsynced_names.clear()
        self._removed.clear()

    def remove(self, path: Path) -> None:
        if path in self._synced and path.exists():
            self._removed[path] = self._synced.pop(path)
        self._unsynced_names.discard(path)
        super().remove(path)

    def usage(self, path: Path) -> DiskUsage:
        used = 99 if self.is_full else 10
        return DiskUsage(100 << 30, used << 30, (100 - used) << 30)

    def boot_id(self) -> bytes:
        return self._boot

    def thread(self, name: str) -> DiskThread:
        return _LoopThread(self, self._chance)

    def executor(self, name: str) -> Executor:
        return _AtOnce()

    def _need_sync(self) -> None:
        if self.fails_sync:
            self.counts["failed syncs"] += 1
            raise OSError(errno.EIO, "the simulated disk does not answer")

    def _need_room(self) -> None:
        if self.is_full:
            self.counts["writes without room"] += 1
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    def flip_bit(self, path: Path, at: int) -> None:
        """Damage a file where it lies."""
        self.counts["flipped bits"] += 1
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1 << self._chance.randrange(8)]))

    # Crashes

    def after_crash(self, *, power: bool) -> None:
        """Leave the directory as the next start finds it.

        The dead program still has the old files mapped, so they are replaced by copies.
        """
        old = self.root.with_name(self.root.name + ".old")
        self.root.rename(old)
        for path in sorted(old.rglob("*")):
            goal = self.root / path.relative_to(old)
            if path.is_dir():
                goal.mkdir(parents=True, exist_ok=True)
            elif power and goal in self._unsynced_names and self._chance.random() < 0.5:
                self.counts["lost names"] += 1
            else:
                goal.parent.mkdir(parents=True, exist_ok=True)
                content = _read(path)
                if power and goal in self._synced:
                    content = self._survivors(content, self._synced[goal])
                _write(goal, content)
        if power:
            self._boot = self._chance.randbytes(16)
            for path, content in self._removed.items():
                if self._chance.random() < 0.5 and not path.exists():
                    self.counts["removed files that are back"] += 1
                    path.parent.mkdir(parents=True, exist_ok=True)
                    _write(path, content)
        shutil.rmtree(old)
        self._opened.clear()
        self._unsynced_names.clear()
        self._removed.clear()
        self._synced.clear()
        self.is_full = self.fails_sync = False

    def _survivors(self, written: _Content, synced: _Content) -> _Content:
        """Each sector as it was synced, or as it was written after that."""
        pages = dict(written.pages)
        luck = self._chance.choice((0.0, 0.5, 0.95))
        for number in sorted(written.pages.keys() | synced.pages.keys()):
            new, old = written.pages.get(number, _HOLE), synced.pages.get(number, _HOLE)
            if new == old:
                continue
            result = bytearray(new)
            for at in range(0, _PAGE, _SECTOR):
                end = at + _SECTOR
                if new[at:end] == old[at:end] or self._chance.random() < luck:
                    continue
                if self._chance.random() < 0.1:
                    self.counts["torn sectors"] += 1
                    at += self._chance.randrange(8, _SECTOR, 8)
                self.counts["lost sectors"] += 1
                result[at:end] = old[at:end]
            pages[number] = bytes(result)
        return _Content(written.size, pages)


def _content(descriptor: int) -> _Content:
    """What a file holds, its holes left out."""
    size = os.fstat(descriptor).st_size
    pages = {}
    start = 0
    while start < size:
        try:
            start = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError:
            break  # nothing but a hole is left
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        start -= start % _PAGE
        data = os.pread(descriptor, end - start, start)
        for at in range(0, len(data), _PAGE):
            page = data[at : at + _PAGE].ljust(_PAGE, b"\0")
            if page != _HOLE:
                pages[(start + at) // _PAGE] = page
        start = end
    return _Content(size, pages)


def _read(path: Path) -> _Content:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _content(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, content: _Content) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(descriptor, content.size)
        for number, page in content.pages.items():
            at = number * _PAGE
            os.pwrite(descriptor, page[: content.size - at], at)
    finally:
        os.close(descriptor)


class _LoopThread(DiskThread):
    """Waits for the disk in the loop's own time."""

    def __init__(self, disk: SimulatedDisk, chance: random.Random) -> None:
        self._disk = disk
        self._chance = chance

    def run(self, work: Callable[[T], None], what: T) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        delay = self._chance.expovariate(1_000) + self._disk.slow_s
        if self._disk.slow_s:
            self._disk.counts["slow waits"] += 1
        loop.call_later(delay, self._do, work, what, future)
        return future

    def _do(self, work: Callable[[T], None], what: T, future: asyncio.Future[None]) -> None:
        try:
            work(what)
        except BaseException as error:
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(None)

    async def stop(self) -> None:
        pass


class _AtOnce(Executor):
    """Does what it is given while it is given it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass
