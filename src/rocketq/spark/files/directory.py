"""A store directory, read as it lies there: of a broker that runs, is stopped, or dead.

Only what is written is looked at, and nothing is locked or mended. Ours and Java's are alike:

    commitlog/<position>                           records, one after another
    consumequeue/<topic>/<queue>/<position>        entries of 20 bytes: where a message lies
    topicBeginnings                                where topics begin that were deleted before
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rocketq.common import memory
from rocketq.common.errors import RocketqError
from rocketq.message.hashing import java_hash
from rocketq.message.record import layout
from rocketq.message.record.reader import check_record, decode_record
from rocketq.store.durability.beginnings import read_beginnings
from rocketq.store.files.disk import ReadOnlyDisk
from rocketq.store.files.segment import Segment
from rocketq.store.files.segments import Segments
from rocketq.store.index.index_file import IndexFile, positive_hash
from rocketq.store.inspect.check import config_for
from rocketq.store.queues.consume_queue import FILLER_SIZE

ENTRY: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert ENTRY.itemsize == layout.ENTRY_SIZE

Entries = npt.NDArray[Any]

_END_OF_TIME: Final = 2**62
_POSITIONS: Final = 1_000_000
"""The smallest record."""


class NoStore(RocketqError):
    """A folder that is no store directory."""


class StoreDirectory:
    """Files are mapped as they are needed; not for several threads."""

    def __init__(self, root: Path) -> None:
        self.root = store_root(root)
        config = self._config = config_for(self.root)
        self._log = Segments(
            config.commit_log_folders,
            config.mapped_file_size_commit_log,
            ReadOnlyDisk(),
            reserve=False,
        )
        self._log.load(remove_empty=False)
        self._beginnings = read_beginnings(self.root)

    @property
    def log(self) -> Segments:
        return self._log

    @cached_property
    def log_min(self) -> int:
        return 0 if self._log.first is None else self._log.first.start

    # Queues

    def queues(self) -> Iterator[tuple[str, int]]:
        """Topics and queue ids, of all that have files."""
        folder = self.root / "consumequeue"
        for topic in sorted(folder.iterdir()) if folder.is_dir() else ():
            numbers = [int(queue.name) for queue in topic.iterdir() if queue.name.isdigit()]
            for number in sorted(numbers):
                yield topic.name, number

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first offset that is there, and the one behind the last."""
        files = self._files(topic, queue_id)
        if not files:
            return 0, 0
        start, entries = files[-1]
        zeros = np.flatnonzero(entries["size"] == 0)
        end = start + (int(zeros[0]) if len(zeros) else len(entries))
        first = max(self.log_min, self._beginnings.get(topic, 0))
        for start, entries in files:
            is_there = (entries["position"] >= first) & (entries["size"] > 0)
            is_there &= entries["size"] != FILLER_SIZE
            found = np.flatnonzero(is_there)
            if len(found):
                return start + int(found[0]), end
        return end, end

    def entries(self, topic: str, queue_id: int, start: int, end: int) -> Entries:
        """The entries of these offsets."""
        parts = []
        for first, entries in self._files(topic, queue_id):
            a, b = max(start, first), min(end, first + len(entries))
            if a < b:
                parts.append(entries[a - first : b - first])
        return np.concatenate(parts) if parts else np.empty(0, ENTRY)

    def _files(self, topic: str, queue_id: int) -> list[tuple[int, Entries]]:
        """The files of a queue: the offset of the first entry of each, and its entries."""
        folder = self.root / "consumequeue" / topic / str(queue_id)
        out: list[tuple[int, Entries]] = []
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.isdigit() and path.stat().st_size >= ENTRY.itemsize:
                count = path.stat().st_size // ENTRY.itemsize
                mapped = np.memmap(path, ENTRY, "r", shape=(count,))
                out.append((int(path.name) // ENTRY.itemsize, mapped))
        return out

    def offset_at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """The first message stored at or after a time; the end without any."""
        first, end = self.bounds(topic, queue_id)
        entries = self.entries(topic, queue_id, first, end)
        return first + bisect_left(entries, time_ms, key=self._stored_at)

    def _stored_at(self, entry: Any) -> int:
        record = self.record(int(entry["position"]), min(int(entry["size"]), 4 * layout.FIXED_SIZE))
        if record is None or len(record) < layout.FIXED_SIZE:
            return 0  # damaged: whoever comes this far reads on from here
        sys_flag = memory.get32(record, layout.SYS_FLAG_AT)
        return memory.get64(record, layout.store_time_at(sys_flag))

    # Keys

    def offsets_of_key(self, topic: str, key: str) -> set[tuple[int, int]]:
        """Queue ids and offsets of the messages with a key, by the index files.

        The index of a broker that runs may be behind its log.
        """
        key_hash = positive_hash(java_hash(f"{topic}#{key}"))
        positions: list[int] = []
        for path in sorted((self.root / "index").glob("[0-9]*")):
            if path.stat().st_size == self._config.index_file_size:
                segment = Segment(path, 0, path.stat().st_size, ReadOnlyDisk())
                file = IndexFile(
                    segment.mapping, self._config.max_hash_slot_num, self._config.max_index_num
                )
                file.find(key_hash, 0, _END_OF_TIME, _POSITIONS, positions, file.max_entries)
                file.close()
                segment.close()
        found = set()
        for position in positions:
            head = self.record(position, 4)
            size = 0 if head is None else int.from_bytes(head, "big")
            record = self.record(position, size)
            if record is None or not check_record(record).is_valid:
                continue
            message = decode_record(record)
            is_of_key = key in message.keys or message.get_property("UNIQ_KEY") == key
            if message.topic == topic and is_of_key:
                found.add((message.queue_id, message.queue_offset))
        return found

    # Records

    def record(self, position: int, size: int) -> memoryview | None:
        """The bytes of the log there; None where there are none."""
        segment = self.segment(position)
        if segment is None or size <= 0:
            return None
        return segment.slice(position, min(size, segment.end - position))

    def segment(self, position: int) -> Segment | None:
        return self._log.find(position) if position >= self.log_min else None

    def holds_same_log(self, other: "StoreDirectory") -> bool:
        """Whether both are copies of one log: what both have of it is the same."""
        for segment in reversed(list(self._log)):
            twin = other.log.find(segment.start)
            if twin is not None and twin.start == segment.start:
                mine, theirs = (one.slice(one.start, layout.FIXED_SIZE) for one in (segment, twin))
                if any(mine) and any(theirs):
                    return bytes(mine) == bytes(theirs)
        return False


def store_root(folder: Path) -> Path:
    """The store below a folder that a user names: itself, or its `store`."""
    for root in (folder, folder / "store"):
        if (root / "commitlog").is_dir():
            return root
    raise NoStore(f"{folder} is no store directory: it has no folder commitlog")
