"""Sends encoded batches, and tries again where that can help."""

import logging
import time
from typing import Final

from rocketq.client.errors import BrokerRejected, BrokerUnknown, ClientError, NoRoute
from rocketq.client.instance import ClientInstance
from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.batch import split_batch
from rocketq.message.names import AUTO_CREATE_TOPIC, wrap_namespace
from rocketq.message.properties import PropertyName, append_property
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.command import Command
from rocketq.remoting.headers import SendMessageV2
from rocketq.spark.options import SinkOptions
from rocketq.spark.retry import Retry

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


class NobodyThere(ClientError):
    """The NameServers know of no broker at all: the cluster is being started again."""

    retriable = True


class BatchSender:
    """Sends for one task. Lives on the loop of the client."""

    def __init__(self, client: ClientInstance, options: SinkOptions) -> None:
        self._client = client
        self._options = options
        self._namespace = options.connection.namespace

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a topic has for writing."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                return await self._queues(wrap_namespace(self._namespace, topic))
            except RocketqError as error:
                await retry.pause(error)

    async def _queues(self, topic: str) -> tuple[MessageQueue, ...]:
        try:
            return (await self._client.routes.publish_info(topic)).queues
        except NoRoute as error:
            if (await self._client.api.cluster_info()).broker_addr_table:
                raise  # there are brokers, and none of them has this topic or makes it
            raise NobodyThere(str(error)) from error

    async def send(
        self,
        queue: MessageQueue,
        body: Buffer,
        count: int,
        *,
        is_fixed: bool,
        delay_level: int = 0,
    ) -> None:
        """Send a batch to a queue; where that is not `is_fixed`, in need to another one."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                await self._try(queue, body, delay_level)
                return
            except RocketqError as error:
                try:
                    await retry.pause(error)
                except RocketqError:
                    raise SendRefused(
                        f"{count} rows for topic {queue.topic!r}, {queue.broker_name} queue "
                        f"{queue.queue_id}, were not taken after {retry.attempts} attempts: {error}"
                    ) from error
            queue = await self._next_queue(queue, is_fixed=is_fixed)

    async def _next_queue(self, queue: MessageQueue, *, is_fixed: bool) -> MessageQueue:
        try:
            await self._client.routes.refresh(queue.topic)
        except RocketqError as error:
            logger.info("no new route to %s: %s", queue.topic, error)
        known = self._client.routes.known_publish_info(queue.topic)
        if is_fixed or known is None or not known.queues:
            return queue
        others = [each for each in known.queues if each.broker_name != queue.broker_name]
        among = others or known.queues
        return among[time.monotonic_ns() // 1_000_000 % len(among)]

    async def _try(self, queue: MessageQueue, body: Buffer, delay_level: int) -> None:
        address = self._client.routes.master(queue.broker_name)
        if address is None:
            raise BrokerUnknown(queue.broker_name)
        code, properties, flag = RequestCode.SEND_BATCH_MESSAGE, "", 0
        if delay_level > 0:
            ((flag, part, raw),) = split_batch(body)
            code, body = RequestCode.SEND_MESSAGE_V2, bytes(part)
            level = str(delay_level).encode()
            properties = append_property(bytes(raw), PropertyName.DELAY.encode(), level).decode()
        header = SendMessageV2(
            producer_group=wrap_namespace(self._namespace, self._options.producer_group),
            topic=queue.topic,
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
            address, Command.request(header, body, code=code), self._options.connection.timeout_s
        )
        if reply.code not in _TAKEN:
            raise BrokerRejected(reply.code, reply.remark or "", address=address, request="send")
        if reply.code != ResponseCode.SUCCESS:
            logger.warning("%s took a batch with %s", address, ResponseCode(reply.code).name)
