"""Verifying a store directory: every record, every queue entry, every index entry.

    for finding in check_store("store"):
        print(finding)

Nothing is changed and nothing is locked, so it works on a directory that a broker has open, and
on one written by Java RocketMQ. On a live directory the newest messages may not have reached
their queues yet; what is behind the checkpoint is not reported as missing then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rocketq.message.hashing import java_hash_bytes
from rocketq.message.properties.walk import get_property
from rocketq.message.record import layout
from rocketq.message.record.layout import ENTRY, ENTRY_SIZE
from rocketq.message.record.reader import RecordFields
from rocketq.store.config import StoreConfig
from rocketq.store.durability.beginnings import read_beginnings
from rocketq.store.durability.checkpoint import Checkpoint
from rocketq.store.durability.log_scan import LogScan
from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import ReadOnlyDisk
from rocketq.store.files.segment import Segment
from rocketq.store.files.segments import Segments
from rocketq.store.index.index import key_hashes
from rocketq.store.index.index_file import IndexFile
from rocketq.store.queues.consume_queue import FILLER_SIZE

_UNQUEUED: Final = (layout.TRANSACTION_PREPARED, layout.TRANSACTION_ROLLBACK)


class Severity(Enum):
    """How bad a finding is."""

    INFO = "info"
    WARNING = "warning"
    """Will be made again from the log at the next start, or was to be expected."""
    ERROR = "error"
    """Something was lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing."""

    severity: Severity
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.place}: {self.text}"


@dataclass(slots=True)
class _Queue:
    """What the log says about a queue."""

    first: int
    end: int
    entries: dict[int, tuple[int, int, int | None]]
    """Number -> position, size and tags code; no code where it depends on settings."""


def config_for(root: str | Path, config: StoreConfig | None = None) -> StoreConfig:
    """Settings that fit the files of a directory; sizes are read off the files.

    File sizes are recorded nowhere, but a file has its full size from the beginning. Of an
    index file only the sum is known: without settings the usual proportion of slots to
    entries, 1 to 4, is assumed.
    """
    if config is not None:
        return config
    root = Path(root)
    settings: dict[str, Any] = {}
    log = _first_file(root / "commitlog")
    if log is not None:
        settings["mapped_file_size_commit_log"] = log.stat().st_size
    for topic in sorted((root / "consumequeue").glob("*/*")):
        queue = _first_file(topic)
        if queue is not None:
            settings["mapped_file_size_consume_queue"] = queue.stat().st_size
            break
    index = _first_file(root / "index")
    if index is not None:
        slots, entries = _index_proportions(index.stat().st_size)
        settings["max_hash_slot_num"] = slots
        settings["max_index_num"] = entries
    return StoreConfig(store_path_root_dir=str(root), **settings)


def _first_file(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    files = sorted(path for path in folder.iterdir() if path.name.isdigit() and path.is_file())
    return files[0] if files else None


def _index_proportions(size: int) -> tuple[int, int]:
    # 40 + 4 x slots + 20 x entries, with 4 entries for each slot.
    slots = (size - 40) // 84
    return slots, (size - 40 - slots * 4) // 20


def check_store(root: str | Path, config: StoreConfig | None = None) -> Iterator[Finding]:
    """Everything that is wrong with a directory; nothing but INFO if it is in order."""
    root = Path(root)
    config = config_for(root, config)
    disk = ReadOnlyDisk()
    is_live = (root / "abort").exists()
    if is_live:
        yield Finding(Severity.INFO, "abort", "the store is open, or was not closed in good order")
    segments = Segments(
        config.commit_log_folders, config.mapped_file_size_commit_log, disk, reserve=False
    )
    try:
        segments.load(remove_empty=False)
    except StoreMismatch as mismatch:
        yield Finding(Severity.ERROR, "commitlog", str(mismatch))
        return
    queues: dict[tuple[str, int], _Queue] = {}
    keys: dict[int, list[int]] = {}
    checkpoint = Checkpoint(root / "checkpoint", disk)
    checkpoint.load()
    durable = checkpoint.progress.log_kept if checkpoint.progress is not None else 0
    scan = LogScan(segments, _start(segments), durable=durable)
    count = 0
    beginnings = {topic.encode(): at for topic, at in read_beginnings(root).items()}
    for position, fields in scan:
        count += 1
        if position < beginnings.get(fields.topic, 0):
            continue  # of a topic that was deleted since
        yield from _check_order(queues, position, fields)
        for key_hash in key_hashes(fields):
            keys.setdefault(key_hash, []).append(position)
    for damage in scan.damages:
        yield Finding(Severity.ERROR, f"commitlog {damage.position}", str(damage))
    yield from _check_end(segments, scan.position, is_live)
    yield Finding(
        Severity.INFO, "commitlog", f"{count} records from {_start(segments)} to {scan.position}"
    )
    span = range(_start(segments), scan.position)
    yield from _check_queues(root / "consumequeue", config, disk, queues, span, beginnings)
    yield from _check_index(root / "index", config, disk, keys, scan.position)


def _start(segments: Segments) -> int:
    return segments.first.start if segments.first is not None else 0


def _check_order(
    queues: dict[tuple[str, int], _Queue], position: int, fields: RecordFields
) -> Iterator[Finding]:
    """Offsets of a queue grow by one from record to record."""
    if fields.sys_flag & layout.TRANSACTION_BITS in _UNQUEUED:
        return
    topic = fields.topic.decode("utf-8", "replace")
    queue = queues.get((topic, fields.queue_id))
    if queue is None:
        queue = queues[topic, fields.queue_id] = _Queue(
            fields.queue_offset, fields.queue_offset, {}
        )
    if fields.queue_offset != queue.end:
        yield Finding(
            Severity.ERROR,
            f"commitlog {position}",
            f"{topic} queue {fields.queue_id}: offset {fields.queue_offset} follows "
            f"{queue.end - 1}",
        )
    queue.end = fields.queue_offset + 1
    queue.entries[fields.queue_offset] = (position, fields.size, _tags_code(fields))


def _tags_code(fields: RecordFields) -> int | None:
    if fields.topic == b"SCHEDULE_TOPIC_XXXX":
        return None  # the time of delivery
    tags = get_property(fields.properties, b"TAGS")
    return java_hash_bytes(tags, 0) if tags is not None else 0


def _check_end(segments: Segments, end: int, is_live: bool) -> Iterator[Finding]:
    segment = segments.find(end)
    if segment is None:
        return
    behind = bytes(segment.slice(end, min(8, segment.end - end)))
    if any(behind) and behind[4:] != b"\xcb\xd4\x31\x94":
        yield Finding(
            Severity.INFO if is_live else Severity.ERROR,
            f"commitlog {end}",
            "the record is torn; it will be cut off",
        )


# Consume queues


def _check_queues(
    folder: Path,
    config: StoreConfig,
    disk: ReadOnlyDisk,
    queues: dict[tuple[str, int], _Queue],
    span: range,
    beginnings: dict[bytes, int],
) -> Iterator[Finding]:
    """`span`: the positions that the log has."""
    seen = set()
    for queue_folder in sorted(folder.glob("*/*")):
        if not queue_folder.name.isdigit() or not queue_folder.is_dir():
            continue
        topic, queue_id = queue_folder.parent.name, int(queue_folder.name)
        seen.add((topic, queue_id))
        beginning = beginnings.get(topic.encode(), 0)
        of_this_life = range(max(span.start, beginning), span.stop)
        queue = queues.get((topic, queue_id))
        yield from _check_queue(queue_folder, config, disk, queue, of_this_life)
    for (topic, queue_id), queue in sorted(queues.items()):
        if (topic, queue_id) not in seen:
            yield Finding(
                Severity.WARNING,
                f"consumequeue {topic}/{queue_id}",
                f"missing; the log has {queue.end - queue.first} messages of it",
            )


def _check_queue(
    folder: Path, config: StoreConfig, disk: ReadOnlyDisk, queue: _Queue | None, span: range
) -> Iterator[Finding]:
    place = f"consumequeue {folder.parent.name}/{folder.name}"
    segments = Segments([folder], config.queue_file_size, disk, reserve=False)
    try:
        segments.load(remove_empty=False)
    except StoreMismatch as mismatch:
        yield Finding(Severity.WARNING, place, str(mismatch))
        return
    expected = dict(queue.entries) if queue is not None else {}
    end = 0
    for segment in segments:
        view = segment.view
        for at in range(0, segment.size, ENTRY_SIZE):
            position, size, tags_code = ENTRY.unpack_from(view, at)
            offset = (segment.start + at) // ENTRY_SIZE
            if position < 0 or size <= 0:
                break
            end = offset + 1
            if size == FILLER_SIZE:
                continue
            record = expected.pop(offset, None)
            text = _what_is_wrong((position, size, tags_code), record, span)
            if text:
                yield Finding(Severity.ERROR, place, f"offset {offset} {text}")
    if expected:
        yield Finding(
            Severity.WARNING,
            place,
            f"{len(expected)} of {len(queue.entries) if queue is not None else 0} messages "
            f"have no entry, the first of them is {min(expected)}; it ends at {end}",
        )


def _what_is_wrong(
    entry: tuple[int, int, int], record: tuple[int, int, int | None] | None, span: range
) -> str:
    position, size, tags_code = entry
    if record is None:
        # Also where the record is there and names another topic, queue or number.
        return f"points at {position}, where it has no message" if position in span else ""
    if record[:2] != (position, size):
        return f"points at {position}, its message lies at {record[0]}"
    if record[2] not in (None, tags_code):
        return f"has the tag code {tags_code}, its message {record[2]}"
    return ""


# Index


def _check_index(
    folder: Path,
    config: StoreConfig,
    disk: ReadOnlyDisk,
    keys: dict[int, list[int]],
    log_end: int,
) -> Iterator[Finding]:
    if not folder.is_dir():
        if keys:
            yield Finding(Severity.WARNING, "index", "missing; messages have keys")
        return
    indexed: dict[int, set[int]] = {}
    for path in sorted(folder.iterdir()):
        if not path.name.isdigit():
            continue
        place = f"index {path.name}"
        size = path.stat().st_size
        if size != config.index_file_size:
            yield Finding(
                Severity.WARNING,
                place,
                f"has {size} bytes; {config.index_file_size} are configured",
            )
            continue
        segment = Segment(path, 0, size, disk)
        file = IndexFile(segment.mapping, config.max_hash_slot_num, config.max_index_num)
        yield from _check_index_file(file, place, indexed, log_end)
    missing = sum(
        len(set(positions) - indexed.get(key_hash, set())) for key_hash, positions in keys.items()
    )
    if missing:
        yield Finding(Severity.WARNING, "index", f"{missing} keys of messages cannot be found")


def _check_index_file(
    file: IndexFile, place: str, indexed: dict[int, set[int]], log_end: int
) -> Iterator[Finding]:
    """Follow every chain; an entry that no chain leads to is as good as missing."""
    if not 1 <= file.count <= file.max_entries:
        yield Finding(Severity.WARNING, place, f"says that it has {file.count} entries")
        return
    reached = 0
    for slot in range(file.slots):
        number = file.slot(slot)
        if number > file.count or number >= file.max_entries:
            yield Finding(Severity.WARNING, place, f"slot {slot} leads to entry {number}")
            continue
        while number > 0:
            key_hash, position, _, before = file.entry(number)
            if key_hash % file.slots != slot or position >= log_end or before >= number:
                yield Finding(Severity.WARNING, place, f"entry {number} is not in order")
                break
            indexed.setdefault(key_hash, set()).add(position)
            reached += 1
            number = before
    if reached < file.count - 1:
        yield Finding(
            Severity.WARNING, place, f"{file.count - 1 - reached} entries cannot be reached"
        )
