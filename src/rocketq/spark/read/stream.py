"""`spark.readStream`: ranges that follow each other, as fast as the query takes them.

Offsets live in Spark's checkpoint; with `groupId` they are also reported to the brokers, so that
lag can be seen there.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue
from rocketq.spark.errors import in_one_sentence
from rocketq.spark.options import InvalidOptions, SourceOptions
from rocketq.spark.read import offsets
from rocketq.spark.read.driver import Driver, report_loss, skip_expired
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.partitions import QueuePartition, plan
from rocketq.spark.read.range_pull import BrokerAway
from rocketq.spark.read.task import read_range
from rocketq.spark.read.topics import SourceTopics, Standing

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_ADMISSION_CONTROL = True
except ImportError:  # Spark 4.1: a trigger reads all there is
    ReadAllAvailable = ReadMaxRows = ReadMinRows = None  # type: ignore[assignment,misc]
    ReadLimit = object  # type: ignore[assignment,misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]
    HAS_ADMISSION_CONTROL = False

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: ranges that follow each other, as fast as the query takes them."""

    def __init__(self, options: SourceOptions) -> None:
        if not HAS_ADMISSION_CONTROL and (
            options.max_offsets_per_trigger or options.min_offsets_per_trigger
        ):
            raise InvalidOptions(
                "rocketq source: maxOffsetsPerTrigger and minOffsetsPerTrigger need Spark 4.2; "
                "in this one a trigger reads all there is"
            )
        self._options = options
        self._driver = Driver(options)
        self._newest: Offsets | None = None  # as last seen
        self._target: Offsets | None = None  # where a query of Trigger.AvailableNow ends
        self._away: frozenset[MessageQueue] = frozenset()  # these two are told once
        self._gone: frozenset[MessageQueue] = frozenset()
        self._has_read = False  # before that, brokers may not know the group
        self._reported: Offsets = {}
        self._held_since: float | None = None

    @in_one_sentence
    def initialOffset(self) -> dict[str, Any]:
        async def ask(topics: SourceTopics) -> Offsets:
            return await topics.resolve(self._options.starting, await topics.queues())

        return offsets.to_json(self._driver.ask(ask))

    # How far to read

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:
        async def ask(topics: SourceTopics) -> Offsets:
            return await topics.latest(await topics.queues())

        self._target = self._driver.ask(ask)

    @in_one_sentence
    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        since = {} if start is None else offsets.from_json(start)
        if self._has_read:
            # Spark commits a batch when the next one begins, so the last one of a query never.
            # But it does not ask for more before all up to `start` is done.
            self._report(since)
        standing = self._driver.ask(lambda topics: topics.standing(since))
        self._newest = standing.newest
        end = dict(standing.newest if self._target is None else self._target)
        self._check_still_there(since, end, standing)
        # A queue that is out of reach keeps its place.
        end = {**{queue: since[queue] for queue in since if queue not in end}, **end}
        if start is None or (HAS_ADMISSION_CONTROL and isinstance(limit, ReadAllAvailable)):
            return offsets.to_json(end)
        first = self._from_the_beginning(since, end)
        if self._waits_for_more(first, end):
            return offsets.to_json(since)
        if self._options.max_offsets_per_trigger is not None:
            end = offsets.limited(first, end, self._options.max_offsets_per_trigger)
        return offsets.to_json(end)

    def _check_still_there(self, since: Offsets, end: Offsets, standing: Standing) -> None:
        for queue in standing.gone:
            if queue not in self._gone:
                why = "the broker has no such queue any more"
                report_loss(self._options, queue, since[queue], None, why)
        for queue in standing.away:
            if self._target is not None and queue not in end:
                raise BrokerAway(queue)  # the end of this query would not be the end of the topic
            if queue not in self._away:
                logger.warning("%s", BrokerAway(queue))
        self._away, self._gone = frozenset(standing.away), frozenset(standing.gone)
        for queue, offset in since.items():
            now = standing.newest.get(queue, offset)
            if now < offset:
                report_loss(self._options, queue, now, offset, f"the queue now ends at {now}")

    def _from_the_beginning(self, since: Offsets, end: Offsets) -> Offsets:
        """Where reading begins: queues that have never been read begin with what they have."""
        new = [queue for queue in end if queue not in since]
        if not new:
            return since
        return since | self._driver.ask(lambda topics: topics.earliest(new))

    def _waits_for_more(self, since: Offsets, end: Offsets) -> bool:
        """Whether a trigger is passed over because too little has come."""
        minimum = self._options.min_offsets_per_trigger
        if minimum is None or self._target is not None:
            return False
        waiting = sum(offsets.behind(since, end).values())
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        if waiting >= minimum or now - self._held_since >= self._options.max_trigger_delay_s:
            self._held_since = now
            return False
        return True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the progress of the query: what is behind its end is the backlog."""
        return None if self._newest is None else offsets.to_json(self._newest)

    # A batch

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._has_read = True
        since, until = offsets.from_json(start), offsets.from_json(end)
        wanted = [queue for queue in until if until[queue] > since.get(queue, 0)]
        first = self._driver.ask(lambda topics: _beginnings(topics, wanted)) if wanted else {}
        since |= {queue: min(first[queue], until[queue]) for queue in wanted if queue not in since}
        skip_expired(self._options, since, until, first)
        return plan(
            {queue: since.get(queue, until[queue]) for queue in until},
            until,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePartition), partition
        return read_range(self._options, partition)

    @in_one_sentence
    def commit(self, end: dict[str, Any]) -> None:
        self._report(offsets.from_json(end))

    def _report(self, reached: Offsets) -> None:
        """Tell the brokers how far the group is. The checkpoint decides: a failure only shows."""
        group = self._options.group
        if group is None:
            return
        news = {queue: at for queue, at in reached.items() if self._reported.get(queue) != at}
        if not news:
            return
        is_first = not self._reported
        try:
            self._driver.ask(lambda topics: topics.report(group, news, is_first=is_first))
        except RocketqError as error:
            logger.warning("progress of group %s was not reported: %s", group, error)
        else:
            self._reported = reached

    def stop(self) -> None:
        self._driver.close()


async def _beginnings(topics: SourceTopics, queues: list[MessageQueue]) -> Offsets:
    """The first offsets of these queues, for a reader that may not have seen a route yet."""
    await topics.learn(queues)
    return await topics.earliest(queues)
