"""The index of one queue: where each of its messages lies in the commit log.

A row of files of 20-byte entries, whose layout is in `rocketq.message.record.layout`:

    consumequeue/<topic>/<queue id>/00000000000000000000

Files have their full size from the beginning but are sparse: with tens of thousands of queues
nobody could afford to reserve them. Space is made a piece at a time, by writing zeros through
the descriptor, and an entry of zeros marks the end.

    0                               an entry that never was: numbering starts behind it, or
    2147483647 as size              its message was lost
    0

A queue whose first message here has a number above 0 has such fillers in front of it.

Derived data: what is behind, missing or wrong is made again from the log.
"""

import logging
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from rocketq.message.hashing import java_hash
from rocketq.message.record.layout import ENTRY, ENTRY_SIZE
from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import PAGE_SIZE, Disk
from rocketq.store.files.segment import Segment
from rocketq.store.files.segments import Segments, file_name
from rocketq.store.queues.queue_table import QueueRange
from rocketq.store.queues.queue_tail import QueueTail

logger = logging.getLogger(__name__)

FILLER_SIZE: Final = 0x7FFFFFFF
_FILLER: Final = ENTRY.pack(0, FILLER_SIZE, 0)

_FILLERS_AT_ONCE: Final = 512
_SMALLEST_PIECE: Final = PAGE_SIZE
_LARGEST_PIECE: Final = 64 * PAGE_SIZE
_MOST_WRONG: Final = 1_000


class QueueEntry(NamedTuple):
    """Where one message lies in the log."""

    position: int
    size: int
    tags_code: int

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE


class Verdict(Enum):
    """What the log says about an entry."""

    RIGHT = "it leads to its message"
    OTHER = "it leads to another message"
    NO_RECORD = "there is no whole record where it leads"


class QueueSync(NamedTuple):
    """Files and folders of a queue that have to be waited for, in a thread."""

    segments: list[Segment]
    folders: list[Path]


class QueueSurroundings(Protocol):
    """What a queue needs from those who keep it."""

    def queue_dirtied(self, queue: "ConsumeQueue") -> None: ...

    def queue_failed(self, queue: "ConsumeQueue", error: OSError) -> None: ...

    def queue_has_gap(self, queue: "ConsumeQueue") -> None: ...

    def judge_entry(self, queue: "ConsumeQueue", offset: int, entry: QueueEntry) -> Verdict: ...

    def segment_mapped(self, segment: Segment) -> None: ...


class ConsumeQueue:
    """Appended to by the dispatcher alone; read by anyone, from `min_offset` below `end_offset`."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        folder: Path,
        file_size: int,
        disk: Disk,
        surroundings: QueueSurroundings,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.tail = QueueTail(topic, queue_id, java_hash(topic + "#"), self)
        self.min_offset = 0
        self.has_gap = False
        """Whether entries are missing that the log may still have."""
        self.suspected: set[int] = set()
        """Numbers of entries for whose sake the queue was made again."""
        self._least_end = 0
        self._has_new_files = False
        self._synced_to = 0
        self._zeroed_to = 0
        self._attached: Segment | None = None
        self._folder = folder
        self._surroundings = surroundings
        self._segments = Segments([folder], file_size, disk, reserve=False)

    # Opening

    def open(self, log_end: int) -> None:
        """Find the end. Entries for positions that the log does not have are cut off.

        `log_end` is where the log ended when the store was opened: what lies behind it was
        not written by this process, whatever is there by now.
        """
        self._load_files()
        end = self._find_end()
        if self._has_something_behind(end):
            self._note_gap()
        entries = self._count_below(log_end, end)
        self._cut(entries)
        self._synced_to = self.tail.end

    def compare(self, expected: QueueRange) -> None:
        """Notice what has vanished since the store was closed."""
        if self.end_offset != expected.end or self.first_offset > expected.first:
            logger.warning("%s had entries %d to %d", self, expected.first, expected.end)
            self._least_end = expected.end
            self._note_gap()

    def check_end(self, log_min: int) -> None:
        """Cut off what looks like entries at the end and is not."""
        end = self.end_offset
        while end > self.first_offset and not self._can_be_entry(end - 1, log_min):
            end -= 1
            if self.end_offset - end > _MOST_WRONG:
                break
        if end < self.end_offset:
            logger.warning("%s: from %d on there are no entries", self, end)
            self._cut(end)
            self._note_gap()

    def _can_be_entry(self, offset: int, log_min: int) -> bool:
        """Whether an entry is right, as far as the log can tell.

        The record it leads to may be damaged, or deleted: then it has to lie behind that of
        the entry before it.
        """
        entry = self._entry(offset)
        if entry.is_filler:
            return True
        verdict = self._surroundings.judge_entry(self, offset, entry)
        if verdict is not Verdict.NO_RECORD:
            return verdict is Verdict.RIGHT
        if offset == self.first_offset:
            return entry.position >= 0
        before = self._entry(offset - 1)
        return before.is_filler or 0 <= before.position + before.size <= entry.position

    def leave_out_before(self, beginning: int) -> None:
        """Drop the entries of an earlier life of the topic, which the log had before this."""
        if beginning == 0 or self.tail.end_position == 0:
            return
        if self.tail.end_position <= beginning:
            self.clear()
            return
        first = self._entry(self._behind_fillers(self.first_offset))
        if first.position < beginning:
            self.clear()  # its numbers are of the earlier life too
            self._note_gap()

    def create_empty(self) -> None:
        """Begin a queue that has no files yet."""
        self._set_end(0)

    def _load_files(self) -> None:
        if not self._folder.is_dir():
            return
        size = self._segments.file_size
        for path in sorted(self._folder.iterdir()):
            if path.is_dir() or not path.name.isdigit():
                continue
            actual = path.stat().st_size
            if actual == size:
                continue
            if actual > size:
                raise StoreMismatch(f"{path} has {actual} bytes; {size} are configured")
            # A cut file holds entries that the log still has; made whole, the lost part reads
            # as empty and is filled again from the log.
            logger.warning("%s has %d of %d bytes: lengthened", path, actual, size)
            self.has_gap = True
            with open(path, "r+b") as file:
                file.truncate(actual // ENTRY_SIZE * ENTRY_SIZE)
                file.truncate(size)
        self._segments.load()

    def _find_end(self) -> int:
        """The number of entries, counted from the queue's beginning; fillers count."""
        # What lies behind a gap is made again from the log, together with what was there.
        whole = 1
        while whole < len(self._segments) and self._is_whole(whole - 1):
            whole += 1
        while len(self._segments) > whole:
            logger.warning("%s lies behind a gap: removed", self._segments[-1].path)
            self._segments.remove_last()
            self.has_gap = True
        while self._segments.last is not None:
            last = self._segments.last
            count = self._count_in(last)
            if count or len(self._segments) == 1:
                return last.start // ENTRY_SIZE + count
            # An empty file is good for nothing yet.
            self._segments.remove_last()
        return 0

    def _has_something_behind(self, end: int) -> bool:
        """Whether the last file holds anything behind its last entry."""
        last = self._segments.last
        if last is None or end * ENTRY_SIZE >= last.end:
            return False
        start = max(end * ENTRY_SIZE, last.start)
        ranges = last.data_ranges(start, last.end)
        return any(bytes(last.slice(at, stop - at)).strip(b"\0") for at, stop in ranges)

    def _is_whole(self, index: int) -> bool:
        """Whether a file is full, and the one after it follows without a gap."""
        segment = self._segments[index]
        _, size, _ = ENTRY.unpack_from(segment.view, segment.size - ENTRY_SIZE)
        self._surroundings.segment_mapped(segment)
        return size > 0 and self._segments[index + 1].start == segment.end

    def _count_in(self, segment: Segment) -> int:
        """How many entries a file holds: they are contiguous from its beginning."""
        view = segment.view
        low, high = 0, segment.size // ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            position, size, _ = ENTRY.unpack_from(view, middle * ENTRY_SIZE)
            if position >= 0 and size > 0:
                low = middle + 1
            else:
                high = middle
        self._surroundings.segment_mapped(segment)
        return low

    def _count_below(self, log_end: int, end: int) -> int:
        """How many of the entries lie in the log as it is."""
        while end > self.first_offset:
            entry = self._entry(end - 1)
            if entry.is_filler or entry.position + entry.size <= log_end:
                return end
            end -= 1
        return end

    def _cut(self, entries: int) -> None:
        """Forget everything from an entry on, and leave no trace of it to be found later."""
        end = entries * ENTRY_SIZE
        while self._segments.last is not None and self._segments.last.start > end:
            self._segments.remove_last()
        last = self._segments.last
        if last is not None and last.start == end and len(self._segments) > 1:
            self._segments.remove_last()
            last = self._segments.last
        self._set_end(end)
        if last is not None and end < last.end:
            view = last.view
            at = end - last.start
            stop = at
            while stop < last.size and any(view[stop : stop + ENTRY_SIZE]):
                stop += ENTRY_SIZE
            if stop > at:
                last.write(bytes(stop - at), end)
                self._synced_to = min(self._synced_to, end)

    def cut_at(self, log_end: int) -> None:
        """Forget the entries for what the log no longer has."""
        self._cut(self._count_below(log_end, self.end_offset))

    def _set_end(self, end: int) -> None:
        tail = self.tail
        tail.detach()
        tail.end = end
        self._zeroed_to = 0
        tail.next_offset = end // ENTRY_SIZE
        tail.end_position = 0
        for offset in range(tail.next_offset - 1, self.first_offset - 1, -1):
            entry = self._entry(offset)
            if not entry.is_filler:
                tail.end_position = entry.position + entry.size
                break
        self.min_offset = max(self.min_offset, self.first_offset)

    # What there is

    @property
    def first_offset(self) -> int:
        """The number of the first entry that has a file."""
        first = self._segments.first
        return first.start // ENTRY_SIZE if first is not None else 0

    @property
    def end_offset(self) -> int:
        """The number of the entry that will be added next."""
        return self.tail.end // ENTRY_SIZE

    @property
    def segments(self) -> Segments:
        return self._segments

    def read(self, offset: int) -> QueueEntry | None:
        """One entry, None where there is none."""
        if not self.first_offset <= offset < self.end_offset:
            return None
        entry = self._entry(offset)
        return entry if entry.size > 0 else None

    def _entry(self, offset: int) -> QueueEntry:
        segment = self._segments.find(offset * ENTRY_SIZE)
        assert segment is not None, offset
        at = offset * ENTRY_SIZE - segment.start
        was_mapped = segment.is_mapped
        entry = QueueEntry._make(ENTRY.unpack_from(segment.view, at))
        if not was_mapped:
            self._surroundings.segment_mapped(segment)
        return entry

    def entries(self, offset: int, count: int) -> Iterator[QueueEntry]:
        """Entries one after another, from a number on."""
        for number in range(max(offset, self.first_offset), min(offset + count, self.end_offset)):
            yield self._entry(number)

    def window(self, offset: int) -> tuple[memoryview, int, int] | None:
        """The file that holds an entry: its bytes, the first entry's number, the end's."""
        segment = self._segments.find(offset * ENTRY_SIZE)
        if segment is None:
            return None
        was_mapped = segment.is_mapped
        view = segment.view
        if not was_mapped:
            self._surroundings.segment_mapped(segment)
        end = min(segment.end, self.tail.end)
        return view, segment.start // ENTRY_SIZE, end // ENTRY_SIZE

    def next_file_offset(self, offset: int) -> int:
        """The first entry of the file after the one that would hold this entry."""
        size = self._segments.file_size // ENTRY_SIZE
        return (offset // size + 1) * size

    # Adding

    def make_room(self) -> bool:
        """Give the tail memory for its next entry; False when the disk has none to give."""
        try:
            self._make_room()
        except OSError as error:
            self._surroundings.queue_failed(self, error)
            return False
        return True

    def _make_room(self) -> None:
        end = self.tail.end
        segment = self._segments.find(end)
        if segment is None:
            last = self._segments.last
            start = end // self._segments.file_size * self._segments.file_size
            assert last is None or start == last.end, (start, last)
            segment = self._create(start, end)
        if not segment.is_mapped:
            segment.hold_open()  # once for all of what follows
        try:
            limit = self._zeroed_limit(segment, end)
            self._attach(segment, limit)
        finally:
            segment.release_descriptor()

    def _zeroed_limit(self, segment: Segment, end: int) -> int:
        """Make the next piece of the file safe to write; pieces grow with the file."""
        if not end + ENTRY_SIZE <= self._zeroed_to <= segment.end:
            written = end - segment.start
            piece = min(max(_SMALLEST_PIECE, written), _LARGEST_PIECE)
            stop = min(-(-(written + piece) // PAGE_SIZE) * PAGE_SIZE, segment.size)
            segment.write_zeros(end, stop - written)
            self._zeroed_to = segment.start + stop
        return self._zeroed_to

    def _create(self, start: int, end: int) -> Segment:
        segment = self._segments.create(start)
        self._has_new_files = True
        if start < end and self._segments.first is segment:
            try:
                self._fill_front(segment, end)
            except OSError:
                self._segments.remove_last()  # without its fillers it would look empty
                raise
        return segment

    def _fill_front(self, segment: Segment, end: int) -> None:
        """Number the queue's first message here: fillers stand for those before it."""
        segment.write(_FILLER * ((end - segment.start) // ENTRY_SIZE), segment.start)

    def begin_at(self, offset: int) -> None:
        """Let an empty queue begin with this number."""
        assert self.tail.end == 0, self
        assert len(self._segments) == 0, self
        self.tail.end = offset * ENTRY_SIZE
        self.tail.next_offset = offset
        self.min_offset = offset

    def put_at(self, offset: int, position: int, size: int, tags_code: int) -> bool:
        """Add or correct an entry that is not simply the next one.

        Used where the log is read again: entries that are right already stay as they are.
        A number beyond the end leaves fillers behind for messages that may be found later.
        """
        if offset < self.end_offset:
            return self._correct(offset, position, size, tags_code)
        if position < self.tail.end_position:
            # Numbers grow with positions. RocketMQ does not write down that a topic was
            # deleted, but the files of a topic that was made again tell.
            logger.debug("%s: the record at %d is of an earlier life", self, position)
            return True
        if offset > self.end_offset:
            self._note_gap()
            if self.end_offset == 0 and len(self._segments) == 0:
                self.begin_at(offset)
            if not self._fill_to(offset):
                return False
        return self.tail.put_at(offset, position, size, tags_code)

    def _fill_to(self, offset: int) -> bool:
        """Put fillers up to a number, and have the message of that number come next."""
        reached = self.tail.end_position
        while self.end_offset < offset:
            if not self.tail.put(0, FILLER_SIZE, 0):
                return False
            self.tail.end_position = reached
        self.tail.next_offset = max(self.tail.next_offset, offset)
        return True

    def _note_gap(self) -> None:
        if not self.has_gap:
            self.has_gap = True
            self._surroundings.queue_has_gap(self)

    def _correct(self, offset: int, position: int, size: int, tags_code: int) -> bool:
        if offset < self.first_offset:
            # Files go when all they point at is gone from the log; this one's message is not.
            self._note_gap()
            return True
        entry = self._entry(offset)
        if (
            entry.position != position
            and size != FILLER_SIZE
            and self._surroundings.judge_entry(self, offset, entry) is Verdict.RIGHT
        ):
            if entry.position > position:
                logger.debug("%s: the record at %d is of an earlier life", self, position)
            else:
                logger.error("%s: the record at %d has the number of another", self, position)
            return True
        if entry != (position, size, tags_code):
            segment = self._segments.find(offset * ENTRY_SIZE)
            assert segment is not None, offset
            try:
                segment.write(ENTRY.pack(position, size, tags_code), offset * ENTRY_SIZE)
            except OSError as error:
                self._surroundings.queue_failed(self, error)
                return False
            self._synced_to = min(self._synced_to, offset * ENTRY_SIZE)
            self._surroundings.queue_dirtied(self)
            if offset == self.end_offset - 1 and size != FILLER_SIZE:
                self.tail.end_position = position + size
        self._attach_for_reading()
        return True

    def _attach_for_reading(self) -> None:
        """Let the tail see the entries it is asked to compare."""
        segment = self._segments.last
        if self.tail.limit == 0 and segment is not None:
            self._attach(segment, self.tail.end)

    def _attach(self, segment: Segment, limit: int) -> None:
        """Let the tail work on a file's memory, and on no other's any more."""
        if segment.holder is None:
            # Others may be let go of for it, the one that the tail has now among them.
            assert segment.mapping is not None
            self._surroundings.segment_mapped(segment)
        if self._attached is not None and self._attached is not segment:
            self._attached.holder = None
        self._attached = segment
        self.tail.attach(segment.mapping, segment.start, limit)
        segment.holder = self.tail

    def note_dirty(self) -> None:
        self._surroundings.queue_dirtied(self)

    # The front

    def correct_min_offset(self, log_min: int) -> None:
        """Move the first readable entry up to where the log begins."""
        self.min_offset = self._behind_fillers(self._first_from(log_min))

    def _behind_fillers(self, offset: int) -> int:
        """The first entry from a number on that stands for a message."""
        while offset < self.end_offset:
            window = self.window(offset)
            assert window is not None, offset
            view, first, end = window
            count = min(end - offset, _FILLERS_AT_ONCE)
            at = (offset - first) * ENTRY_SIZE
            if view[at : at + count * ENTRY_SIZE] != _FILLER * count:
                break
            offset += count
        while offset < self.end_offset and self._entry(offset).is_filler:
            offset += 1
        return offset

    def _first_from(self, position: int) -> int:
        """The number of the first message that lies at or behind a position of the log."""
        low, high = self.first_offset, self.end_offset
        below, above = 0, self.tail.end_position
        while low < high:
            middle = (low + high) // 2
            found = self._position_from(middle, high, above)
            if not below <= found <= above:
                self._note_gap()  # numbers grow with positions: some of these are wrong
                return low
            if found < position:
                low, below = middle + 1, found
            else:
                high, above = middle, found
        return low

    def _position_from(self, offset: int, stop: int, otherwise: int) -> int:
        """Where the message lies in the log, or the next one before `stop` that was not lost."""
        for number in range(offset, stop):
            entry = self._entry(number)
            if not entry.is_filler:
                return entry.position if entry.size > 0 else -1
        return otherwise

    def is_in_order(self) -> bool:
        """Whether all entries could be right: a look at each of them."""
        reached = 0
        for segment in self._segments:
            end = min(segment.end, self.tail.end)
            for position, size, _ in ENTRY.iter_unpack(
                segment.slice(segment.start, end - segment.start)
            ):
                if size == FILLER_SIZE:
                    continue
                if position < reached or size <= 0:
                    return False
                reached = position + size
        return True

    def forget_between(self, start: int, stop: int) -> int:
        """Put fillers in the place of entries for a damaged part of the log."""
        forgotten = 0
        for offset in range(self._first_from(start), self.end_offset):
            entry = self._entry(offset)
            if entry.is_filler or entry.position < start:
                continue
            if entry.position >= stop:
                break
            if self._correct(offset, 0, FILLER_SIZE, 0):
                forgotten += 1
        return forgotten

    def remove_files_below(self, log_min: int, at_most: int = sys.maxsize) -> int:
        """Delete files all of whose messages are gone from the log, never the last one."""
        removed = 0
        while len(self._segments) > 1 and removed < at_most:
            first = self._segments[0]
            last_entry = self._entry(first.end // ENTRY_SIZE - 1)
            if not last_entry.is_filler and last_entry.position >= log_min:
                break
            self._segments.remove_first()
            removed += 1
        self.min_offset = max(self.min_offset, self.first_offset)
        self.correct_min_offset(log_min)
        return removed

    # The end

    def unsynced(self) -> "QueueSync":
        """What has to be waited for until all entries are on the disk; they then count as such."""
        segments = [
            segment
            for segment in self._segments
            if segment.end > self._synced_to and segment.start < self.tail.end
        ]
        folders: list[Path] = []
        if self._has_new_files:
            self._has_new_files = False
            folders = [self._folder, self._folder.parent, self._folder.parent.parent]
        self._synced_to = self.tail.end
        return QueueSync(segments, folders)

    def close(self) -> None:
        self.tail.detach()
        self._segments.close()

    def clear(self) -> None:
        """Begin anew, without any entries."""
        self._synced_to = 0
        self._segments.remove_all()
        self.min_offset = 0
        self._set_end(0)

    def begin_again(self) -> None:
        """Forget all entries, to have them put once more; numbers are not given twice."""
        self._least_end = max(self._least_end, self.end_offset)
        self.clear()
        self.has_gap = True

    def end_again(self) -> None:
        """All entries that the log has are here; the others are lost, their numbers are not."""
        least, self._least_end = self._least_end, 0
        if self.end_offset < least:
            if self.end_offset == 0:
                self.begin_at(least - 1)
            self._fill_to(least)
        self.has_gap = False

    def retire(self) -> None:
        """Let go of everything: the queue is deleted, and its files are somebody else's."""
        self.tail.retire()
        self._segments.close()

    def destroy(self) -> None:
        """Delete the queue's files."""
        self.tail.retire()
        self._segments.remove_all()
        try:
            self._folder.rmdir()
            self._folder.parent.rmdir()
        except OSError:
            pass  # something of somebody else's is in there, or it never existed

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic}/{self.queue_id}, {self.min_offset}..{self.end_offset})"


__all__ = ["FILLER_SIZE", "ConsumeQueue", "QueueEntry", "file_name"]
