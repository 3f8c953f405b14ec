"""The commit log: every message of a broker, one after another, in a row of mapped files.

    <commitlog>/00000000000000000000    1 GiB, records as in `rocketq.message.record.writer`
    <commitlog>/00000000001073741824

A record lies in one file. Where the next one does not fit, with 8 bytes to spare, the rest of
the file is a blank record and the log goes on in the next file.

The end of the log is a piece of mapped memory, `LogTail`, into which the appender writes. It
reaches as far as the file has been made safe to write (see `rocketq.store.files.disk`); when a
record does not fit, `make_room` moves it on.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rocketq.message.record.layout import BLANK_SIZE
from rocketq.message.record.writer import write_blank
from rocketq.store.config import StoreConfig
from rocketq.store.errors import StoreMismatch
from rocketq.store.files.allocation import FileAllocation
from rocketq.store.files.aside import Aside
from rocketq.store.files.disk import PAGE_SIZE, Disk
from rocketq.store.files.segment import Segment
from rocketq.store.files.segments import Segments, file_name
from rocketq.store.log.append import LogTail
from rocketq.store.log.record_marks import RecordMarks
from rocketq.store.results import PutStatus

logger = logging.getLogger(__name__)

_PIECE: Final = 64 * PAGE_SIZE
"""How much of a file is made safe to write at a time."""
_RETRY_S: Final = 1.0
_FAILED_FOR_S: Final = 10.0
"""How often a full disk is tried again."""
_LONGEST_BUSY_S: Final = 10.0


class CommitLog:
    """Owned by the store; touched on the event loop alone."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        *,
        monotonic: Callable[[], float],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """`on_failure` is told of every error; it decides whether the store goes on."""
        self.tail = LogTail()
        self.marks = RecordMarks()
        self.flushed = 0
        """Everything before it is on the disk."""
        self.busy_until = 0.0
        """The page cache is busy up to this time: making room took long, and may do so again."""
        self._file_size = config.mapped_file_size_commit_log
        self._folders = config.commit_log_folders
        self._forced_ratio = config.forced_ratio
        self._disk = disk
        self._aside = Aside(config.root)
        self._monotonic = monotonic
        self._on_failure = on_failure
        self._retry_at = 0.0
        self._failed_at = -_FAILED_FOR_S
        self._busy_s = config.os_page_cache_busy_time_out_mills / 1000
        self._segments = Segments(
            [*self._folders, *config.read_only_commit_log_folders],
            self._file_size,
            disk,
            reserve=True,
        )
        self._allocation = FileAllocation(disk, self._file_size, config.warm_maped_file_enable)
        self._on_growth: Callable[[], None] | None = None
        self._limit_when_watched = 0

    # What there is

    @property
    def segments(self) -> Segments:
        return self._segments

    @property
    def file_size(self) -> int:
        return self._file_size

    @property
    def end(self) -> int:
        """Where the next record will begin."""
        return self.tail.end

    @property
    def min_offset(self) -> int:
        """Where the oldest file begins."""
        first = self._segments.first
        return first.start if first is not None else 0

    @property
    def is_stuck(self) -> bool:
        """Whether the last attempt to grow failed, and not long ago."""
        return self._monotonic() - self._failed_at < _FAILED_FOR_S

    def load(self) -> None:
        self._segments.load()

    def read(self, position: int, size: int) -> memoryview | None:
        """Bytes of the log, None if the log does not have all of them."""
        if size <= 0 or position + size > self.tail.end:
            return None
        segment = self._segments.find(position)
        if segment is None or position + size > segment.end:
            return None
        return segment.slice(position, size)

    def view_at(self, position: int) -> tuple[memoryview, int] | None:
        """The whole file that holds a position, and where that file begins."""
        segment = self._segments.find(position)
        return (segment.view, segment.start) if segment is not None else None

    # The end of the log

    def when_grown(self, callback: Callable[[], None] | None) -> None:
        """Have the next append reported, and no other after it; None: nobody wants to know.

        The tail seems to be full until then, so that the append comes by here: those who want
        to know pay for it, and nobody else.
        """
        self._unwatch()
        if callback is not None:
            self._on_growth = callback
            self._limit_when_watched = self.tail.limit
            self.tail.limit = min(self.tail.limit, self.tail.end)

    def _unwatch(self) -> Callable[[], None] | None:
        """Let the tail have its room back."""
        callback, self._on_growth = self._on_growth, None
        if callback is not None:
            self.tail.limit = max(self.tail.limit, self._limit_when_watched)
        return callback

    def end_at(self, position: int) -> None:
        """Go on from here: what lies behind is cut off, and its bytes are not left to be found.

        Neither RocketMQ nor anybody else compares a record's own idea of its position with
        the real one, so old records behind a new end could come back to life.
        """
        self._unwatch()
        while self._segments.last is not None and self._segments.last.start >= position:
            if len(self._segments) == 1 and self._segments.last.start == position:
                break
            logger.info("%s lies behind the end of the log: removed", self._segments.last.path)
            self._segments.remove_last()
        self.tail.detach()
        self.tail.end = position
        self.flushed = position
        last = self._segments.last
        if last is not None and position < last.end:
            if last.data_ranges(position, last.end):
                last.clear_from(position)
            self._attach(last)
            self.tail.limit = position

    def cut_at(self, position: int) -> None:
        """As `end_at`, for a log in use: to cut it brings nothing to the disk."""
        flushed = min(self.flushed, position)
        self.end_at(position)
        self.flushed = flushed

    def make_room(self, size: int, *, is_mapped: bool = True) -> int:
        """Let the tail have this many bytes: a `PutStatus`, 0 when it has.

        Unless `is_mapped` they are in its file, but not safe to write except with `write`.
        """
        if size + BLANK_SIZE > self._file_size:
            return PutStatus.MESSAGE_ILLEGAL  # there is no file it could lie in
        grown = self._unwatch()
        if grown is not None:
            # It is in the log when this turn is over, and so is whatever follows in it.
            grown()
            if self._has_room(size, is_mapped=is_mapped):
                return PutStatus.PUT_OK
        now = self._monotonic()
        if now < self._retry_at:
            return PutStatus.CREATE_MAPPED_FILE_FAILED
        if now < self.busy_until:
            return PutStatus.OS_PAGE_CACHE_BUSY
        return self._on_disk(lambda: self._make_room(size, is_mapped=is_mapped))

    def write(self, records: memoryview) -> int:
        """Write records to where the tail ends, in its file: a `PutStatus`, 0 when it is done.

        The caller moves the end on.
        """
        return self._on_disk(lambda: self._write(records))

    def _on_disk(self, action: Callable[[], None]) -> int:
        """Do something that may fail, or take long when much is being written."""
        began = self._monotonic()
        try:
            action()
        except OSError as error:
            # Not tried again for every message while the disk stays full.
            self._failed_at = self._monotonic()
            self._retry_at = self._failed_at + _RETRY_S
            self._on_failure(error)
            return PutStatus.CREATE_MAPPED_FILE_FAILED
        self._failed_at = -_FAILED_FOR_S
        ended = self._monotonic()
        if ended - began > self._busy_s:
            logger.warning("the page cache is busy: it took %.1f s to get room", ended - began)
            self.busy_until = ended + min(ended - began, _LONGEST_BUSY_S)
        return PutStatus.PUT_OK

    def _write(self, records: memoryview) -> None:
        tail, segment = self.tail, self._segments.last
        assert segment is not None
        try:
            segment.write(records, tail.end)
        except OSError:
            # Whole records of it, found after a crash, would be taken for messages.
            segment.clear_from(tail.end)
            tail.limit = tail.end
            raise
        tail.limit = max(tail.limit, tail.end + len(records))

    def _has_room(self, size: int, *, is_mapped: bool) -> bool:
        tail = self.tail
        if tail.view is None or tail.end + size + BLANK_SIZE > tail.segment_end:
            return False
        return not is_mapped or tail.end + size <= tail.limit

    def _make_room(self, size: int, *, is_mapped: bool) -> None:
        tail = self.tail
        self.marks.note(tail.end)
        if tail.view is None or tail.end + size + BLANK_SIZE > tail.segment_end:
            self._roll()
        if is_mapped and tail.end + size > tail.limit:
            segment = self._segments.last
            assert segment is not None
            piece = max(_PIECE, size + BLANK_SIZE)
            limit = min(-(-(tail.end + piece) // PAGE_SIZE) * PAGE_SIZE, segment.end)
            start = max(tail.limit, tail.end)
            segment.write_zeros(start, limit - start)
            tail.limit = limit
        if tail.segment_end - tail.end < self._file_size // 4:
            self._allocation.prepare(self._path_of(tail.segment_end), tail.segment_end)

    def _roll(self) -> None:
        """End the file with a blank record, and go on in the next."""
        tail = self.tail
        start = tail.end
        if tail.view is not None:
            remaining = tail.segment_end - tail.end
            start = tail.segment_end
            if remaining > 0:
                segment = self._segments.last
                assert segment is not None
                assert remaining >= BLANK_SIZE, remaining
                if tail.end + BLANK_SIZE > tail.limit:
                    segment.write_zeros(max(tail.limit, tail.end), BLANK_SIZE)
        following = self._segments.find(start) or self._following(start)
        following.hold_open()  # what can fail comes before anything is changed
        if tail.view is not None and tail.end < start:
            write_blank(tail.view, tail.end - tail.segment_start, start - tail.end)
        tail.end = start
        self._attach(following)
        tail.limit = start

    def _following(self, start: int) -> Segment:
        """A new file behind the last one."""
        prepared = self._allocation.take(start)
        if prepared is not None:
            self._segments.adopt(prepared)
            return prepared
        path = self._path_of(start)
        if path.exists():
            # Not one of ours, or it would be in the row. Nobody knows what is in it.
            logger.error("%s is in the way: moved to %s", path, self._aside.take_file(path))
        segment = self._segments.create(start, path.parent)
        segment.new_folder = path.parent
        return segment

    def _attach(self, segment: Segment) -> None:
        segment.hold_open()
        self.tail.attach(segment.mapping, segment.start, segment.end)

    def _path_of(self, start: int) -> Path:
        """Where the file that begins here goes: folders take turns, full ones are left out."""
        folders = self._folders
        if len(folders) > 1:
            roomy = [
                folder for folder in folders if self._disk.usage(folder).ratio <= self._forced_ratio
            ]
            folders = sorted(roomy or folders)
        return folders[start // self._file_size % len(folders)] / file_name(start)

    # Bytes of another log

    def receive(self, position: int, pieces: Sequence[memoryview]) -> None:
        """Add bytes that somebody else's log has from this position on, as they are.

        They lie in one file and begin where this log ends; an empty log begins with them. They
        need not end where a record ends. Raises `OSError` if they cannot be written: then
        nothing of them is there.
        """
        size = sum(map(len, pieces))
        tail = self.tail
        if not len(self._segments):
            if position % self._file_size:
                raise StoreMismatch(
                    f"the master's log begins at {position}, which is no multiple of "
                    f"mappedFileSizeCommitLog={self._file_size}: both must have the same"
                )
            tail.end = self.flushed = position
            self.marks.start_from(position)
        assert position == tail.end, (position, tail.end)
        if tail.view is None or tail.end == tail.segment_end:
            self._roll()
        if tail.end + size > tail.segment_end:
            raise StoreMismatch(
                f"the master's file continues after {tail.segment_end}, where ours ends: "
                f"mappedFileSizeCommitLog={self._file_size} must be the same on both"
            )
        segment = self._segments.last
        assert segment is not None
        try:
            segment.write_all(pieces, position)
        except OSError:
            segment.clear_from(position)
            raise
        tail.end = position + size
        tail.limit = max(tail.limit, tail.end)
        if tail.segment_end - tail.end < self._file_size // 4:
            self._allocation.prepare(self._path_of(tail.segment_end), tail.segment_end)

    # Durability

    def unflushed(self) -> list[Segment]:
        """The files with bytes that are not known to be on the disk."""
        return [
            segment
            for segment in self._segments
            if segment.end > self.flushed and segment.start < self.tail.end
        ]

    def note_flushed(self, position: int) -> None:
        """Everything before this is on the disk."""
        self.flushed = max(self.flushed, position)
        for segment in self._segments:
            if segment.end <= self.flushed:
                segment.release_descriptor()

    # The front and the close

    def take_first(self) -> Segment:
        """Give up the oldest file; the caller removes it."""
        return self._segments.take_first()

    def unmap_idle(self) -> None:
        """Let go of files that nobody has read since the last time this was called."""
        for segment in self._segments:
            if segment.used or segment is self._segments.last:
                segment.used = False
            elif segment.is_mapped:
                segment.unmap()

    def close(self) -> None:
        self._allocation.discard()
        self.tail.detach()
        self._segments.close()
