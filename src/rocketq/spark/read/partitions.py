"""Offset ranges, cut into the pieces that Spark's tasks read."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from rocketq.message.queue import MessageQueue


@dataclass
class QueuePartition(InputPartition):
    """Messages of one queue, `start` included, `end` not. The same range, the same rows."""

    queue: MessageQueue
    start: int
    end: int

    def __init__(self, queue: MessageQueue, start: int, end: int) -> None:
        super().__init__(None)
        self.queue = queue
        self.start = start
        self.end = end

    def __len__(self) -> int:
        return self.end - self.start


def plan(
    start: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    *,
    min_partitions: int = 0,
    max_records: int | None = None,
) -> list[QueuePartition]:
    """One range a queue; more where the user asks for more tasks or smaller ones.

    With `min_partitions` long ranges are cut in proportion to their length, rounded up, so
    that there are at least that many tasks (while there are messages for them).
    """
    ranges = [
        QueuePartition(queue, start[queue], until)
        for queue, until in sorted(end.items())
        if until > start[queue]
    ]
    total = sum(len(each) for each in ranges)
    return [
        QueuePartition(each.queue, first, last)
        for each in ranges
        for first, last in cut(
            each.start,
            each.end,
            total=total,
            ranges=len(ranges),
            min_partitions=min_partitions,
            max_records=max_records,
        )
    ]


def cut(
    start: int,
    end: int,
    *,
    total: int,
    ranges: int,
    min_partitions: int = 0,
    max_records: int | None = None,
) -> list[tuple[int, int]]:
    """The pieces of one of `ranges` ranges that have `total` messages together."""
    length, pieces = end - start, 1
    if min_partitions > ranges:
        pieces = -(-length * min_partitions // total)
    if max_records is not None:
        pieces = max(pieces, -(-length // max_records))
    pieces = min(pieces, length)
    edges = [start + length * piece // pieces for piece in range(pieces + 1)]
    return list(pairwise(edges))
