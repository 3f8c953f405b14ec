"""What a task does: pulls its range, and hands Arrow batches to Spark."""

from collections.abc import Iterator

import pyarrow as pa

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.routes import BrokerAddress
from rocketq.filter import parse_tags
from rocketq.message.names import unwrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.spark.errors import one_sentence
from rocketq.spark.options import SourceOptions
from rocketq.spark.read.arrow import ArrowBatches
from rocketq.spark.read.partitions import QueuePartition
from rocketq.spark.read.pruning import Range
from rocketq.spark.read.range_pull import BrokerAway, RangePull
from rocketq.spark.run.worker_memory import prepare_memory
from rocketq.spark.wire.client import opened
from rocketq.spark.wire.tally import READ, Tally


def read_range(
    options: SourceOptions, part: QueuePartition, times_us: Range = (None, None)
) -> Iterator[pa.RecordBatch]:
    """The rows of one range; with `times_us`, those of them that were stored then."""
    with one_sentence():
        yield from _batches(options, part, times_us)


def _batches(
    options: SourceOptions, part: QueuePartition, times_us: Range
) -> Iterator[pa.RecordBatch]:
    prepare_memory()
    shown = unwrap_namespace(options.connection.namespace, part.queue.topic)
    batches = ArrowBatches(
        part.queue._replace(topic=shown),
        options.columns,
        wanted_tags(options),
        times_us=times_us,
        fail_on_damage=options.fail_on_damage,
        max_body_bytes=options.max_body_bytes,
    )
    tally = Tally(READ)
    pull = RangePull(
        lambda: find_broker(options, part.queue), options, part.queue, part.start, part.end
    )
    for body, start, end in pull.bodies():
        size = len(body)
        for batch in batches.batches(body, start, end):
            tally.add(batch.num_rows, size)
            size = 0
            yield batch
    tally.tell()


def find_broker(options: SourceOptions, queue: MessageQueue) -> BrokerAddress:
    """Where a queue is now: its master, or else a slave."""

    async def ask() -> BrokerAddress | None:
        async with opened(options.connection) as client:
            await client.routes.subscribe_queues(queue.topic)
            return client.routes.find(queue.broker_name)

    found = loop_thread().run(ask())
    if found is None:
        raise BrokerAway(queue)
    return found


def wanted_tags(options: SourceOptions) -> frozenset[bytes] | None:
    """The tags themselves: brokers compare hashes, which two tags may share."""
    if options.sql is not None:
        return None
    tags = parse_tags(options.tags).tags
    return frozenset(tag.encode() for tag in tags) or None
