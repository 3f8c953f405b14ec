"""Parquet files of an archive: a run of one queue's messages of one day."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rocketq.message.queue import MessageQueue
from rocketq.spark.archive.ledger import ArchivedFile, Ledger, sync_folder
from rocketq.spark.read.arrow import ARROW_TYPES
from rocketq.spark.schema import COLUMNS

SCHEMA: Final = pa.schema([(name, ARROW_TYPES[name]) for name in COLUMNS])
_DAY_US: Final = 86_400_000_000
_ROWS_IN_GROUP: Final = 131_072


class QueueFiles:
    """Writes batches of one queue, in order, into files that end with a day or when full."""

    def __init__(self, ledger: Ledger, queue: MessageQueue, start: int, file_bytes: int) -> None:
        self._ledger = ledger
        self._queue = queue
        self._at = start
        self._file_bytes = file_bytes
        self._batches: list[pa.RecordBatch] = []
        self._day: int | None = None
        self._size = 0
        self.done: list[ArchivedFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows that follow those before."""
        times = batch.column("store_timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
        days = times // _DAY_US
        edges = [0, *(np.flatnonzero(days[1:] != days[:-1]) + 1).tolist(), len(days)]
        for a, b in pairwise(edges):
            day = int(days[a])
            if self._day is not None and (day != self._day or self._size >= self._file_bytes):
                self._finish(int(batch.column("queue_offset")[a].as_py()))
            self._day = day
            piece = batch.slice(a, b - a)
            self._batches.append(piece)
            self._size += piece.nbytes

    def close(self, end: int) -> list[ArchivedFile]:
        """The files, when all up to `end` was read: what is not in them is not there."""
        if self._batches:
            self._finish(end)
        elif self.done and self.done[-1].end < end:
            self.done[-1] = replace(self.done[-1], end=end)
        return self.done

    def _finish(self, end: int) -> None:
        table = pa.Table.from_batches(self._batches, SCHEMA)
        self.done.append(write_file(self._ledger, self._queue, self._at, end, table))
        self._at, self._batches, self._size, self._day = end, [], 0, None


def write_file(
    ledger: Ledger, queue: MessageQueue, start: int, end: int, table: pa.Table
) -> ArchivedFile:
    """One file, on the disk when this returns; it counts when it is committed."""
    times = table.column("store_timestamp").cast(pa.int64())
    bounds = pc.min_max(times).as_py()
    day = str(np.datetime64(int(bounds["max"]) // _DAY_US, "D"))
    folder = f"topic={quote(queue.topic, safe='')}/day={day}"
    name = f"{quote(queue.broker_name, safe='')}-{queue.queue_id}-{start}-{end}.parquet"
    path = f"{folder}/{name}"
    target = ledger.data_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{name}.{os.getpid()}")
    pq.write_table(table, draft, compression="zstd", row_group_size=_ROWS_IN_GROUP)
    with open(draft, "rb") as written:
        os.fsync(written.fileno())
    draft.rename(target)
    sync_folder(target.parent)
    return ArchivedFile(
        path=path,
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        start=start,
        end=end,
        rows=table.num_rows,
        size=target.stat().st_size,
        first_ms=int(bounds["min"]) // 1000,
        last_ms=int(bounds["max"]) // 1000,
        day=day,
    )


def read_file(
    path: Path, columns: Iterable[str] | None = None, *, batch_rows: int = 16_384
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, a few at a time."""
    names = None if columns is None else list(dict.fromkeys(columns))
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=batch_rows, columns=names)
