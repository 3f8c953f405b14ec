"""Giving messages back to the broker, to be delivered again later.

    send-back        the broker copies the stored message into the group's retry topic
    ordinary send    the client sends it there itself; when send-back fails, and for orderly
                     consumers at their limit (whose messages the broker then puts straight
                     into the dead-letter topic, because the group holds queue locks)

The delay grows with each attempt (levels 3, 4, 5, ...) unless one is chosen.
"""

import logging

from rocketq.client.errors import BrokerUnknown
from rocketq.client.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import retry_topic, wrap_namespace
from rocketq.message.properties import PropertyName

logger = logging.getLogger(__name__)

DEFAULT_MAX_RECONSUME_TIMES = 16
_FIRST_RETRY_LEVEL = 3
# What this client added to the message, or what no longer holds for the copy.
_NOT_COPIED = (
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
            await self.send_to_retry_topic(message)
        finally:
            message.topic = topic

    async def send_to_retry_topic(self, message: MessageExt) -> None:
        """Send a copy as an ordinary message; the broker counts attempts by its properties."""
        times = message.reconsume_times
        namespace = self._instance.config.namespace
        properties = dict(message.properties)
        for name in _NOT_COPIED:
            properties.pop(name, None)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[PropertyName.RETRY_TOPIC] = wrap_namespace(namespace, message.topic)
        properties[PropertyName.RECONSUME_TIME] = str(times + 1)
        properties[PropertyName.MAX_RECONSUME_TIMES] = str(self._max_reconsume_times)
        properties[PropertyName.DELAY] = str(_FIRST_RETRY_LEVEL + times)
        copy = Message.of(retry_topic(self._group), message.body, properties, message.flag)
        producer = await self._instance.inner_producer()
        await producer.send(copy)

    def _address(self, message: MessageExt, broker_name: str) -> str:
        address = self._instance.routes.master(broker_name)
        if address is not None:
            return address
        if broker_name:
            raise BrokerUnknown(broker_name)
        host, port = message.store_host
        return f"{host}:{port}"
