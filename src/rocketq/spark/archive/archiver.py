"""Keeps topics as Parquet: reads what is new, writes files, lets them count.

A round reads every queue from where the archive ends to where the queue ends. A crash leaves files
that no commit names; the next round reads the same ranges again. So each message is in the archive
once.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa

from rocketq.message.queue import MessageQueue
from rocketq.spark.archive.delta import DeltaTwin
from rocketq.spark.archive.ledger import ArchivedFile, Ledger
from rocketq.spark.archive.parquet import SCHEMA, QueueFiles, read_file, write_file
from rocketq.spark.options import SourceOptions, source_options
from rocketq.spark.read.driver import Driver, report_loss
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.partitions import QueuePartition
from rocketq.spark.read.task import read_range
from rocketq.spark.read.topics import SourceTopics
from rocketq.spark.schema import COLUMNS

logger = logging.getLogger(__name__)

FILE_BYTES: Final = 128 << 20
_ROWS_A_COMMIT: Final = 1_000_000
_FILES_TO_COMPACT: Final = 8
_UNUSED_FOR_S: Final = 3600.0
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Round:
    """What a round has done."""

    rows: int = 0
    files: int = 0
    compacted: int = 0
    expired: int = 0

    def __add__(self, other: "Round") -> "Round":
        return Round(
            self.rows + other.rows,
            self.files + other.files,
            self.compacted + other.compacted,
            self.expired + other.expired,
        )


class Archiver:
    """One at a time for an archive; a second one ends with `ArchiveInUse`."""

    def __init__(
        self,
        root: Path,
        given: Mapping[str, str],
        *,
        file_bytes: int = FILE_BYTES,
        keep_days: int | None = None,
        delta: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`given`: options of the source, as docs/spark.md has them; `delta`: list files there."""
        self._ledger = Ledger.opened(root, create=True, clock=clock)
        self._delta = DeltaTwin(self._ledger) if delta else None
        wanted = {"columns": ",".join(COLUMNS), "failOnDamage": "false", **given}
        self._options: SourceOptions = source_options(wanted, streaming=False)
        self._file_bytes = file_bytes
        self._keep_days = keep_days
        self._clock = clock
        self._driver = Driver(self._options)

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def close(self) -> None:
        self._driver.close()

    def round(self) -> Round:
        """Catch up with the topics, and put the archive in order."""
        done = self._catch_up() + self._compact() + self._expire()
        if self._delta is not None:
            self._delta.update()
        return done

    # What is new

    def _catch_up(self) -> Round:
        first, start, end = self._driver.ask(self._bounds)
        done = Round()
        archived = self._ledger.ends()
        for queue, until in sorted(end.items()):
            at = archived.get(queue, start[queue])
            if at > until:
                report_loss(self._options, queue, until, at, f"the queue now ends at {until}")
                continue
            if at < first[queue]:
                why = f"the queue now begins at {first[queue]}, and they were not archived"
                report_loss(self._options, queue, at, min(first[queue], until), why)
                at = first[queue]
            while at < until:
                stop = min(at + _ROWS_A_COMMIT, until)
                files = self._archive(queue, at, stop)
                self._ledger.commit(files)
                done += Round(rows=sum(file.rows for file in files), files=len(files))
                at = stop
        return done

    async def _bounds(self, topics: SourceTopics) -> tuple[Offsets, Offsets, Offsets]:
        queues = await topics.queues()
        return (
            await topics.earliest(queues),
            await topics.resolve(self._options.starting, queues),
            await topics.latest(queues),
        )

    def _archive(self, queue: MessageQueue, start: int, end: int) -> list[ArchivedFile]:
        files = QueueFiles(self._ledger, queue, start, self._file_bytes)
        for batch in read_range(self._options, QueuePartition(queue, start, end)):
            files.add(batch)
        return files.close(end)

    # Order

    def _compact(self) -> Round:
        """Make large files of many small ones that follow each other."""
        done = Round()
        by_day = groupby(self._ledger.files, key=lambda file: (file.queue, file.day))
        for (queue, _), group in [(key, list(group)) for key, group in by_day]:
            for run in self._runs(group):
                batches = [
                    batch for file in run for batch in read_file(self._ledger.data_path(file.path))
                ]
                table = pa.Table.from_batches(batches, SCHEMA)
                merged = write_file(self._ledger, queue, run[0].start, run[-1].end, table)
                self._ledger.commit([merged], [file.path for file in run])
                done += Round(compacted=len(run))
        return done

    def _runs(self, files: list[ArchivedFile]) -> list[list[ArchivedFile]]:
        """Neighbours that are small together, if they are many."""
        runs: list[list[ArchivedFile]] = [[]]
        size = 0
        for file in files:
            last = runs[-1][-1] if runs[-1] else None
            if last is not None and (last.end != file.start or size + file.size > self._file_bytes):
                runs.append([])
                size = 0
            runs[-1].append(file)
            size += file.size
        return [run for run in runs if len(run) >= _FILES_TO_COMPACT]

    def _expire(self) -> Round:
        """Let go of what is older than it has to be, and of files that nobody reads any more."""
        old: list[str] = []
        if self._keep_days is not None:
            oldest = self._clock() * 1000 - self._keep_days * _DAY_MS
            old = [file.path for file in self._ledger.files if file.last_ms < oldest]
            if old:
                self._ledger.commit((), old)
        for path in self._ledger.removed_before(self._clock() - _UNUSED_FOR_S):
            self._ledger.data_path(path).unlink(missing_ok=True)
            self._ledger.forget(path)
        return Round(expired=len(old))
