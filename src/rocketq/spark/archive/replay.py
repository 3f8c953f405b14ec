"""Brings archived messages back into topics.

Messages of one queue go to one queue, in order, with body, tags, keys, sharding key, properties and
flag; ids and times are new. Ranges of a fixed number of offsets are written exactly once
(`rocketq.spark.write.once`), so a replay that is cut short and started again, also twice at a time,
brings each message back once. How far it has come is noted beside the archive, to start faster.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rocketq.message.queue import MessageQueue
from rocketq.spark.archive.ledger import ArchivedFile, Ledger
from rocketq.spark.archive.parquet import read_file
from rocketq.spark.options import EXACTLY_ONCE, SinkOptions
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import write_rows

_OFFSETS_AT_ONCE: Final = 10_000
_COLUMNS: Final = (
    "queue_offset",
    "store_timestamp",
    "body",
    "tags",
    "keys",
    "properties",
    "flag",
)
_SHARDING_KEY: Final = "__SHARDINGKEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What to bring back, and where to."""

    topic: str
    target: str
    since_ms: int | None = None
    until_ms: int | None = None
    rate: float | None = None  # messages per second
    name: str | None = None

    def id(self, root: Path) -> str:
        """The same for the same replay."""
        said = [str(root.resolve()), self.topic, self.target, self.since_ms, self.until_ms]
        text = self.name or hashlib.blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()
        return f"replay-{text}"


class Pace:
    """Holds back what comes faster than it may."""

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._count = 0

    def take(self, count: int) -> None:
        """Wait until so many more may go."""
        if self._rate is None:
            return
        due = self._began + self._count / self._rate
        self._count += count
        wait = due - self._clock()
        if wait > 0:
            self._sleep(wait)


def run_replay(root: Path, replay: Replay, sink: SinkOptions, pace: Pace | None = None) -> int:
    """Bring messages back; how many rows were looked at in this run."""
    ledger = Ledger.opened(root)
    files = [
        file
        for file in ledger.files
        if file.topic == replay.topic
        and (replay.since_ms is None or file.last_ms >= replay.since_ms)
        and (replay.until_ms is None or file.first_ms < replay.until_ms)
    ]
    pace = pace or Pace(replay.rate)
    progress = _Progress(root / "replays" / f"{replay.id(root)}.json")
    queues = sorted({file.queue for file in files})
    rows = 0
    for number, queue in enumerate(queues):
        of_queue = [file for file in files if file.queue == queue]
        for window in _windows(of_queue):
            if window < progress.next_window(queue):
                continue
            task = TaskName(sink=replay.id(root), batch=window, partition=number)
            batches = _rows(ledger, of_queue, window, replay, pace)
            rows += write_rows(sink, task, batches, queue=queue.queue_id).messages
            progress.note(queue, window + 1)
    return rows


def sink_for(sink: SinkOptions, target: str) -> SinkOptions:
    """The options of the sink, with what a replay needs."""
    return replace(sink, topic=target, delivery=EXACTLY_ONCE)


def _windows(files: list[ArchivedFile]) -> list[int]:
    """The ranges of offsets that these files have something of."""
    found: set[int] = set()
    for file in files:
        last = max(file.end - 1, file.start)
        found.update(range(file.start // _OFFSETS_AT_ONCE, last // _OFFSETS_AT_ONCE + 1))
    return sorted(found)


def _rows(
    ledger: Ledger, files: list[ArchivedFile], window: int, replay: Replay, pace: Pace
) -> Iterator[pa.RecordBatch]:
    """The rows of one range of offsets, as the sink takes them."""
    first, end = window * _OFFSETS_AT_ONCE, (window + 1) * _OFFSETS_AT_ONCE
    for file in files:
        if file.start >= end or file.end <= first:
            continue
        for batch in read_file(ledger.data_path(file.path), _COLUMNS, batch_rows=1000):
            offsets = batch.column("queue_offset")
            chosen = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
            times = pc.divide(batch.column("store_timestamp").cast(pa.int64()), 1000)
            if replay.since_ms is not None:
                chosen = pc.and_(chosen, pc.greater_equal(times, replay.since_ms))
            if replay.until_ms is not None:
                chosen = pc.and_(chosen, pc.less(times, replay.until_ms))
            # What had no body that could be read has none to be sent.
            sizes = pc.fill_null(pc.binary_length(batch.column("body")), 0)
            rows = batch.filter(pc.and_(chosen, pc.greater(sizes, 0)))
            if rows.num_rows:
                pace.take(rows.num_rows)
                yield _as_sent(rows)


def _as_sent(rows: pa.RecordBatch) -> pa.RecordBatch:
    sharding = [
        dict(each or ()).get(_SHARDING_KEY) for each in rows.column("properties").to_pylist()
    ]
    names = ["body", "tags", "keys", "properties", "flag"]
    columns = [rows.column(name) for name in names]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(sharding, pa.string())], names=[*names, "sharding_key"]
    )


class _Progress:
    """How far a replay has come. To be slower without it is all that is lost with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._windows: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._windows = {}

    def next_window(self, queue: MessageQueue) -> int:
        return self._windows.get(self._name(queue), 0)

    def note(self, queue: MessageQueue, window: int) -> None:
        self._windows[self._name(queue)] = window
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(self._windows), encoding="utf-8")
        draft.replace(self._path)

    def _name(self, queue: MessageQueue) -> str:
        return f"{queue.broker_name}/{queue.queue_id}"
