"""A slave's log: bytes of the master's, appended as they come, dispatched record by record.

Bytes come in pieces that end anywhere, so the log may end in the middle of a record. What is
whole is dispatched, and so can be read; the rest waits for its end. When the store is closed,
or the broker becomes master, an unfinished record is cut off: the master sends it again.

    dispatched                           end of the log
    ------------------------------------|=========|
    whole records, readable              beginning of a record

How much there is for a master to count on: what is in the page cache, or with SYNC_FLUSH what
is on the disk.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rocketq.message.record.layout import BLANK_SIZE
from rocketq.message.record.reader import check_record
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.flush import LogFlush
from rocketq.store.durability.log_scan import LogScan
from rocketq.store.log.cold_data import ColdData
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.replication.epochs import OPEN_END

logger = logging.getLogger(__name__)

_MARK_EVERY: Final = 1 << 18


class ReceivedLog:
    """Owned by the store; runs on the event loop alone."""

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        cold: ColdData,
        flush: LogFlush,
        *,
        is_sync_flush: bool,
        catch_up: Callable[[], None],
        topic_count: Callable[[], int],
        truncate: Callable[[int], Awaitable[None]],
    ) -> None:
        self.on_new_topic: Callable[[], None] | None = None
        """Called when the log has brought messages of a topic that was not there before."""
        self.confirmed = OPEN_END
        """What lies behind it may still be taken back, and is not shown. A master says."""
        self._log = log
        self._dispatcher = dispatcher
        self._cold = cold
        self._flush = flush
        self._is_sync_flush = is_sync_flush
        self._catch_up = catch_up
        self._topic_count = topic_count
        self._truncate = truncate
        self._is_dispatch_planned = False
        self._stuck_at = -1
        self._mark_at = 0
        self._on_durable: Callable[[], None] | None = None
        self._topics_seen = 0
        self._awaited: dict[asyncio.Future[None], int] = {}

    @property
    def begin(self) -> int:
        return self._log.min_offset

    @property
    def end(self) -> int:
        """Where the next byte goes; 0 for a log that has none."""
        return self._log.end

    @property
    def is_empty(self) -> bool:
        return len(self._log.segments) == 0

    @property
    def dispatched(self) -> int:
        """What lies before it could be read."""
        return self._dispatcher.position

    @property
    def safe_end(self) -> int:
        """How much a master may count on."""
        return self._log.flushed if self._is_sync_flush else self._log.end

    def begins_file(self, position: int) -> bool:
        return position % self._log.file_size == 0

    async def reached(self, position: int) -> None:
        """Wait until the log has come this far."""
        if self._log.end < position:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited[arrived] = position
            try:
                await arrived
            finally:
                self._awaited.pop(arrived, None)

    async def flush(self) -> None:
        """Wait until all of it is on the disk."""
        await self._flush.flush()

    def when_durable(self, callback: Callable[[], None] | None) -> None:
        """Have it told when `safe_end` has grown by a flush."""
        self._on_durable = callback

    def confirm(self, position: int) -> None:
        """Everything before it will stay: it may be shown."""
        if position > self.confirmed or self.confirmed == OPEN_END:
            self.confirmed = position
            if not self._is_dispatch_planned and self._dispatcher.position < self._log.end:
                self._is_dispatch_planned = True
                asyncio.get_running_loop().call_soon(self._dispatch)

    def is_boundary(self, position: int) -> bool:
        """Whether the log can end here: a whole record begins here, or nothing does."""
        if position in (self._log.end, self._dispatcher.position):
            return True
        if position % self._log.file_size == 0:
            return True
        head = self._log.read(position, BLANK_SIZE)
        if head is None:
            return False
        size = int.from_bytes(head[:4], "big", signed=True)
        record = self._log.read(position, size)
        if record is None:
            return False
        check = check_record(record)
        return check.is_valid or check.is_blank

    async def truncate(self, position: int) -> None:
        """Let the log end here, and forget all that was derived from what lay behind."""
        await self._truncate(position)
        self._stuck_at = -1
        self._mark_at = min(self._mark_at, position + _MARK_EVERY)

    def append(self, position: int, pieces: Sequence[memoryview]) -> None:
        """Take bytes that begin at the end of the log, or in an empty one at a file's beginning.

        `show` makes them readable: the report that they are here goes out first.
        Raises `OSError` when they cannot be written, `StoreMismatch` when they do not fit.
        """
        if self.is_empty:
            self._log.receive(position, pieces)
            # Nothing before this was ever here: queues begin with what comes now.
            self._dispatcher.position = position
            self._cold.start_from(position)
        else:
            self._log.receive(position, pieces)
        if self._awaited:
            self._tell_awaited()
        if self._is_sync_flush:
            self._flush.request()

    def _tell_awaited(self) -> None:
        for arrived in [each for each, at in self._awaited.items() if at <= self._log.end]:
            del self._awaited[arrived]
            if not arrived.done():
                arrived.set_result(None)

    def show(self) -> None:
        """Make readable what has come, unless it has to be on the disk first."""
        if not self._is_sync_flush and self._dispatcher.position != self._stuck_at:
            self.dispatch()  # else damage: looked at again by housekeeping, not with every piece

    def _dispatch(self) -> None:
        self._is_dispatch_planned = False
        if self._dispatcher.position != self._stuck_at:
            self.dispatch()

    def dispatch(self) -> None:
        """Make readable what is whole."""
        before = self._dispatcher.position
        try:
            self._catch_up()
        except OSError as error:
            logger.error("received records cannot be dispatched: %s", error)
        reached = self._dispatcher.position
        is_stuck = reached == before and self._log.end - reached > self._log.file_size // 2
        self._stuck_at = reached if is_stuck else -1
        self._look_for_topics()
        if reached >= self._mark_at:
            self._log.marks.note(reached)
            self._mark_at = reached + _MARK_EVERY

    def flushed(self) -> None:
        """The log is on the disk up to `CommitLog.flushed`, and dispatched."""
        self._look_for_topics()
        if self._on_durable is not None and self._is_sync_flush:
            self._on_durable()

    def _look_for_topics(self) -> None:
        topics = self._topic_count()
        if topics > self._topics_seen and self.on_new_topic is not None:
            self.on_new_topic()
        self._topics_seen = topics

    def cut_torn_end(self) -> None:
        """Let the log end with a whole record, dispatched or not.

        Before every connection: the end of a record has to come from where its beginning did. A
        master that lost its own end with the power may have another record in that place.
        """
        at, end = self._dispatcher.position, self._log.end
        while at < end:
            head = self._log.read(at, 4)
            size = 0 if head is None else int.from_bytes(head, "big", signed=True)
            if size <= 0 or at + size > end:
                break
            at += size
        self._cut(at)

    def _cut(self, position: int) -> None:
        if position < self._log.end and not self.is_empty:
            logger.info(
                "the log ends at %d: %d bytes of an unfinished record are cut off",
                *(position, self._log.end - position),
            )
            self._flush.cut_at(position)
            self._log.cut_at(position)
            self._stuck_at = -1

    def last_record(self) -> tuple[int, memoryview] | None:
        """Where the last whole record begins, and its bytes; None if there is none."""
        end = self._dispatcher.position
        start = self._dispatcher.last_start
        if not self._log.min_offset <= start < end:
            start = self._find_last(end)
        if start < 0:
            return None
        head = self._log.read(start, 4)
        record = None
        if head is not None:
            record = self._log.read(start, int.from_bytes(head, "big", signed=True))
        return (start, record) if record is not None else None

    def _find_last(self, end: int) -> int:
        """Read the newest part of the log that has a record; files end with blank space."""
        segments = self._log.segments
        starts = [segment.start for segment in segments if segment.start < end]
        for start in (self._log.marks.oldest, *reversed(starts)):
            if self._log.min_offset <= start < end:
                last = -1
                for found in LogScan(segments, start, end, check_crc=False):
                    last = found.position
                if last >= 0:
                    return last
        return -1
