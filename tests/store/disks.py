"""Disks that fail on purpose."""

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from rocketq.store.files.disk import Disk, DiskUsage


class FaultyDisk(Disk):
    """Does what it is told to do wrong: each operation can be given an error to raise."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.only: str | None = None
        """Fail only for files whose path holds this."""
        self.syncs: list[str] = []
        self.ratio = 0.1
        self._paths: dict[int, str] = {}

    def fail(self, operation: str, code: int, *, only: str | None = None) -> None:
        self.errors[operation] = code
        self.only = only

    def mend(self) -> None:
        self.errors.clear()
        self.only = None

    def _check(self, operation: str, path: str) -> None:
        code = self.errors.get(operation)
        if code is not None and (self.only is None or self.only in path):
            raise OSError(code, os.strerror(code), path)

    def create(self, path: Path, size: int, *, reserve: bool) -> None:
        self._check("create", str(path))
        super().create(path, size, reserve=reserve)

    def open(self, path: Path, *, writable: bool = True) -> int:
        self._check("open", str(path))
        descriptor = super().open(path, writable=writable)
        self._paths[descriptor] = str(path)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        self._check("write", self._paths[descriptor])
        super().write(descriptor, data, offset)

    def write_all(self, descriptor: int, pieces: Sequence[memoryview], offset: int) -> None:
        self._check("write_all", self._paths[descriptor])
        super().write_all(descriptor, pieces, offset)

    def sync(self, descriptor: int) -> None:
        self.syncs.append(self._paths[descriptor])
        self._check("sync", self._paths[descriptor])
        super().sync(descriptor)

    def usage(self, path: Path) -> DiskUsage:
        used = int(self.ratio * 1000)
        return DiskUsage(1000, used, 1000 - used)


class SlowDisk(FaultyDisk):
    """Its syncs wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.is_waiting = threading.Event()

    def sync(self, descriptor: int) -> None:
        if "commitlog" in self._paths[descriptor]:
            self.is_waiting.set()
            self.gate.wait(timeout=30)
            self.is_waiting.clear()
        super().sync(descriptor)


class LimitedDisk(FaultyDisk):
    """Has room for so many bytes and no more; deleting files gives room back."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self._sizes: dict[str, int] = {}

    @property
    def free(self) -> int:
        return self.capacity - sum(self._sizes.values())

    def _take(self, path: str, size: int) -> None:
        grown = size - self._sizes.get(path, 0)
        if grown > self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if grown > 0:
            self._sizes[path] = size

    def create(self, path: Path, size: int, *, reserve: bool) -> None:
        self._take(str(path), size if reserve else 0)
        super().create(path, size, reserve=reserve)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        self._take(self._paths[descriptor], offset + len(data))
        super().write(descriptor, data, offset)

    def remove(self, path: Path) -> None:
        self._sizes.pop(str(path), None)
        super().remove(path)

    def usage(self, path: Path) -> DiskUsage:
        used = self.capacity - self.free
        return DiskUsage(self.capacity, used, self.free)
