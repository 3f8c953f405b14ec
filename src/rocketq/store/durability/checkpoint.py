"""How much of the store is known to be on the disk: where recovery begins.

The file is one page. The first 48 bytes are RocketMQ's:

    0     int64   store time of the last message flushed in the commit log
    8     int64   store time of the last message flushed in the consume queues
    16    int64   store time of the last message in a full, flushed index file
    24    int64   the master's flushed position, on a slave
    32    int64   confirmed position; 0 or where recovery found the last record
    40    int64   log position of the last message flushed in the consume queues (since 5.5.0)

None of them may be ahead of what is on the disk in both the log and the queues: recovery of
RocketMQ starts in a file that is older than these times, and what they wrongly promise is
never looked at again.

RocketMQ leaves the rest of the page alone, and rocketq keeps there what it needs to start
recovery at a position instead of a file:

    1024  8 bytes  `rocketq1`
    1032  int64    end of the log when this was written
    1040  int64    everything before it was dispatched when this was written
    1048  int64    everything before it is on the disk in the log
    1056  int64    everything before it is on the disk in the consume queues
    1064  int64    everything before it is on the disk in the index
    1072  int64    a place where a record begins, some megabytes before the end
    1080  int64    number of index files
    1088  16       identifies the run of the operating system
    1104  int32    1 after a clean stop
    1108  uint32   CRC-32 of bytes 0 to 47 and 1024 to 1107

What the process had written survives its own death, but not that of the machine: the first two
positions count only if the operating system has not been restarted since. The checksum covers
RocketMQ's part too. If a Java broker has worked on the directory meanwhile, it does not match,
and recovery goes by RocketMQ's rules.
"""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketq.store.files.disk import PAGE_SIZE, Disk

_JAVA: Final = struct.Struct(">qqqqqq")
_OWN: Final = struct.Struct(">8sqqqqqqq16si")
_CRC: Final = struct.Struct(">I")
_OWN_AT: Final = 1024
_MAGIC: Final = b"rocketq1"
_MARGIN_MS: Final = 3_000


@dataclass(slots=True)
class Progress:
    """rocketq's own part: positions in the log."""

    log_end: int = 0
    dispatched: int = 0
    log_durable: int = 0
    queues_durable: int = 0
    index_durable: int = 0
    record_start: int = 0
    index_files: int = 0
    is_clean: bool = False
    is_same_boot: bool = False
    """Whether the operating system still is the one that this was written under."""

    @property
    def log_kept(self) -> int:
        """Everything before it was in the log's files, and nothing since can have taken it away.

        After a clean stop that is all of it. What a process has written survives its death.
        """
        return self.log_end if self.is_clean or self.is_same_boot else self.log_durable


class Checkpoint:
    """Owned by the store. Kept in memory, written by `write`."""

    def __init__(self, path: Path, disk: Disk, boot_id: bytes | None = None) -> None:
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_physical_offset = 0
        self.logics_physical_offset = 0
        self.progress: Progress | None = None
        """As found in the file; None when somebody else wrote it last."""
        self._path = path
        self._disk = disk
        self._boot_id = disk.boot_id() if boot_id is None else boot_id
        self._descriptor = -1
        self._rest = bytes(PAGE_SIZE)

    def load(self) -> None:
        """Read the file; a missing one means that nothing is known."""
        try:
            page = self._path.read_bytes()[:PAGE_SIZE].ljust(PAGE_SIZE, b"\0")
        except FileNotFoundError:
            return
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        ) = _JAVA.unpack_from(page, 0)
        self._rest = page
        self.progress = self._own_part(page)

    def _own_part(self, page: bytes) -> Progress | None:
        magic, *positions, boot_id, clean = _OWN.unpack_from(page, _OWN_AT)
        (crc,) = _CRC.unpack_from(page, _OWN_AT + _OWN.size)
        if magic != _MAGIC or crc != _checksum(page):
            return None
        progress = Progress(*positions)
        progress.is_clean = clean == 1
        progress.is_same_boot = boot_id == self._boot_id
        return progress

    @property
    def min_timestamp(self) -> int:
        """Messages stored before this are on the disk in the log and in the queues."""
        earliest = min(self.physic_msg_timestamp, self.logics_msg_timestamp)
        return max(0, earliest - _MARGIN_MS)

    def write(self, progress: Progress, *, sync: bool = True) -> None:
        """Put everything into the file."""
        page = bytearray(self._rest)
        _JAVA.pack_into(
            page,
            0,
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        )
        _OWN.pack_into(
            page,
            _OWN_AT,
            _MAGIC,
            progress.log_end,
            progress.dispatched,
            progress.log_durable,
            progress.queues_durable,
            progress.index_durable,
            progress.record_start,
            progress.index_files,
            self._boot_id,
            1 if progress.is_clean else 0,
        )
        _CRC.pack_into(page, _OWN_AT + _OWN.size, _checksum(page))
        if self._descriptor < 0:
            if not self._path.exists():
                self._disk.create(self._path, PAGE_SIZE, reserve=False)
            self._descriptor = self._disk.open(self._path)
        # One page, written in one piece: never half of the old and half of the new, unless
        # the machine fails in the middle of it, and then the checksum tells.
        self._disk.write(self._descriptor, bytes(page), 0)
        if sync:
            self._disk.sync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._disk.close(self._descriptor)
            self._descriptor = -1


def _checksum(page: bytes | bytearray) -> int:
    own = bytes(page[_OWN_AT : _OWN_AT + _OWN.size])
    return zlib.crc32(bytes(page[: _JAVA.size]) + own)
