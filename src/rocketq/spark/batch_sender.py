"""Sends encoded batches, and tries again where that can help."""

import asyncio
import logging
import time
from typing import Final

from rocketq.client.errors import BrokerRejected, ClientError
from rocketq.client.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.batch import split_batch
from rocketq.message.names import AUTO_CREATE_TOPIC
from rocketq.message.properties import PropertyName, append_property
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.command import Command
from rocketq.remoting.headers import SendMessageV2
from rocketq.spark.options import SinkOptions

logger = logging.getLogger(__name__)

_TAKEN: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
_NEW_TOPIC_QUEUES: Final = 4


class SendRefused(RocketqError):
    """A broker did not take a batch, however often it was asked."""


class BatchSender:
    """Sends for one task. Lives on the loop of the client."""

    def __init__(self, client: ClientInstance, options: SinkOptions) -> None:
        self._client = client
        self._options = options

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a topic has for writing."""
        return (await self._client.routes.publish_info(topic)).queues

    async def send(
        self,
        topic: str,
        queue: MessageQueue,
        body: bytes,
        count: int,
        *,
        is_fixed: bool,
        delay_level: int = 0,
    ) -> None:
        """Send a batch to a queue; where that is not `is_fixed`, in need to another one."""
        pause_s = 0.1
        for attempt in range(self._options.retries + 1):
            try:
                await self._try(topic, queue, body, delay_level)
                return
            except (ClientError, RocketqError) as error:
                if attempt == self._options.retries or not error.retriable:
                    raise SendRefused(
                        f"{count} rows for topic {topic!r}, {queue.broker_name} queue "
                        f"{queue.queue_id}, were not taken after {attempt + 1} attempts: {error}"
                    ) from error
                logger.info("%s: %s; again in %g s", topic, error, pause_s)
            await asyncio.sleep(pause_s)
            pause_s *= 2
            queue = await self._next_queue(topic, queue, is_fixed=is_fixed)

    async def _next_queue(self, topic: str, queue: MessageQueue, *, is_fixed: bool) -> MessageQueue:
        try:
            await self._client.routes.refresh(topic)
        except (ClientError, RocketqError) as error:
            logger.info("no new route to %s: %s", topic, error)
        if is_fixed:
            return queue
        queues = await self.queues(topic)
        others = [other for other in queues if other.broker_name != queue.broker_name] or queues
        return others[int(time.monotonic() * 1000) % len(others)]

    async def _try(self, topic: str, queue: MessageQueue, body: bytes, delay_level: int) -> None:
        address = self._client.routes.master(queue.broker_name)
        if address is None:
            raise NoMaster(f"broker {queue.broker_name} has no master at the moment")
        code, properties, flag = RequestCode.SEND_BATCH_MESSAGE, "", 0
        if delay_level > 0:
            ((flag, part, raw),) = split_batch(body)
            code, body = RequestCode.SEND_MESSAGE_V2, bytes(part)
            level = str(delay_level).encode()
            properties = append_property(bytes(raw), PropertyName.DELAY.encode(), level).decode()
        header = SendMessageV2(
            producer_group=self._options.producer_group,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=_NEW_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=code == RequestCode.SEND_BATCH_MESSAGE,
            broker_name=queue.broker_name,
        )
        reply = await self._client.api.remoting.call(
            address, Command.request(header, body, code=code), self._options.send_timeout_s
        )
        if reply.code not in _TAKEN:
            raise BrokerRejected(reply.code, reply.remark or "", address=address, request="send")
        if reply.code != ResponseCode.SUCCESS:
            logger.warning("%s took a batch with %s", address, ResponseCode(reply.code).name)


class NoMaster(ClientError):
    """There is nobody to write to for now."""

    retriable = True
