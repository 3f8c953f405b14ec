"""The file layer: every touch of the disk that can fail goes through here.

Writing to a mapped file has no return value. When the disk is full, or a block cannot be
written, the process is killed by SIGBUS instead. So mapped memory is written only where the
file has been written before through its descriptor, by `write_zeros`: there a full disk is an
`OSError`, which the caller can turn into a refusal. Zeros written in pieces of some hundred
kilobytes are also the cheapest way to get pages into memory; taking a page fault for each
4 KiB costs five times as much.

Tests hand in a disk of their own that fails on purpose.
"""

import ctypes
import errno
import mmap
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.store.files.disk_thread import DiskThread

PAGE_SIZE: Final = 4_096

_ZEROS: Final = bytes(1 << 20)
_PIECES_AT_ONCE: Final = 512
"""The system takes up to 1024 in one call."""

# Conditions that pass by themselves: space, quota, descriptors or memory come back.
_PASSING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
)


def is_passing(error: OSError) -> bool:
    """Whether waiting may help; any other error means that the disk cannot be trusted."""
    return error.errno in _PASSING


class DiskUsage(NamedTuple):
    """Bytes of a partition."""

    total: int
    used: int
    usable: int

    @property
    def ratio(self) -> float:
        """The used part, as RocketMQ rounds it: up to whole percents."""
        if self.used + self.usable == 0:
            return -1.0
        return -(-self.used * 100 // (self.used + self.usable)) / 100


class Disk:
    """The computer's own files. Every method may raise `OSError`."""

    def create(self, path: Path, size: int, *, reserve: bool) -> None:
        """Make a file of full size that reads as zeros.

        With `reserve` its blocks are set aside now, so that a full disk shows here and not
        in the middle of the file. File systems that cannot do this get a sparse file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if not (reserve and _fallocate_range(descriptor, 0, 0, size)):
                os.ftruncate(descriptor, size)
        except BaseException:
            os.close(descriptor)
            os.unlink(path)
            raise
        os.close(descriptor)

    def open(self, path: Path, *, writable: bool = True) -> int:
        """A descriptor; the caller closes it."""
        return os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def map(self, descriptor: int, size: int, *, writable: bool = True) -> mmap.mmap:
        """The file as memory. It stays mapped for as long as anything refers to it."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return mmap.mmap(descriptor, size, access=access)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        """Write all of the data through the descriptor."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view = view[written:]
            offset += written

    def write_all(self, descriptor: int, pieces: Sequence[memoryview], offset: int) -> None:
        """Write pieces one behind the other through the descriptor."""
        for first in range(0, len(pieces), _PIECES_AT_ONCE):
            together = pieces[first : first + _PIECES_AT_ONCE]
            size = sum(map(len, together))
            written = os.pwritev(descriptor, together, offset)
            if written < size:
                self.write(descriptor, b"".join(together)[written:], offset + written)
            offset += size

    def write_zeros(self, descriptor: int, offset: int, size: int) -> None:
        """Make a range of the file safe, and cheap, to write through its mapping."""
        while size > 0:
            piece = min(size, len(_ZEROS))
            self.write(descriptor, memoryview(_ZEROS)[:piece], offset)
            offset += piece
            size -= piece

    def reserve(self, descriptor: int, offset: int, size: int) -> None:
        """Set blocks aside for a range whose content stays as it is.

        Afterwards the range is safe to write through a mapping, whatever was there before.
        """
        if not _fallocate_range(descriptor, 0, offset, size):
            for data, end in _data_ranges(descriptor, offset, offset + size, holes=True):
                self.write_zeros(descriptor, data, end - data)

    def clear(self, descriptor: int, offset: int, size: int) -> None:
        """Make a range read as zeros, at a cost that does not depend on its size if possible."""
        try:
            is_clear = _fallocate_range(descriptor, _ZERO_RANGE, offset, size)
        except OSError as error:
            if not is_passing(error):
                raise
            is_clear = False  # a full disk has no room for the notes that this takes
        if not is_clear:
            for data, end in _data_ranges(descriptor, offset, offset + size, holes=False):
                self.write_zeros(descriptor, data, end - data)

    def data_ranges(self, descriptor: int, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts of a range that hold data; what lies between them reads as zeros."""
        return list(_data_ranges(descriptor, start, stop, holes=False))

    def is_resident(self, mapping: mmap.mmap, offset: int, size: int) -> bool:
        """Whether a range of a mapped file is in memory; true where nobody can tell."""
        return _is_resident(mapping, offset, size)

    def load(self, descriptor: int, offset: int, size: int) -> None:
        """Read a range of a file into the page cache, for whoever has it mapped."""
        while size > 0:
            read = len(os.pread(descriptor, min(size, len(_ZEROS)), offset))
            if read == 0:
                return
            offset += read
            size -= read

    def sync(self, descriptor: int) -> None:
        """Wait until everything written to the file, mapped memory included, is on the disk."""
        os.fdatasync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a directory are on the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_file_system(self, folder: Path) -> None:
        """Wait until everything on the file system of a directory is on the disk.

        For thousands of files this takes one call, and one commit of the journal, instead of
        thousands.
        """
        if _syncfs is None:
            os.sync()
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _syncfs(descriptor) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(folder))
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Take a file's name away. What is mapped stays readable until it is let go of."""
        path.unlink(missing_ok=True)

    def modified_ms(self, path: Path) -> int:
        """When a file was last written to."""
        return path.stat().st_mtime_ns // 1_000_000

    def move_folder(self, folder: Path, goal: Path) -> bool:
        """Give a directory another place on the same disk; False if there is none."""
        goal.parent.mkdir(exist_ok=True)
        try:
            os.rename(folder, goal)
        except FileNotFoundError:
            return False
        return True

    def remove_folder(self, folder: Path, is_over: Callable[[], bool] = bool) -> None:
        """Delete a directory with all that is in it, as far as there is time."""
        for entry in os.scandir(folder):
            if is_over():
                return
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(folder)

    def usage(self, path: Path) -> DiskUsage:
        """How full the partition is that holds this path, or would hold it."""
        while not path.exists() and path != path.parent:
            path = path.parent
        total, used, usable = shutil.disk_usage(path)
        return DiskUsage(total, used, usable)

    def boot_id(self) -> bytes:
        """Identifies this run of the operating system; unknown means that nothing is the same."""
        try:
            text = Path("/proc/sys/kernel/random/boot_id").read_text()
            return uuid.UUID(text.strip()).bytes
        except (OSError, ValueError):
            return uuid.uuid4().bytes

    # Who waits for it

    def thread(self, name: str) -> DiskThread:
        """A thread for what is waited for thousands of times per second."""
        return DiskThread(name)

    def executor(self, name: str) -> Executor:
        """A thread for what is needed now and then."""
        return ThreadPoolExecutor(1, thread_name_prefix=name)


class ReadOnlyDisk(Disk):
    """For looking at a directory that belongs to somebody else."""

    def create(self, path: Path, size: int, *, reserve: bool) -> None:
        raise PermissionError(errno.EROFS, "opened for reading only", str(path))

    def open(self, path: Path, *, writable: bool = False) -> int:
        return super().open(path, writable=False)

    def map(self, descriptor: int, size: int, *, writable: bool = False) -> mmap.mmap:
        # A private copy: shows what is in the file, and nothing done to it gets there.
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)

    def remove(self, path: Path) -> None:
        raise PermissionError(errno.EROFS, "opened for reading only", str(path))


_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


_syncfs = getattr(_libc, "syncfs", None)
if _syncfs is not None:
    _syncfs.argtypes = [ctypes.c_int]
_ZERO_RANGE: Final = 0x10


def _fallocate_range(descriptor: int, mode: int, offset: int, size: int) -> bool:
    """Set blocks aside, if the file system can.

    Not `os.posix_fallocate`: where the file system cannot, the C library imitates it by
    writing to every block, which for a file of 1 GiB takes a while.
    """
    if _fallocate is None:
        return False
    if size <= 0 or _fallocate(descriptor, mode, offset, size) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(code, os.strerror(code))


_mincore = getattr(_libc, "mincore", None)
if _mincore is not None:
    _mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def _is_resident(mapping: mmap.mmap, offset: int, size: int) -> bool:
    if _mincore is None or size <= 0:
        return True
    start = offset // mmap.PAGESIZE * mmap.PAGESIZE
    length = offset + size - start
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping)) + start
    pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
    if _mincore(address, length, pages) != 0:
        return True
    return all(page & 1 for page in pages.raw)


def _data_ranges(
    descriptor: int, start: int, stop: int, *, holes: bool
) -> Iterator[tuple[int, int]]:
    """The parts of a range that have blocks, or those that have none."""
    at = start
    while at < stop:
        try:
            data = min(os.lseek(descriptor, at, os.SEEK_DATA), stop)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            data = stop  # nothing but a hole up to the end
        end = min(os.lseek(descriptor, data, os.SEEK_HOLE), stop) if data < stop else stop
        if holes and data > at:
            yield at, data
        elif not holes and end > data:
            yield data, end
        at = end
