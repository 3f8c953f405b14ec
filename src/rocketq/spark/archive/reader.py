"""`option("archive", DIR)`: one table of what is archived and what brokers still have.

    archive   [0 ------------ 1800)
    broker              [1200 ---------- 2500)
    table     [0 ------------ 1800)[1800 - 2500)

Each queue is read from the archive as far as that goes, and from its broker from there on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketq.message.queue import MessageQueue
from rocketq.spark.archive.ledger import ArchivedFile, Ledger
from rocketq.spark.archive.parquet import read_file
from rocketq.spark.errors import in_one_sentence, one_sentence
from rocketq.spark.files.planning import is_wanted
from rocketq.spark.options import EARLIEST, InvalidOptions, SourceOptions
from rocketq.spark.read.arrow import ARROW_TYPES
from rocketq.spark.read.batch import BatchReader
from rocketq.spark.read.driver import Driver, report_loss
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.partitions import QueuePartition, plan
from rocketq.spark.read.task import wanted_tags
from rocketq.spark.read.topics import SourceTopics
from rocketq.spark.schema import ALIASES


@dataclass
class ArchivePartition(InputPartition):
    """A file of the archive, or the part of it with these offsets."""

    path: Path
    start: int
    end: int

    def __init__(self, path: Path, start: int, end: int) -> None:
        super().__init__(None)
        self.path = path
        self.start = start
        self.end = end


class ArchiveReader(DataSourceReader):
    """The reader of both, as Spark's driver and its tasks use it."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.archive is not None
        check_positions(options)
        self._options = options
        self._root = Path(options.archive)

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        ledger = Ledger.opened(self._root)
        archived = [file for file in ledger.files if is_wanted(self._options, file.queue)]
        ends = {
            queue: end for queue, end in ledger.ends().items() if is_wanted(self._options, queue)
        }
        planned: list[InputPartition] = [
            ArchivePartition(ledger.data_path(file.path), start, end)
            for file in archived
            for start, end in [self._span(file)]
            if start < end
        ]
        if self._options.connection.namesrv:
            planned += self._from_brokers(ends)
        elif not ends:
            raise InvalidOptions(
                f"rocketq source: archive {self._root} has nothing of these topics"
            )
        return planned

    def _span(self, file: ArchivedFile) -> tuple[int, int]:
        """The offsets of a file that are asked for; times are looked at row by row."""
        starting, ending = self._options.starting, self._options.ending
        start, end = file.start, file.end
        first = _number(starting.offsets, file.queue)
        last = _number(ending.offsets, file.queue)
        if first is not None and first >= 0:
            start = max(start, first)
        if last is not None and last >= 0:
            end = min(end, last)
        since, until = self._times_ms()
        if (since is not None and file.last_ms < since) or (
            until is not None and file.first_ms >= until
        ):
            return start, start
        return start, end

    def _times_ms(self) -> tuple[int | None, int | None]:
        return self._options.starting.time_ms, self._options.ending.time_ms

    def _from_brokers(self, ends: Offsets) -> list[QueuePartition]:
        driver = Driver(self._options)
        try:
            first, start, end = driver.ask(self._bounds)
        finally:
            driver.close()
        for queue in end:
            archived = ends.get(queue, first[queue])
            given = _number(self._options.starting.offsets, queue) or 0
            begin, until = max(archived, given), min(first[queue], end[queue])
            if begin < until:
                why = "the archive ends before, and the queue begins behind them"
                report_loss(self._options, queue, begin, until, why)
            start[queue] = min(max(start[queue], begin, first[queue]), end[queue])
        return plan(
            start,
            end,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    async def _bounds(self, topics: SourceTopics) -> tuple[Offsets, Offsets, Offsets]:
        queues = await topics.queues()
        return (
            await topics.earliest(queues),
            await topics.resolve(self._options.starting, queues),
            await topics.resolve(self._options.ending, queues),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ArchivePartition):
            return read_archived(self._options, partition)
        return BatchReader(self._options).read(partition)


def read_archived(options: SourceOptions, part: ArchivePartition) -> Iterator[pa.RecordBatch]:
    """The rows of one file: what a task does."""
    with one_sentence():
        sources = [ALIASES.get(name, name) for name in options.columns]
        schema = pa.schema([(name, ARROW_TYPES[name]) for name in options.columns])
        tags = wanted_tags(options)
        wanted_texts = None if tags is None else pa.array([tag.decode() for tag in tags])
        needed = [*sources, "queue_offset", "store_timestamp", "tags"]
        since, until = options.starting.time_ms, options.ending.time_ms
        for batch in read_file(part.path, needed):
            offsets = batch.column("queue_offset").to_numpy(zero_copy_only=False)
            chosen = (offsets >= part.start) & (offsets < part.end)
            if since is not None or until is not None:
                times = batch.column("store_timestamp").cast(pa.int64())
                times_ms = times.to_numpy(zero_copy_only=False) // 1000
                chosen &= times_ms >= (since or 0)
                if until is not None:
                    chosen &= times_ms < until
            if wanted_texts is not None:
                has = pc.is_in(batch.column("tags"), wanted_texts)
                chosen &= has.to_numpy(zero_copy_only=False).astype(np.bool_)
            rows = batch if chosen.all() else batch.filter(pa.array(chosen))
            if rows.num_rows:
                columns = [
                    rows.column(source).cast(kind)
                    for source, kind in zip(sources, schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _number(table: dict[str, dict[str, dict[int, int]]], queue: MessageQueue) -> int | None:
    return table.get(queue.topic, {}).get(queue.broker_name, {}).get(queue.queue_id)


def check_positions(options: SourceOptions) -> None:
    """Only positions that mean the same in files and brokers."""
    if options.starting.word != EARLIEST or options.starting.times_by_queue:
        raise InvalidOptions(
            "rocketq source: with archive, startingOffsets is earliest or numbers, or use "
            "startingTimestamp"
        )
