"""Records that writers leave for each other in a topic beside the rows, on one broker.

A record is a message. It is also a barrier: brokers show messages in the order of their log, so who
can read its own record can read all that was stored before it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import BrokerUnknown, ClientError
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import SendMessageV2

QUEUES: Final = 1024
_PAUSE_S: Final = 0.01
_MOST_AT_ONCE: Final = 4096
_TAKEN: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


class NotShown(ClientError):
    """A broker has taken a message and does not show it."""

    retriable = True

    def __init__(self, broker_name: str) -> None:
        super().__init__(f"broker {broker_name!r} does not show yet what it has stored")


def master_of(client: ClientInstance, broker_name: str) -> str:
    """The address of a broker's master."""
    address = client.routes.master(broker_name)
    if address is None:
        raise BrokerUnknown(broker_name)
    return address


async def messages(
    client: ClientInstance,
    queue: MessageQueue,
    start: int,
    end: int,
    *,
    group: str = TOOLS_CONSUMER_GROUP,
    tags: str = "*",
) -> AsyncIterator[MessageExt]:
    """What a queue has between two offsets, of these tags."""
    address, at = master_of(client, queue.broker_name), start
    while at < end:
        answer = await client.api.pull(
            address,
            group=group,
            queue=queue,
            offset=at,
            max_messages=min(end - at, _MOST_AT_ONCE),
            max_bytes=4 << 20,
            flags=PullFlag.SUBSCRIPTION,
            subscription=tags,
        )
        if answer.code == ResponseCode.SUCCESS:
            for message in decode_records(answer.body):
                if start <= message.queue_offset < end:
                    yield message
        if answer.next_offset <= at:
            raise NotShown(queue.broker_name)
        at = answer.next_offset


class SideTopic:
    """One such topic on one broker."""

    def __init__(
        self, client: ClientInstance, name: str, broker_name: str, producer_group: str
    ) -> None:
        self._client = client
        self._name = name
        self._broker_name = broker_name
        self._producer_group = producer_group

    @property
    def address(self) -> str:
        return master_of(self._client, self._broker_name)

    def queue(self, number: int) -> MessageQueue:
        return MessageQueue(self._name, self._broker_name, number % QUEUES)

    async def is_there(self) -> bool:
        route = await self._client.api.route(self._name)
        return any(
            data.broker_name == self._broker_name and data.write_queue_nums >= QUEUES
            for data in ([] if route is None else route.queue_datas)
        )

    async def prepare(self) -> None:
        """Make the topic where it is not there."""
        if not await self.is_there():
            config = TopicConfig(
                topic_name=self._name, read_queue_nums=QUEUES, write_queue_nums=QUEUES
            )
            await self._client.api.create_topic(self.address, config)

    async def append(self, number: int, tag: str, body: bytes, *, within_s: float) -> int:
        """Leave a record, and wait until it can be read; its place."""
        queue = self.queue(number)
        header = SendMessageV2(
            producer_group=self._producer_group,
            topic=self._name,
            default_topic=self._name,
            default_topic_queue_nums=QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties=f"TAGS\x01{tag}\x02",
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=self._broker_name,
        )
        answer = await self._client.api.invoke(
            self.address, header, body, accept=_TAKEN, code=RequestCode.SEND_MESSAGE_V2
        )
        place = int(answer.ext_fields["queueOffset"])
        ends = time.monotonic() + within_s
        while await self._client.api.max_offset(self.address, queue) <= place:
            if time.monotonic() > ends:
                raise NotShown(self._broker_name)
            await asyncio.sleep(_PAUSE_S)
        return place

    async def bounds(self, number: int) -> tuple[int, int]:
        """Where a queue begins and ends now."""
        queue, api = self.queue(number), self._client.api
        return await api.min_offset(self.address, queue), await api.max_offset(self.address, queue)

    async def read(self, number: int, start: int, end: int, *, tags: str = "*") -> list[MessageExt]:
        """The records of a queue between two offsets."""
        return [
            each async for each in messages(self._client, self.queue(number), start, end, tags=tags)
        ]
