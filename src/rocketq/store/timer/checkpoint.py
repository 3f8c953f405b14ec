"""How far timers have been placed and delivered: `config/timercheck`.

Seven int64, big-endian, at the beginning of a page of 4,096 bytes:

    read time                up to here slots have been delivered, ms
    log flushed              up to here the timer log is durable
    queue offset             the next message of the timer topic to be placed
    master's queue offset    the same on the broker that delivers; equal there
    data version             state version, timestamp, counter

The 56 bytes are also what a slave is given.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.store.files.disk import Disk

_FIELDS: Final = struct.Struct(">7q")
_PAGE: Final = 4_096


class TimerProgress(NamedTuple):
    """One checkpoint."""

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0

    def encode(self) -> bytes:
        return _FIELDS.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> "TimerProgress":
        """From 56 bytes, or from the 32 that older brokers send."""
        padded = data[: _FIELDS.size].ljust(_FIELDS.size, b"\0")
        return cls._make(_FIELDS.unpack(padded))


class TimerCheckpoint:
    """The file."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def load(self) -> TimerProgress:
        """What it says; all zeros where there is none."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return TimerProgress()
        return TimerProgress.decode(data) if len(data) >= 32 else TimerProgress()

    def write(self, progress: TimerProgress) -> None:
        """May run in another thread; raises `OSError`."""
        is_new = not self._path.exists() or self._path.stat().st_size < _PAGE
        if is_new:
            self._disk.remove(self._path)
            self._disk.create(self._path, _PAGE, reserve=False)
        descriptor = self._disk.open(self._path)
        try:
            self._disk.write(descriptor, progress.encode(), 0)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        if is_new:
            self._disk.sync_folder(self._path.parent)
