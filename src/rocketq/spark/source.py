"""Topics as tables and streams: the readers of the format `rocketq`.

The driver decides what is read: which queues, from where to where. A range of one queue is a
partition; an executor pulls it and hands Arrow batches to Spark. Offsets live in Spark's
checkpoint; with `groupId` they are also told to the brokers, so that lag can be seen there.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from rocketq.client.loop_thread import LoopThread, loop_thread
from rocketq.common.buffers import Buffer
from rocketq.filter import parse_tags
from rocketq.message.queue import MessageQueue
from rocketq.spark import offsets
from rocketq.spark.arrow_batches import ArrowBatches
from rocketq.spark.offsets import Offsets
from rocketq.spark.options import SourceOptions
from rocketq.spark.partitions import QueueRange, plan
from rocketq.spark.range_pull import DataLoss, RangePull
from rocketq.spark.topics import Topics, opened

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1 has no admission control for Python sources
    ReadAllAvailable = ReadMaxRows = ReadMinRows = None  # type: ignore[assignment,misc]
    ReadLimit = object  # type: ignore[assignment,misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

logger = logging.getLogger(__name__)


def read_range(options: SourceOptions, part: QueueRange) -> Iterator[pa.RecordBatch]:
    """The rows of one range: what a task does."""
    batches = ArrowBatches(part.queue, options.columns, wanted_tags(options))
    for body, start, end in pulled(loop_thread(), options, part):
        batch = batches.batch(body, start, end)
        if batch is not None:
            yield batch


def pulled(
    loop: LoopThread, options: SourceOptions, part: QueueRange
) -> Iterator[tuple[Buffer, int, int]]:
    """What is pulled, while the next is already on its way in the loop's thread."""
    opening = opened(options.connection)
    client = loop.run(opening.__aenter__())
    try:
        bodies = RangePull(
            client.api, client.routes, options, part.queue, part.start, part.end
        ).bodies()
        try:
            while (answer := loop.run(_next_or_none(bodies))) is not None:
                yield answer
        finally:
            loop.run(bodies.aclose())  # type: ignore[attr-defined]  # it is a generator
    finally:
        loop.run(opening.__aexit__(None, None, None))


async def _next_or_none(bodies: Any) -> tuple[Buffer, int, int] | None:
    return await anext(bodies, None)


def wanted_tags(options: SourceOptions) -> frozenset[bytes] | None:
    """The tags themselves: brokers compare hashes, which two tags may share."""
    if options.sql is not None:
        return None
    tags = parse_tags(options.tags).tags
    return frozenset(tag.encode() for tag in tags) or None


class BatchReader(DataSourceReader):
    """`spark.read`: everything between two positions."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        start, end = loop_thread().run(self._range())
        return plan(
            start,
            end,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    async def _range(self) -> tuple[Offsets, Offsets]:
        options = self._options
        async with opened(options.connection) as client:
            topics = Topics(client, options)
            queues = await topics.queues()
            first = await topics.earliest(queues)
            start = await topics.resolve(options.starting, queues)
            end = await topics.resolve(options.ending, queues)
        for queue in queues:
            if start[queue] < first[queue]:
                _lost(options, queue, start[queue], min(first[queue], end[queue]), first[queue])
                start[queue] = first[queue]
        return start, {queue: max(end[queue], start[queue]) for queue in queues}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, QueueRange):  # Spark's own, where there is nothing to read
            return iter(())
        return read_range(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: ranges that follow each other, as fast as the query takes them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: Offsets | None = None
        self._held_since: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        async def ask() -> Offsets:
            async with opened(self._options.connection) as client:
                topics = Topics(client, self._options)
                return await topics.resolve(self._options.starting, await topics.queues())

        return offsets.to_json(loop_thread().run(ask()))

    def getDefaultReadLimit(self) -> ReadLimit:
        maximum = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if maximum is None else ReadMaxRows(maximum)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest()

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        newest = self._target if self._target is not None else self._latest()
        if start is None:  # Spark 4.1 asks without saying from where
            return offsets.to_json(newest)
        since = offsets.from_json(start)
        self._check_still_there(since, newest)
        # What has never been read counts from its beginning.
        first = {queue: since.get(queue, 0) for queue in newest}
        if self._waits_for_more(first, newest):
            return start
        if ReadMaxRows is not None and isinstance(limit, ReadMaxRows):
            newest = offsets.limited(first, newest, limit.max_rows)
        # A queue that is out of reach for a moment keeps its place.
        return offsets.to_json({**since, **newest})

    def _latest(self) -> Offsets:
        async def ask() -> Offsets:
            async with opened(self._options.connection) as client:
                topics = Topics(client, self._options)
                return await topics.latest(await topics.queues())

        return loop_thread().run(ask())

    def _waits_for_more(self, since: Offsets, newest: Offsets) -> bool:
        """Whether a trigger is passed over because too little has come."""
        minimum = self._options.min_offsets_per_trigger
        if minimum is None or self._target is not None:
            return False
        waiting = sum(offsets.behind(since, newest).values())
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        if waiting >= minimum or now - self._held_since >= self._options.max_trigger_delay_s:
            self._held_since = now
            return False
        return True

    def _check_still_there(self, since: Offsets, newest: Offsets) -> None:
        for queue, offset in since.items():
            if queue not in newest:
                _lost(self._options, queue, offset, offset + 1, None)
            elif newest[queue] < offset:
                _lost(self._options, queue, newest[queue], offset, newest[queue])
                newest[queue] = offset

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return offsets.to_json(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        since, until = offsets.from_json(start), offsets.from_json(end)
        new = [queue for queue in until if queue not in since]
        if new:
            since |= loop_thread().run(self._beginnings(new))
        for queue in new:
            since[queue] = min(since[queue], until[queue])
        return plan(
            since,
            until,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    async def _beginnings(self, queues: list[MessageQueue]) -> Offsets:
        async with opened(self._options.connection) as client:
            topics = Topics(client, self._options)
            await topics.queues()
            return await topics.earliest(queues)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueueRange), partition
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Report progress to the brokers. The checkpoint decides, so a failure only shows."""
        group = self._options.group
        if group is None:
            return

        async def report() -> None:
            async with opened(self._options.connection) as client:
                topics = Topics(client, self._options)
                await topics.queues()
                await topics.report(group, offsets.from_json(end))

        try:
            loop_thread().run(report())
        except Exception as error:
            logger.warning("progress of group %s was not reported: %s", group, error)


def _lost(
    options: SourceOptions, queue: MessageQueue, start: int, end: int, now: int | None
) -> None:
    why = "the queue is gone" if now is None else f"the queue now stands at {now}"
    loss = DataLoss(queue, start, end, why)
    if options.fail_on_data_loss:
        raise loss
    logger.warning("%s", loss)
