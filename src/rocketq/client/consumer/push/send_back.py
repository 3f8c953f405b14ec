"""Giving messages back to the broker, to be delivered again later.

    send-back        the broker copies the stored message into the group's retry topic
    ordinary send    the client sends it there itself; when send-back fails, and for orderly
                     consumers at their limit (whose messages the broker then puts straight
                     into the dead-letter topic, because the group holds queue locks)

The delay grows with each attempt (levels 3, 4, 5, ...) unless one is chosen.
"""

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import BrokerUnknown
from rocketq.common.errors import RocketqError
from rocketq.message.flags import SysFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import (
    AUTO_CREATE_TOPIC,
    CLIENT_INNER_PRODUCER_GROUP,
    retry_topic,
    wrap_namespace,
)
from rocketq.message.properties.codec import PropertyName, encode_properties
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.headers.send import SendMessageV2

logger = logging.getLogger(__name__)

_FIRST_RETRY_LEVEL: Final = 3
_ATTEMPTS: Final = 3
# The message is stored; whether it is also flushed or replicated does not matter here.
_STORED: Final = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.FLUSH_DISK_TIMEOUT),
        int(ResponseCode.SLAVE_NOT_AVAILABLE),
        int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
    }
)
_SAFE: Final = frozenset({int(ResponseCode.SUCCESS)})
# The body is copied as it is stored, so what says how to read it is copied too.
_BODY_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
# What this client added to the message, or what no longer holds for the copy.
_NOT_COPIED: Final = (
    PropertyName.TRANSACTION_PREPARED,
    PropertyName.MIN_OFFSET,
    PropertyName.MAX_OFFSET,
    PropertyName.CONSUME_START_TIME,
)


class SendBack:
    """Gives back what one group could not consume."""

    def __init__(self, instance: ClientInstance, group: str, max_reconsume_times: int) -> None:
        self._instance = instance
        self._group = group
        self._max_reconsume_times = max_reconsume_times

    async def give_back(
        self, message: MessageExt, delay_level: int, broker_name: str | None = None
    ) -> None:
        """Send a message back; raises only when both ways failed."""
        namespace = self._instance.config.namespace
        topic = message.topic
        try:
            # Brokers know the topic by its full name; here it is the user's again afterwards.
            message.topic = wrap_namespace(namespace, topic)
            await self._instance.api.send_back(
                self._address(message, broker_name or message.broker_name),
                group=self._group,
                message=message,
                delay_level=delay_level,
                max_reconsume_times=self._max_reconsume_times,
                broker_name=broker_name,
            )
        except RocketqError as error:
            logger.warning(
                "the broker did not take back message %s of %s, it is sent to %s instead: %s",
                message.msg_id,
                message.topic,
                retry_topic(self._group),
                error,
            )
            message.topic = topic
            # Where it is less safe than wanted it is given back again, the first way.
            await self.send_to_retry_topic(message, accept=_SAFE)
        finally:
            message.topic = topic

    async def send_to_retry_topic(
        self, message: MessageExt, accept: frozenset[int] = _STORED
    ) -> None:
        """Send a copy as an ordinary message; its header counts the attempts."""
        topic = retry_topic(self._group)
        times = message.reconsume_times
        properties = dict(message.properties)
        for name in _NOT_COPIED:
            properties.pop(name, None)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[PropertyName.RETRY_TOPIC] = wrap_namespace(
            self._instance.config.namespace, message.topic
        )
        properties[PropertyName.DELAY] = str(_FIRST_RETRY_LEVEL + times)
        header = SendMessageV2(
            producer_group=CLIENT_INNER_PRODUCER_GROUP,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=message.sys_flag & _BODY_FLAGS,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=times + 1,
            unit_mode=False,
            max_reconsume_times=self._max_reconsume_times,
            batch=False,
        )
        await self._send(header, message.raw_body, accept)

    async def _send(self, header: SendMessageV2, body: bytes, accept: frozenset[int]) -> None:
        """Send to one of the topic's queues, to another broker's when that fails."""
        info = await self._instance.routes.publish_info(header.topic)
        by_broker = {queue.broker_name: queue for queue in _shuffled(info.queues)}
        failure: RocketqError = BrokerUnknown(", ".join(by_broker))
        for queue in list(by_broker.values())[:_ATTEMPTS]:
            address = self._instance.routes.master(queue.broker_name)
            if address is None:
                continue
            request = replace(header, queue_id=queue.queue_id, broker_name=queue.broker_name)
            try:
                await self._instance.api.invoke(address, request, body, accept=accept)
                return
            except RocketqError as error:
                failure = error
        raise failure

    def _address(self, message: MessageExt, broker_name: str) -> str:
        address = self._instance.routes.master(broker_name)
        if address is not None:
            return address
        if broker_name:
            raise BrokerUnknown(broker_name)
        host, port = message.store_host
        return f"{host}:{port}"


def _shuffled(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    return random.sample(queues, len(queues))
