"""What attempts leave for those that come after them.

A mark is a message in a topic of its own, on the broker that the rows go to, sent before the first
row. The log of a broker is kept or lost as a prefix, so where rows of an attempt are, its mark is.

    {"partition": 3, "batch": 17, "topic": "orders", "attempt": "...", "holder": "...",
     "positions": {"0": 1200, "1": 1180}}        where its rows begin, at the earliest

Its tag is the sink, its queue the place of the partition. A mark is also a barrier: brokers show
messages in the order of their log, so who can read its own mark can read all that was stored before
it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.message.queue import MessageQueue
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.side_topic import SideTopic

MARKS_TOPIC: Final = "ROCKETQ_SPARK_MARKS"
"""Each of its queues is a place for the marks and the lease of a partition. Places that two share,
they share in turns."""
_READ_BACK: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An attempt has begun to write a partition of a batch to a topic."""

    partition: int
    batch: int
    topic: str
    attempt: str
    holder: str
    positions: Mapping[int, int]

    def encode(self) -> bytes:
        return json.dumps(
            {
                "partition": self.partition,
                "batch": self.batch,
                "topic": self.topic,
                "attempt": self.attempt,
                "holder": self.holder,
                "positions": {str(queue): offset for queue, offset in self.positions.items()},
            }
        ).encode()

    @classmethod
    def decode(cls, body: bytes) -> "Mark | None":
        """None for what is no mark: anybody may send to the topic."""
        try:
            said = json.loads(body)
            return cls(
                partition=int(said["partition"]),
                batch=int(said["batch"]),
                topic=str(said["topic"]),
                attempt=str(said["attempt"]),
                holder=str(said["holder"]),
                positions={int(queue): int(at) for queue, at in said["positions"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class Marks:
    """The marks of one sink on one broker."""

    def __init__(self, client: ClientInstance, broker_name: str, sink: str, producer: str) -> None:
        self._client = client
        self._sink = sink
        self._topic = SideTopic(client, MARKS_TOPIC, broker_name, producer)

    def _number(self, partition: int) -> int:
        """Of the queue of a partition; no two of a sink have the same one."""
        return int(self._sink[:8], 16) + partition

    def place(self, partition: int) -> MessageQueue:
        """Where a partition leaves its marks."""
        return self._topic.queue(self._number(partition))

    async def prepare(self) -> None:
        """Make the topic where it is not there."""
        await self._topic.prepare()

    async def append(self, mark: Mark, *, within_s: float) -> int:
        """Leave a mark, and wait until it can be read; its place."""
        number = self._number(mark.partition)
        return await self._topic.append(number, self._sink, mark.encode(), within_s=within_s)

    async def of_batch(self, task: TaskName, topic: str, before: int) -> list[tuple[int, Mark]]:
        """Marks of this partition and topic before a place, of this batch or a later one.

        Read backwards until a mark of an earlier batch comes: holders of the lease leave marks,
        and none of them goes back to an earlier batch.
        """
        number, found = self._number(task.partition), []
        first, _ = await self._topic.bounds(number)
        if task.since_ms:
            queue, api = self._topic.queue(number), self._client.api
            since = await api.search_offset(self._topic.address, queue, task.since_ms)
            first = max(first, since)
        end, is_over = before, False
        while end > first and not is_over:
            start = max(first, end - _READ_BACK)
            for message in await self._topic.read(number, start, end, tags=self._sink):
                mark = Mark.decode(message.body)
                if mark is None or message.tags != self._sink:
                    continue
                if mark.partition == task.partition and mark.topic == topic:
                    if mark.batch >= task.batch:
                        found.append((message.queue_offset, mark))
                    else:
                        is_over = True
            end = start
        return sorted(found, key=lambda each: each[0])
