"""Readers asked as Spark asks them, without Spark."""

import json
from typing import Any

from rocketq.spark.options import source_options
from rocketq.spark.read.batch import BatchReader
from rocketq.spark.read.stream import StreamReader


def batch_rows(**options: Any) -> list[dict[str, Any]]:
    """All rows of a batch read."""
    given = {name: str(value) for name, value in options.items()}
    reader = BatchReader(source_options(given, streaming=False))
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["body"]) for row in rows)


class Query:
    """A streaming query: the calls Spark makes, in its order, offsets through JSON."""

    def __init__(self, *, checkpoint: Any = None, **options: Any) -> None:
        given = {name: str(value) for name, value in options.items()}
        self.reader = StreamReader(source_options(given, streaming=True))
        self.limit = self.reader.getDefaultReadLimit()
        self.at = checkpoint if checkpoint is not None else self.reader.initialOffset()

    def trigger(self) -> list[dict[str, Any]] | None:
        """The rows of one batch; None when there is nothing to do."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.at, self.limit)))
        if end == self.at:
            return None
        rows = self.read(self.at, end)
        self.at = end
        self.reader.commit(end)
        return rows

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            row
            for part in self.reader.partitions(start, end)
            for batch in self.reader.read(part)
            for row in batch.to_pylist()
        ]

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()
