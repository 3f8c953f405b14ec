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
    planned: list[QueuePartition] = []
    for each in ranges:
        pieces = 1
        if min_partitions > len(ranges):
            pieces = -(-len(each) * min_partitions // total)
        if max_records is not None:
            pieces = max(pieces, -(-len(each) // max_records))
        pieces = min(pieces, len(each))
        edges = [each.start + len(each) * piece // pieces for piece in range(pieces + 1)]
        planned += [QueuePartition(each.queue, a, b) for a, b in pairwise(edges)]
    return planned
