"""What attempts leave for those that come after them.

A mark is a message in a topic of its own, on the broker that the rows go to, sent before the first
row. The log of a broker is kept or lost as a prefix, so where rows of an attempt are, its mark is.

    {"partition": 3, "batch": 17, "topic": "orders", "attempt": "...", "holder": "...",
     "positions": {"0": 1200, "1": 1180}}        where its rows begin, at the earliest

Its tag is the sink, its queue the place of the partition. A mark is also a barrier: brokers show
messages in the order of their log, so who can read its own mark can read all that was stored before
it.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import BrokerUnknown, ClientError
from rocketq.message.flags import PullFlag
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import SendMessageV2
from rocketq.spark.write.once.task_name import TaskName

MARKS_TOPIC: Final = "ROCKETQ_SPARK_MARKS"
_QUEUES: Final = 1024
"""Each is a place for the marks and the lease of a partition. Places that two share, they share in
turns."""
_READ_BACK: Final = 256
_PAUSE_S: Final = 0.01


class NotShown(ClientError):
    """A broker has taken a message and does not show it."""

    retriable = True

    def __init__(self, broker_name: str) -> None:
        super().__init__(f"broker {broker_name!r} does not show yet what it has stored")


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
        self._broker_name = broker_name
        self._sink = sink
        self._producer = producer

    @property
    def _address(self) -> str:
        address = self._client.routes.master(self._broker_name)
        if address is None:
            raise BrokerUnknown(self._broker_name)
        return address

    def place(self, partition: int) -> MessageQueue:
        """Where a partition leaves its marks; no two of a sink leave them at the same one."""
        number = (int(self._sink[:8], 16) + partition) % _QUEUES
        return MessageQueue(MARKS_TOPIC, self._broker_name, number)

    async def prepare(self) -> None:
        """Make the topic where it is not there."""
        route = await self._client.api.route(MARKS_TOPIC)
        for data in [] if route is None else route.queue_datas:
            if data.broker_name == self._broker_name and data.write_queue_nums >= _QUEUES:
                return
        config = TopicConfig(
            topic_name=MARKS_TOPIC, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES
        )
        await self._client.api.create_topic(self._address, config)

    async def append(self, mark: Mark, *, within_s: float) -> int:
        """Leave a mark, and wait until it can be read; its place."""
        queue = self.place(mark.partition)
        header = SendMessageV2(
            producer_group=self._producer,
            topic=MARKS_TOPIC,
            default_topic=MARKS_TOPIC,
            default_topic_queue_nums=_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties=f"TAGS\x01{self._sink}\x02",
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=self._broker_name,
        )
        answer = await self._client.api.invoke(
            self._address,
            header,
            mark.encode(),
            accept=(
                ResponseCode.SUCCESS,
                ResponseCode.FLUSH_DISK_TIMEOUT,
                ResponseCode.SLAVE_NOT_AVAILABLE,
                ResponseCode.FLUSH_SLAVE_TIMEOUT,
            ),
            code=RequestCode.SEND_MESSAGE_V2,
        )
        place = int(answer.ext_fields["queueOffset"])
        ends = time.monotonic() + within_s
        while await self._client.api.max_offset(self._address, queue) <= place:
            if time.monotonic() > ends:
                raise NotShown(self._broker_name)
            await asyncio.sleep(_PAUSE_S)
        return place

    async def of_batch(self, task: TaskName, topic: str, before: int) -> list[tuple[int, Mark]]:
        """Marks of this partition and topic before a place, of this batch or a later one.

        Read backwards until a mark of an earlier batch comes: holders of the lease leave marks,
        and none of them goes back to an earlier batch.
        """
        queue, found = self.place(task.partition), []
        api, address = self._client.api, self._address
        first = await api.min_offset(address, queue)
        if task.since_ms:
            first = max(first, await api.search_offset(address, queue, task.since_ms))
        end, is_over = before, False
        while end > first and not is_over:
            start = max(first, end - _READ_BACK)
            for place, mark in await self._read(queue, start, end):
                if mark.partition == task.partition and mark.topic == topic:
                    if mark.batch >= task.batch:
                        found.append((place, mark))
                    else:
                        is_over = True
            end = start
        return sorted(found, key=lambda each: each[0])

    async def _read(self, queue: MessageQueue, start: int, end: int) -> list[tuple[int, Mark]]:
        found: list[tuple[int, Mark]] = []
        at = start
        while at < end:
            answer = await self._client.api.pull(
                self._address,
                group=TOOLS_CONSUMER_GROUP,
                queue=queue,
                offset=at,
                max_messages=end - at,
                flags=PullFlag.SUBSCRIPTION,
                subscription=self._sink,
            )
            if answer.code == ResponseCode.SUCCESS:
                for message in decode_records(answer.body):
                    mark = Mark.decode(message.body)
                    is_ours = message.tags == self._sink and start <= message.queue_offset < end
                    if mark is not None and is_ours:
                        found.append((message.queue_offset, mark))
            if answer.next_offset <= at:
                raise NotShown(self._broker_name)
            at = answer.next_offset
        return found
