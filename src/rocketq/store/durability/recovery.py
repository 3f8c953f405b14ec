"""Opening a store: where the log ends, and what has to be derived from it again.

After a clean stop everything is where it should be, and only the last few megabytes are looked
at. After a crash the log is read from the last place up to which everything is known to be
right, which the checkpoint tells (see `rocketq.store.durability.checkpoint`):

    by rocketq                      a position at most some seconds before the crash
    by RocketMQ's part of it        the newest file that is older than the times it holds

Every record read is compared with its entry in the consume queue and put there if it is not.
A torn record at the end is cut off; damage before the end is reported and stepped over.

Two things are looked for beyond that, and cost a longer pass where they are found: a queue
that lacks entries from before the place where reading began, and an index that ends before it.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.message.names import is_system_topic
from rocketq.message.record.reader import RecordFields, check_record, read_record
from rocketq.store.config import StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.checkpoint import Checkpoint
from rocketq.store.durability.log_scan import (
    MAGIC_SIZE,
    Damage,
    Found,
    LogPass,
    LogReplay,
    LogScan,
    magic_numbers,
)
from rocketq.store.durability.replay import NEVER, Replay
from rocketq.store.files.aside import Aside
from rocketq.store.files.segment import Segment
from rocketq.store.index.index import Index, key_hashes
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.log.record_marks import RecordMarks
from rocketq.store.queues.consume_queue import ConsumeQueue, QueueEntry, Verdict
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_table import QueueTable
from rocketq.store.queues.queue_tail import QueueTail

logger = logging.getLogger(__name__)

_NO_END: Final = 1 << 62
_BLANK_MAGIC: Final = b"\xcb\xd4\x31\x94"


@dataclass(slots=True)
class RecoveryReport:
    """What opening a store found and did."""

    is_clean: bool
    """Whether the store had been closed in good order."""
    may_lack_its_end: bool = False
    """Whether messages may be gone that were there: the computer has stopped since."""
    start: int = 0
    """Where reading the log began."""
    end: int = 0
    cut_from: int | None = None
    """Where a torn record was cut off."""
    damages: list[Damage] = field(default_factory=list)
    lost_from: int | None = None
    """Where a copy ends, because the power took something there that others have."""
    rebuilt_queues: list[str] = field(default_factory=list)
    set_aside: list[Path] = field(default_factory=list)
    """Where that is kept which lay behind the end and might be missed."""
    last_timestamp: int = 0


class Recovery:
    """Used once, before a store takes its first message."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: Checkpoint,
        dispatcher: Dispatcher,
        beginnings: Beginnings,
    ) -> None:
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._dispatcher = dispatcher
        self._beginnings = beginnings
        self._is_crashed = False
        self._table: QueueTable | None = None
        self._unfinished: Sequence[tuple[str, int]] = ()
        self._ends_at_loss = False

    def run(
        self,
        *,
        crashed: bool,
        table: QueueTable | None = None,
        unfinished: Sequence[tuple[str, int]] = (),
        is_copy: bool = False,
    ) -> RecoveryReport:
        """Bring everything into a state from which the store can go on.

        `table` says what queues had at the last stop. `unfinished` queues were being made
        again when the store was last open. A copy ends where the power took something: it would
        say that it has everything up to its end. What lies behind the gap, others have as well.
        """
        self._queues.judge = self._judge_entry
        self._table = None if crashed else table
        self._unfinished = unfinished
        self._is_crashed = crashed
        report = RecoveryReport(is_clean=not crashed)
        progress = self._checkpoint.progress
        report.may_lack_its_end = crashed and (progress is None or not progress.is_same_boot)
        self._ends_at_loss = is_copy and report.may_lack_its_end
        if len(self._log.segments) == 0:
            # Without a log there is nothing that queues and index could point at.
            self._queues.remove_all()
            if self._index is not None:
                self._index.remove_all()
            self._log.end_at(0)
            return report
        if self._index is not None:
            self._index.fit_to_log(self._log.segments[-1].end)
        if self._index is not None and report.may_lack_its_end:
            self._index.rebuild_last(_NO_END)
        report.start = self._start(crashed)
        logger.info(
            "reading the log from %d on, after a %s", report.start, "crash" if crashed else "stop"
        )
        self._queues.set_log_range(self._log.min_offset, _NO_END)
        self._queues.remove_earlier_lives(self._beginnings.marks())
        self._read(report)
        self._set_aside(report)
        self._make_damages_last(report)
        self._log.end_at(report.end)
        self._note_durable(report)
        self._queues.set_log_range(self._log.min_offset, report.end)
        for queue in self._queues.opened():
            queue.cut_at(report.end)
            queue.correct_min_offset(self._log.min_offset)
        if report.damages:
            for queue in self._queues.all():
                for damage in report.damages:
                    queue.forget_between(damage.position, damage.end)
        self._dispatcher.position = report.end
        return report

    def _note_durable(self, report: RecoveryReport) -> None:
        """Say how much of the log is on the disk, which after a crash need not be all of it."""
        if report.is_clean:
            self._log.flushed = report.end
            return
        progress = self._checkpoint.progress
        durable = report.start if progress is None else progress.log_durable
        self._log.flushed = min(durable, report.end)
        if self._config.is_sync_flush:
            # Readers see nothing that could still be lost.
            for segment in self._log.unflushed():
                segment.sync()
            self._log.note_flushed(report.end)

    # Where to begin

    def _start(self, crashed: bool) -> int:
        progress = self._checkpoint.progress
        lowest = self._log.min_offset
        if not self._queues.topics():
            return lowest  # somebody wants them made anew
        if progress is None:
            return max(lowest, self._start_by_java(crashed))
        start = progress.record_start
        if crashed:
            dispatched = progress.dispatched if progress.is_same_boot else progress.queues_durable
            start = min(start, dispatched)
        if start <= lowest:
            return lowest
        # A position from a file that has vanished, or was replaced, helps nobody.
        if start != progress.log_end and not self._is_record_start(start):
            return max(lowest, self._start_by_java(crashed))
        return start

    def _is_record_start(self, position: int) -> bool:
        segment = self._log.segments.find(position)
        if segment is None:
            return False
        check = check_record(segment.view, position - segment.start, False, False)
        return check.is_valid or check.is_blank

    def _start_by_java(self, crashed: bool) -> int:
        """The beginning of a file, chosen as RocketMQ chooses it."""
        checkpoint = self._checkpoint
        for segment in reversed(list(self._log.segments)):
            first = self._first_record(segment)
            if first is None or first.store_timestamp == 0:
                continue
            if not crashed:
                return segment.start
            if checkpoint.logics_physical_offset > 0:
                is_old_enough = first.physical_offset <= checkpoint.logics_physical_offset
            else:
                is_old_enough = first.store_timestamp <= checkpoint.min_timestamp
            if is_old_enough:
                return segment.start
        return self._log.min_offset

    def _first_record(self, segment: Segment) -> RecordFields | None:
        if not check_record(segment.view, 0, True, False).is_valid:
            return None
        return read_record(segment.view, 0)

    # Reading

    def _read(self, report: RecoveryReport) -> None:
        index_from = self._index_start(report.start)
        if index_from < report.start:
            logger.warning("the index ends at %d: made again from there", index_from)
            self._replay(index_from, report.start, self._queues.open_tail)
        self._log.marks.start_from(report.start)
        done = self._replay(report.start, None, self._queues.open_tail, self._log.marks)
        report.end = done.position
        report.damages += done.damages
        self._judge_end(report)
        report.last_timestamp = done.last_timestamp
        if self._index is not None and not self._index_is_whole(crashed=not report.is_clean):
            self._mend_index(report)
        if self._table is not None and self._table.log_end == report.end:
            self._queues.expect(self._table.queues)
        self._look_at_own_queues()
        for topic, queue_id in self._unfinished:
            if queue_id >= 0:
                self._queues.incomplete[topic, queue_id] = self._queues.get(topic, queue_id)
            else:
                self._queues.remove_topic(topic)
                self._replay(self._log.min_offset, report.end, self._of_topic(topic))
        if self._queues.incomplete:
            self._rebuild(report)

    def _look_at_own_queues(self) -> None:
        """Open the queues that the broker itself works with: these must be right at once."""
        for topic in self._queues.topics():
            if is_system_topic(topic):
                for queue_id in self._queues.queue_ids(topic):
                    queue = self._queues.find(topic, queue_id)
                    if queue is not None and not queue.is_in_order():
                        self._queues.incomplete[topic, queue_id] = queue

    def _of_topic(self, wanted: str) -> Callable[[str, int], QueueTail | None]:
        def open_tail(topic: str, queue_id: int) -> QueueTail | None:
            return self._queues.open_tail(topic, queue_id) if topic == wanted else None

        return open_tail

    def _replay(
        self,
        start: int,
        stop: int | None,
        open_tail: Callable[[str, int], QueueTail | None],
        marks: RecordMarks | None = None,
    ) -> LogReplay:
        """Dispatch a part of the log again."""
        replay = Replay(
            self._dispatcher,
            open_tail,
            self._config.check_crc_on_recover,
            self._config.force_verify_prop_crc and self._is_crashed,
            self._complete_from(),
            marks,
            beginnings=self._beginnings.by_name,
            sectors_from=self._sectors_from(),
        )
        log_pass = LogReplay(
            self._log.segments,
            start,
            stop,
            replay,
            durable=self._log_kept(),
            vouch=self._is_in_its_queue,
            ends_at_loss=self._ends_at_loss,
        )
        if not log_pass.run():
            # Nothing can be served without its entries; better not to start.
            failure = self._queues.failure or (self._index.failure if self._index else None)
            assert failure is not None
            raise failure
        return log_pass

    def _complete_from(self) -> int:
        """Where records begin that may have been torn: those that were not flushed."""
        progress = self._checkpoint.progress
        if progress is None or (progress.is_clean and not self._is_crashed):
            return NEVER
        return progress.log_durable

    def _sectors_from(self) -> int:
        """Where records begin of which the power may have taken any sector."""
        if not self._is_crashed:
            return NEVER
        progress = self._checkpoint.progress
        return 0 if progress is None else progress.log_durable

    def _log_kept(self) -> int:
        progress = self._checkpoint.progress
        return progress.log_kept if progress is not None else 0

    def _is_in_its_queue(self, found: Found) -> bool:
        """Whether a queue has an entry for this very record."""
        fields = found.fields
        topic = fields.topic.decode("utf-8", "replace")
        if fields.queue_id not in self._queues.queue_ids(topic):
            return False
        queue = self._queues.find(topic, fields.queue_id)
        entry = queue.read(fields.queue_offset) if queue is not None else None
        return entry is not None and entry[:2] == (found.position, fields.size)

    def _set_aside(self, report: RecoveryReport) -> None:
        """Keep what lies behind the end, if it may be more than the rest of a torn record.

        It was durable once, or looks like messages that nobody can vouch for. Its place is
        needed, but it must not be lost for that.
        """
        aside = Aside(self._config.root)
        behind = LogPass(self._log.segments, report.end, durable=_NO_END)
        for segment in [one for one in self._log.segments if one.end > report.end]:
            start = max(segment.start, report.end)
            if start >= self._log_kept() and not behind.has_record(segment, start):
                continue
            kept: Path | None
            if segment.start >= report.end and segment.start > self._log.min_offset:
                kept = aside.take_file(segment.path) if _has_data(segment) else None
            else:
                kept = aside.copy_from(segment, start)
            if kept is not None:
                logger.error("what lies behind the end of the log, %d, is kept in %s", start, kept)
                report.set_aside.append(kept)

    def _make_damages_last(self, report: RecoveryReport) -> None:
        """See to it that what is stepped over now is stepped over at every later start.

        What was not flushed is looked at more closely than what was: a record whose end is missing
        would pass once it lies among what was flushed. By then its number is another's.
        """
        flushed = self._complete_from()
        aside = Aside(self._config.root)
        for damage in report.damages:
            for segment in self._log.segments:
                start = max(damage.position, flushed, segment.start)
                end = min(damage.end, report.end, segment.end)
                marks = list(magic_numbers(segment, start, end))
                if marks:
                    kept = aside.copy_from(segment, start, end)
                    assert kept is not None
                    logger.error("the bytes at %d are kept in %s", start, kept)
                    report.set_aside.append(kept)
                for at in marks:
                    segment.write_zeros(at, MAGIC_SIZE)

    def _judge_end(self, report: RecoveryReport) -> None:
        """Tell a torn record, which nobody was promised, from the loss of what was durable."""
        segment = self._log.segments.find(report.end)
        behind = b""
        if segment is not None:
            behind = bytes(segment.slice(report.end, min(8, segment.end - report.end)))
        durable = self._log_kept()
        if report.end < durable:
            lost = Damage(report.end, durable, "the log ends before what was flushed")
            logger.error("%s", lost)
            report.damages.append(lost)
        if any(behind) and behind[4:] != _BLANK_MAGIC:
            logger.warning("the record at %d is torn: cut off", report.end)
            report.cut_from = report.end
        if self._ends_at_loss:
            self._cut_index(report)

    def _cut_index(self, report: RecoveryReport) -> None:
        """Of a copy that ends before records which it had once."""
        scan = LogPass(self._log.segments, report.end, durable=_NO_END)
        behind = [each for each in self._log.segments if each.end > report.end]
        if not any(scan.has_record(each, max(each.start, report.end)) for each in behind):
            return
        logger.warning("the log ends at %d: the power took what comes next", report.end)
        report.lost_from = report.end
        self._dispatcher.forget_index_file()
        if self._index is not None:
            self._index.cut_at(report.end)

    def _judge_entry(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> Verdict:
        segment = self._log.segments.find(entry.position)
        if entry.is_filler or segment is None:
            return Verdict.NO_RECORD
        at = entry.position - segment.start
        if not check_record(segment.view, at, True, False).is_valid:
            return Verdict.NO_RECORD
        fields = read_record(segment.view, at)
        is_right = (
            fields.physical_offset == entry.position
            and fields.size == entry.size
            and fields.queue_offset == offset
            and fields.queue_id == queue.queue_id
            and fields.topic == queue.topic.encode()
        )
        return Verdict.RIGHT if is_right else Verdict.OTHER

    # What needs a longer pass

    def _index_start(self, start: int) -> int:
        """Where the index has to be continued from, `start` if it reaches that far."""
        if self._index is None:
            return start
        reached = self._index.end_position
        if reached >= start:
            return start
        progress = self._checkpoint.progress
        if progress is not None and reached >= progress.index_durable:
            return start  # there was nothing to index since
        return max(reached, self._log.min_offset)

    def _index_is_whole(self, *, crashed: bool) -> bool:
        assert self._index is not None
        progress = self._checkpoint.progress
        if crashed or progress is None:
            return False
        return progress.index_files == len(self._index.files)

    def _mend_index(self, report: RecoveryReport) -> None:
        """Index what lies between two files that do not follow each other."""
        assert self._index is not None
        for number, start, end in reversed(self._index.gaps(self._log.min_offset)):
            # Where there is a file before, its last message is the first of these.
            indexed = start if start > self._log.min_offset else -1
            records = self._live_records(start, end, indexed)
            first = next((found for found in records if key_hashes(found.fields)), None)
            if first is not None:
                logger.warning("the index says nothing about %d to %d", first.position, end)
                self._index.fill_gap(number, itertools.chain([first], records))

    def _live_records(self, start: int, end: int, indexed: int) -> Iterator[Found]:
        beginnings = self._beginnings.by_name
        for found in LogScan(self._log.segments, start, end, check_crc=False, durable=_NO_END):
            if found.position > max(indexed, beginnings.get(found.fields.topic, 0) - 1):
                yield found

    def _rebuild(self, report: RecoveryReport) -> None:
        """Make queues anew from the whole log: some of their entries were lost."""
        incomplete = dict(self._queues.incomplete)
        for queue in incomplete.values():
            name = f"{queue.topic}/{queue.queue_id}"
            logger.warning("consume queue %s lacks entries: made again from the log", name)
            report.rebuilt_queues.append(name)
            queue.begin_again()
        self._replay(self._log.min_offset, report.end, _only(incomplete))
        for queue in incomplete.values():
            self._queues.mended(queue)


def _has_data(segment: Segment) -> bool:
    ranges = segment.data_ranges(segment.start, segment.end)
    return any(any(segment.slice(start, end - start)) for start, end in ranges)


def _only(queues: dict[tuple[str, int], ConsumeQueue]) -> Callable[[str, int], QueueTail | None]:
    def open_tail(topic: str, queue_id: int) -> QueueTail | None:
        queue = queues.get((topic, queue_id))
        return queue.tail if queue is not None else None

    return open_tail
