"""The index by key: which messages carry a key, or a unique id.

A row of files, each named by the local time at which it was made (`yyyyMMddHHmmssSSS`) and
filled one after another; the layout is in `rocketq.store.index.index_file`. A key's hash is that of
`topic#key`, and the store does not compare the keys themselves: two keys with the same hash
are told apart by whoever asked, from the messages.

Derived data, like the consume queues.
"""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rocketq.message.flags import SysFlag
from rocketq.message.hashing import java_hash, java_hash_bytes
from rocketq.message.properties.walk import get_property
from rocketq.message.record.reader import RecordFields
from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import PAGE_SIZE, Disk
from rocketq.store.files.segment import Segment
from rocketq.store.index.index_file import ENTRY_SIZE, HEADER_SIZE, IndexFile, positive_hash

logger = logging.getLogger(__name__)

# Entries of the index that one question may look at: some ten milliseconds' worth.
_MOST_LOOKED_AT: Final = 100_000

_PIECE: Final = 64 * PAGE_SIZE


def index_file_name(now_ms: int) -> str:
    """Local time, as RocketMQ names these files."""
    seconds, milliseconds = divmod(now_ms, 1000)
    return time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{milliseconds:03d}"


def key_hashes(fields: RecordFields) -> list[int]:
    """What a record is found by: its unique key first, then each of its keys."""
    if fields.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK:
        return []
    unique_key = get_property(fields.properties, b"UNIQ_KEY")
    keys = [] if unique_key is None else [unique_key]
    keys += [key for key in (get_property(fields.properties, b"KEYS") or b"").split(b" ") if key]
    seed = java_hash(fields.topic.decode("utf-8", "replace") + "#")
    return [positive_hash(java_hash_bytes(key, seed)) for key in keys]


class Index:
    """Filled by the dispatcher; asked by anyone."""

    def __init__(
        self,
        folder: Path,
        slots: int,
        max_entries: int,
        disk: Disk,
        now_ms: Callable[[], int],
    ) -> None:
        self.failure: OSError | None = None
        """Why the last entry could not be written."""
        self.current: IndexFile | None = None
        """The file being filled, None before the first entry."""
        self._folder = folder
        self._slots = slots
        self._max_entries = max_entries
        self._size = HEADER_SIZE + slots * 4 + max_entries * ENTRY_SIZE
        self._disk = disk
        self._now_ms = now_ms
        self._files: list[IndexFile] = []
        self._segments: list[Segment] = []
        self._has_new_files = False
        self._synced = 0
        """How many files from the first on are full and known to be on the disk."""

    # Opening and closing

    def load(self) -> None:
        """Open what there is. A file that was cut is of no use, and is made again."""
        if not self._folder.is_dir():
            return
        for path in sorted(self._folder.iterdir()):
            if path.is_dir() or not path.name.isdigit():
                continue
            size = path.stat().st_size
            if size > self._size:
                raise StoreMismatch(
                    f"{path} has {size} bytes; {self._size} are configured by maxHashSlotNum "
                    "and maxIndexNum"
                )
            if size != self._size:
                logger.warning(
                    "%s has %d bytes instead of %d: removed, to be made again from the log",
                    path,
                    size,
                    self._size,
                )
                self._disk.remove(path)
                continue
            self._open(path)
        self._choose_current()

    def _choose_current(self) -> None:
        self.current = None
        if self._files and not self._files[-1].is_full:
            self.current = self._files[-1]
            self._make_slots_safe(self._segments[-1])

    def fit_to_log(self, log_stop: int) -> None:
        """Drop files that cannot be of this log, and have the others in its order.

        Names do not give the order where the clock was set back.
        """
        for number in reversed(range(len(self._files))):
            file, segment = self._files[number], self._segments[number]
            is_right = 0 <= file.begin_position <= file.end_position < max(log_stop, 1)
            if not is_right or file.count > file.max_entries:
                logger.warning("%s is damaged: removed, to be made again", segment.path)
                del self._files[number], self._segments[number]
                file.close()
                segment.remove()
        order = sorted(
            range(len(self._files)),
            key=lambda n: (self._files[n].end_position, self._segments[n].path.name),
        )
        self._files = [self._files[n] for n in order]
        self._segments = [self._segments[n] for n in order]
        self._choose_current()

    def _open(self, path: Path, *, is_new: bool = False) -> IndexFile:
        segment = Segment(path, 0, self._size, self._disk)
        if is_new:
            self._make_slots_safe(segment)
        file = IndexFile(segment.mapping, self._slots, self._max_entries)
        self._files.append(file)
        self._segments.append(segment)
        return file

    def close(self) -> None:
        self.current = None
        for file, segment in zip(self._files, self._segments, strict=True):
            file.close()
            segment.close()
        self._files.clear()
        self._segments.clear()

    # Adding

    def make_room(self) -> IndexFile | None:
        """A file in which the next entry can be written, None when the disk has no room."""
        try:
            return self._make_room()
        except OSError as error:
            logger.error("no room for an entry of the index: %s", error)
            self.failure = error
            return None

    def _make_room(self) -> IndexFile:
        file = self.current
        if file is None or file.is_full:
            file = self._add_file()
        # Entries are written through the mapping only where zeros were written before.
        first = HEADER_SIZE + self._slots * 4 + file.count * ENTRY_SIZE
        stop = min(first + _PIECE, self._size)
        self._segments[-1].write_zeros(first, stop - first)
        file.limit = min(file.count + (stop - first) // ENTRY_SIZE, self._max_entries)
        self.current = file
        return file

    def _add_file(self) -> IndexFile:
        name = index_file_name(self._now_ms())
        # RocketMQ reads files in the order of their names, and clocks are set back.
        path = self._folder / max(name, self._behind_all())
        self._disk.create(path, self._size, reserve=False)
        self._has_new_files = True
        before = self._files[-1] if self._files else None
        try:
            file = self._open(path, is_new=True)
        except OSError:
            self._disk.remove(path)
            raise
        if before is not None:
            file.begin_after(before.end_position, before.end_timestamp)
        return file

    def _behind_all(self) -> str:
        """A name that comes behind those of all files."""
        last = max((int(segment.path.name) for segment in self._segments), default=0)
        return f"{last + 1:017d}"

    def _make_slots_safe(self, segment: Segment) -> None:
        """Slots are written all over the place, so all of them get their blocks at once.

        Before anything is read: in memory file systems (tmpfs) to read what has no block takes one.
        """
        segment.reserve(segment.start, HEADER_SIZE + self._slots * 4)

    def put(self, topic: str, key: str, position: int, timestamp: int) -> bool:
        """Add one key; the slow way, the dispatcher has its own."""
        key_hash = positive_hash(java_hash(f"{topic}#{key}"))
        if self.current is not None and self.current.put(key_hash, position, timestamp):
            return True
        file = self.make_room()
        return file is not None and file.put(key_hash, position, timestamp)

    @property
    def end_position(self) -> int:
        """Where the last message indexed begins, -1 if there is none."""
        for file in reversed(self._files):
            if not file.is_empty:
                return file.end_position
        return -1

    @property
    def end_timestamp(self) -> int:
        return self._files[-1].end_timestamp if self._files else 0

    @property
    def files(self) -> list[IndexFile]:
        return list(self._files)

    # Asking

    def find(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log positions of messages that may carry a key, in the order of the log.

        Of a key that a hundred thousand messages share, the oldest may not be found: looking
        for them would take longer than others can wait.
        """
        left = _MOST_LOOKED_AT
        key_hash = positive_hash(java_hash(f"{topic}#{key}"))
        found: list[int] = []
        for file in reversed(self._files):
            if file.is_empty:
                continue
            if file.overlaps(begin_ms, end_ms):
                left -= file.find(key_hash, begin_ms, end_ms, max_count, found, left)
            if file.begin_timestamp < begin_ms or len(found) >= max_count or left <= 0:
                break
        return sorted(set(found))

    def time_of(self, position: int, otherwise: int) -> int:
        """About when the message at a log position was stored, by the file that holds it."""
        for file in self._files:
            if not file.is_empty and file.begin_position <= position <= file.end_position:
                return file.begin_timestamp
        return otherwise

    # Filling gaps

    def gaps(self, log_min: int) -> list[tuple[int, int, int]]:
        """(index of the file behind, start, end) of log ranges that no file speaks for.

        A range may well hold nothing to index; it begins with the last message of the file
        before, all of whose keys need not be in that file.
        """
        found = []
        reached = log_min
        for number, file in enumerate(self._files):
            if file.is_empty:
                continue
            if file.begin_position > reached:
                found.append((number, reached, file.begin_position))
            reached = max(reached, file.end_position)
        return found

    def fill_gap(self, number: int, records: Iterator[tuple[int, RecordFields]]) -> int:
        """Index records in files of their own, which go before a file. Returns how many keys."""
        count = 0
        file: IndexFile | None = None
        following = int(self._segments[number].path.name)
        first = int(self._segments[number - 1].path.name) + 1 if number > 0 else following - 10_000
        for position, fields in records:
            for key_hash in key_hashes(fields):
                if file is None or file.is_full:
                    path = self._folder / f"{first:017d}"
                    # Names need not be in the order of the files; starts put it in its place.
                    if first >= following or path.exists():
                        path = self._folder / self._behind_all()
                    self._disk.create(path, self._size, reserve=True)
                    segment = Segment(path, 0, self._size, self._disk)
                    file = IndexFile(segment.mapping, self._slots, self._max_entries)
                    file.limit = self._max_entries
                    self._files.insert(number, file)
                    self._segments.insert(number, segment)
                    self._has_new_files = True
                    number += 1
                    first += 1
                file.put(key_hash, position, fields.store_timestamp)
                count += 1
        return count

    # Keeping

    def rebuild_last(self, log_end: int) -> None:
        """After a power failure: make the file that was being filled consistent."""
        if self._files and not self._files[-1].is_full:
            kept = self._files[-1].rebuild(log_end)
            logger.info("index file %s keeps %d entries", self._segments[-1].path, kept)

    def cut_at(self, log_end: int) -> None:
        """Forget the messages that the log no longer has."""
        while self._files and self._files[-1].end_position >= log_end:
            file = self._files[-1]
            if file.begin_position < log_end and file.rebuild(log_end) > 0:
                file.limit = 0  # what lies behind its last entry now is not empty
                break
            self._files.pop().close()
            self._segments.pop().remove()
        self._synced = min(self._synced, max(len(self._files) - 1, 0))
        self._choose_current()

    def remove_below(self, log_min: int) -> int:
        """Delete files all of whose messages are gone from the log, never the last one."""
        removed = 0
        while len(self._files) > 1 and self._files[0].end_position < log_min:
            self._files.pop(0).close()
            self._segments.pop(0).remove()
            self._synced = max(0, self._synced - 1)
            removed += 1
        return removed

    def remove_all(self) -> None:
        self.current = None
        while self._files:
            self._files.pop().close()
            self._segments.pop().remove()
        self._synced = 0

    def unsynced(self) -> list[Segment]:
        """Files with entries that are not known to be on the disk."""
        return self._segments[self._synced :]

    def synced(self, count: int) -> int:
        """Note that this many files from `unsynced` are on the disk.

        Returns the store time up to which full files hold everything, 0 if there is none new.
        """
        reached = 0
        for file in self._files[self._synced : self._synced + count]:
            if not file.is_full:
                break
            self._synced += 1
            reached = file.end_timestamp
        return reached

    def take_new_folder(self) -> Path | None:
        """The folder, if files were added to it since the last call."""
        if not self._has_new_files:
            return None
        self._has_new_files = False
        return self._folder


__all__ = ["Index", "index_file_name"]
