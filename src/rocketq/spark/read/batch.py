"""`spark.read`: everything between two positions."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketq.spark.options import SourceOptions
from rocketq.spark.read.driver import Driver, skip_expired
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.partitions import QueuePartition, plan
from rocketq.spark.read.task import read_range
from rocketq.spark.read.topics import SourceTopics


class BatchReader(DataSourceReader):
    """`spark.read`: everything between two positions."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        driver = Driver(self._options)
        try:
            first, start, end = driver.ask(self._bounds)
        finally:
            driver.close()
        skip_expired(self._options, start, end, first)
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
        if not isinstance(partition, QueuePartition):  # Spark's own, where there is nothing to read
            return iter(())
        return read_range(self._options, partition)
