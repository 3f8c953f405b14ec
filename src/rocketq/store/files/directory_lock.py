"""One process at a time: the lock on a store's directory, and the trace of a crash.

    <root>/lock     4 bytes; byte 0 carries a POSIX record lock, the kind that Java takes
    <root>/abort    exists while a store is open: found at the next start, it means a crash

The lock is taken before anything else is touched. It belongs to the process and vanishes
with it, however that ends.
"""

import fcntl
import os
from pathlib import Path

from rocketq.common.files import make_folder
from rocketq.store.errors import StoreLocked

# POSIX locks do not protect a process from itself: a second store opened by this process on the
# same directory would get the lock too, and lose it for both when it closes.
_held_here: set[tuple[int, int]] = set()


class DirectoryLock:
    """Held from `acquire` to `release`."""

    def __init__(self, root: Path) -> None:
        self._path = root / "lock"
        self._descriptor = -1
        self._identity = (0, 0)

    def acquire(self) -> None:
        """Take the lock, or say that somebody else has it."""
        make_folder(self._path.parent)
        if self._path.exists():
            # Closing any descriptor of a file drops this process's locks on it, so nothing is
            # opened that this process has locked already.
            status = self._path.stat()
            if (status.st_dev, status.st_ino) in _held_here:
                raise StoreLocked(f"{self._path.parent} is open in this process already")
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as cause:
            os.close(descriptor)
            raise StoreLocked(f"{self._path.parent} is open in another process") from cause
        os.pwrite(descriptor, b"lock", 0)
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)
        _held_here.add(self._identity)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            _held_here.discard(self._identity)
            os.close(self._descriptor)
            self._descriptor = -1


class AbortFile:
    """Present while a store is open."""

    def __init__(self, root: Path) -> None:
        self._path = root / "abort"

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def create(self) -> None:
        """Say that the store is open; the content is the process id, as RocketMQ writes it."""
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
        )
        try:
            os.write(descriptor, str(os.getpid()).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self) -> None:
        """Say that the store was closed in good order."""
        self._path.unlink(missing_ok=True)
