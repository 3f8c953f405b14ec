"""`spark.read` of store directories.

A task maps the files of its range. Entries whose records are neighbours in the log become one
slice, which goes through the same decoder as the answers of brokers. Each record is checked; one
that is damaged is taken from a copy, where there is one, or reported with its place.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from rocketq.common.buffers import Buffer
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import (
    RecordStatus,
    are_records,
    check_record,
    decode_record,
)
from rocketq.spark.errors import in_one_sentence, one_sentence
from rocketq.spark.files.directory import Entries, StoreDirectory
from rocketq.spark.files.planning import FileRange, plan_files
from rocketq.spark.options import SourceOptions
from rocketq.spark.read.arrow import ARROW_TYPES, ArrowBatches
from rocketq.spark.read.columns import BrokenRecords, RecordTable
from rocketq.spark.read.damage import DamagedRecord
from rocketq.spark.read.pruning import Pruning, Range, push
from rocketq.spark.read.task import wanted_tags
from rocketq.spark.run.worker_memory import prepare_memory
from rocketq.spark.schema import ALIASES
from rocketq.spark.wire.tally import READ, Tally

logger = logging.getLogger(__name__)

Numbers: TypeAlias = npt.NDArray[np.int64]

_ENTRIES_AT_ONCE: Final = 16_384
_BYTES_AT_ONCE: Final = 4 << 20
_LONG_RUN: Final = 2 << 20
_QUEUE_ID, _QUEUE_OFFSET = 12, 20


class FilesReader(DataSourceReader):
    """The reader of store directories, as Spark's driver and its tasks use it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning = Pruning()

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        return plan_files(self._options, self._pruning)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FileRange):  # Spark's own, where there is nothing to read
            return iter(())
        return read_files(self._options, partition, self._pruning.times_us)


class PruningFilesReader(FilesReader):
    """The same for a table of one query, whose filters save reading."""

    @in_one_sentence
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pruning, left = push(filters, self._options)
        self._options = self._pruning.options(self._options)
        return left


def read_files(
    options: SourceOptions, part: FileRange, times_us: Range = (None, None)
) -> Iterator[pa.RecordBatch]:
    """The rows of one range: what a task does."""
    with one_sentence():
        prepare_memory()
        yield from _Task(options, part, times_us).batches()


class _Task:
    """The reading of one range."""

    def __init__(self, options: SourceOptions, part: FileRange, times_us: Range) -> None:
        self._options = options
        self._part = part
        self._directory = StoreDirectory(part.root)
        self._copies: list[StoreDirectory] | None = None
        self._arrow = ArrowBatches(
            part.queue,
            options.columns,
            wanted_tags(options),
            times_us=times_us,
            fail_on_damage=options.fail_on_damage,
            max_body_bytes=options.max_body_bytes,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        queue, tally = self._part.queue, Tally(READ)
        at = self._part.start
        while at < self._part.end:
            until = min(at + _ENTRIES_AT_ONCE, self._part.end)
            entries = self._directory.entries(queue.topic, queue.queue_id, at, until)
            entries = entries[: _fitting(entries)]
            if not len(entries):
                return
            size = int(entries["size"].sum())
            for batch in self._of_entries(entries, at):
                tally.add(batch.num_rows, size)
                size = 0
                yield batch
            at += len(entries)
        tally.tell()

    def _of_entries(self, entries: Entries, first: int) -> Iterator[pa.RecordBatch]:
        for a, b in _pieces(entries):
            records = self._gathered(entries[a:b])
            if records is not None and self._are_right(records, entries[a:b], first + a):
                yield from self._arrow.batches(records, first + a, first + b)
            else:
                yield from self._one_by_one(entries[a:b], first + a)

    def _one_by_one(self, entries: Entries, first: int) -> Iterator[pa.RecordBatch]:
        """Some of these are damaged: those before, it, and so on."""
        good: list[Buffer] = []
        for number, entry in enumerate(entries):
            position, size = int(entry["position"]), int(entry["size"])
            found = self._record(position, size, first + number)
            if isinstance(found, str):
                yield from self._arrow.batches(b"".join(good), first, first + len(entries))
                good = []
                yield from self._report(first + number, position, found)
            else:
                good.append(found)
        yield from self._arrow.batches(b"".join(good), first, first + len(entries))

    # Records that are as they should be

    def _gathered(self, entries: Entries) -> Buffer | None:
        """The records of all entries in a row; None if some are not even in the log."""
        positions, ends, starts, lasts = _runs(entries)
        slices: list[memoryview] = []
        for a, b in zip(starts.tolist(), lasts.tolist(), strict=True):
            size = int(ends[b] - positions[a])
            piece = self._directory.record(int(positions[a]), size)
            if piece is None or len(piece) != size:
                return None
            slices.append(piece)
        return slices[0] if len(slices) == 1 else b"".join(slices)

    def _are_right(self, records: Buffer, entries: Entries, first: int) -> bool:
        """Whether each is whole, and the message that the queue says it is."""
        if not are_records(records, len(entries), self._options.check_crc):
            return False
        try:
            table = RecordTable(records, first, first + len(entries))
        except BrokenRecords:
            return False
        if table.count != len(entries):
            return False
        offsets = np.frombuffer(table.long_column(_QUEUE_OFFSET), np.int64)
        queues = np.frombuffer(table.int_column(_QUEUE_ID), np.int32)
        return bool(
            (offsets == np.arange(first, first + len(entries))).all()
            and (queues == self._part.queue.queue_id).all()
        )

    # One by one

    def _record(self, position: int, size: int, offset: int) -> Buffer | str:
        """A record, from here or from a copy; or what is wrong with it."""
        check_crc = self._options.check_crc
        why = _wrong(self._directory, position, size, self._part.queue, offset, check_crc)
        if isinstance(why, str):
            if self._copies is None:
                self._copies = [StoreDirectory(root) for root in self._part.copies]
            for copy in self._copies:
                queue = self._part.queue
                for entry in copy.entries(queue.topic, queue.queue_id, offset, offset + 1):
                    place, length = int(entry["position"]), int(entry["size"])
                    found = _wrong(copy, place, length, queue, offset, check_crc)
                    if not isinstance(found, str):
                        return found
        return why

    def _report(self, offset: int, position: int, why: str) -> Iterator[pa.RecordBatch]:
        """Say where a damaged record is: as an error, or as a row that has nothing else."""
        damage = DamagedRecord(self._part.queue, offset, str(self._part.root), position, why)
        if self._options.fail_on_damage:
            raise damage
        logger.warning("%s", damage)
        queue = self._part.queue
        known = {
            "topic": queue.topic,
            "broker_name": queue.broker_name,
            "queue_id": queue.queue_id,
            "queue_offset": offset,
            "body_error": f"the record at {position} of {self._part.root} is damaged: {why}",
        }
        columns = [
            pa.array([known.get(ALIASES.get(name, name))], ARROW_TYPES[name])
            for name in self._options.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self._arrow.schema)


def _runs(entries: Entries) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Where records begin and end in the log; the first and last of each run of neighbours."""
    positions = entries["position"].astype(np.int64)
    ends = positions + entries["size"]
    breaks = np.flatnonzero(positions[1:] != ends[:-1]) + 1
    starts = np.concatenate([[0], breaks]).astype(np.int64)
    lasts = np.concatenate([breaks, [len(entries)]]).astype(np.int64) - 1
    return positions, ends, starts, lasts


def _pieces(entries: Entries) -> Iterator[tuple[int, int]]:
    """Entries to be read together: a long run by itself, which costs no copy, short ones joined.

    What is done once for each piece costs more than a copy of a short one.
    """
    positions, ends, starts, lasts = _runs(entries)
    begin = 0
    for a, b in zip(starts.tolist(), lasts.tolist(), strict=True):
        if ends[b] - positions[a] >= _LONG_RUN:
            if begin < a:
                yield begin, a
            yield a, b + 1
            begin = b + 1
    if begin < len(entries):
        yield begin, len(entries)


def _fitting(entries: Entries) -> int:
    """How many entries to take at once: some megabytes, and at least one."""
    sizes = entries["size"].astype(np.int64)
    sizes = np.where((sizes > 0) & (sizes < _BYTES_AT_ONCE), sizes, 0)
    return max(1, int(np.searchsorted(np.cumsum(sizes), _BYTES_AT_ONCE))) if len(entries) else 0


def _wrong(
    directory: StoreDirectory,
    position: int,
    size: int,
    queue: MessageQueue,
    offset: int,
    check_crc: bool,
) -> Buffer | str:
    """The record that an entry points at, or why it is not the one."""
    record = directory.record(position, size)
    if record is None or len(record) != size:
        return "the log does not have it"
    status = check_record(record, 0, check_crc).status
    if status != RecordStatus.VALID:
        return RecordStatus(status).name
    message = decode_record(record)
    if (message.topic, message.queue_id, message.queue_offset) != (
        queue.topic,
        queue.queue_id,
        offset,
    ):
        return "another message is in its place"
    return record
