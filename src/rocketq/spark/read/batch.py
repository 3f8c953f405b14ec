"""`spark.read`: everything between two positions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from rocketq.message.names import unwrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.spark.errors import in_one_sentence
from rocketq.spark.options import SourceOptions
from rocketq.spark.read.driver import Driver, skip_expired
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.partitions import QueuePartition, plan
from rocketq.spark.read.pruning import Pruning, push
from rocketq.spark.read.task import read_range
from rocketq.spark.read.topics import SourceTopics

_CLOCKS_MAY_DIFFER_MS: Final = 60_000
"""Times in a queue may go back by so much where a clock was set, and nothing is missed."""


class BatchReader(DataSourceReader):
    """The reader of a batch, as Spark's driver and its tasks use it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning = Pruning()

    @in_one_sentence
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
        queues = [queue for queue in await topics.queues() if self._wants(queue)]
        first = await topics.earliest(queues)
        start = await topics.resolve(self._options.starting, queues)
        end = await topics.resolve(self._options.ending, queues)
        lowest, highest = self._pruning.offsets
        since_us, until_us = self._pruning.times_us
        if since_us is not None:
            since_ms = max(0, since_us // 1000 - _CLOCKS_MAY_DIFFER_MS)
            found = await topics.at_time(dict.fromkeys(queues, since_ms))
            start = {queue: max(start[queue], found[queue]) for queue in queues}
        if until_us is not None:
            until_ms = max(0, until_us // 1000 + _CLOCKS_MAY_DIFFER_MS)
            found = await topics.at_time(dict.fromkeys(queues, until_ms))
            end = {queue: min(end[queue], found[queue]) for queue in queues}
        if lowest is not None:
            start = {queue: max(offset, lowest) for queue, offset in start.items()}
        if highest is not None:
            end = {queue: min(offset, highest) for queue, offset in end.items()}
        return first, start, end

    def _wants(self, queue: MessageQueue) -> bool:
        namespace = self._options.connection.namespace
        return self._pruning.wants(unwrap_namespace(namespace, queue.topic), queue)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, QueuePartition):  # Spark's own, where there is nothing to read
            return iter(())
        return read_range(self._options, partition, self._pruning.times_us)


class PruningReader(BatchReader):
    """The same for a table of one query, whose filters save reading."""

    @in_one_sentence
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pruning, left = push(filters, self._options)
        self._options = self._pruning.options(self._options)
        return left
