"""A Python data source that does no work: what Spark alone makes of ready-made rows.

Each of its tasks makes one record batch, with the columns of a topic that Kafka has too, and hands
it over again and again. No source in Python can be faster.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

TASKS: Final = 8
_BATCH_BYTES: Final = 4 << 20
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class ReadySource(DataSource):
    """Options: rows, size."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return (
            "keys string, body binary, topic string, queue_id int, queue_offset long, "
            "store_timestamp timestamp"
        )

    def reader(self, schema: object) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]), int(self.options["size"]))


class ReadyReader(DataSourceReader):
    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = self._rows // TASKS
        whole = ready_batch(min(left, _BATCH_BYTES // self._size), self._size)
        while left > 0:
            batch = whole if left >= whole.num_rows else whole.slice(0, left)
            yield batch
            left -= batch.num_rows


def ready_batch(rows: int, size: int) -> pa.RecordBatch:
    columns = {
        "keys": pa.nulls(rows, pa.string()),
        "body": pa.array([b"x" * size] * rows, pa.binary()),
        "topic": pa.repeat("read", rows),
        "queue_id": pa.array([0] * rows, pa.int32()),
        "queue_offset": pa.array(range(rows), pa.int64()),
        "store_timestamp": pa.array([0] * rows, _TIMESTAMP),
    }
    return pa.RecordBatch.from_pydict(columns)
