"""Messages consumers give back because they could not process them (code 36).

The request names the message by its place in the log; the broker stores it once more, in
the group's retry topic with the delay level of its number of tries, or in the group's
dead-letter topic. What its producer said stays as it was; added are the topic it came from
and the id of its first record.

The consumer goes on with the answer, so that waits until the message is as safe as one that is
sent, though its record says, as RocketMQ's does, that nobody waits.
"""

import asyncio
import random
from collections.abc import Awaitable
from typing import Final

from rocketq.broker.access.references import References
from rocketq.broker.config import LiveConfig
from rocketq.broker.processor.send import refuse_on_slave
from rocketq.broker.retry import RetryTopics
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.writer import MessageWriter
from rocketq.message.hosts import encode_host
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName, get_property, set_property
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.headers import ConsumerSendMsgBack
from rocketq.store import MessageInner, MessageStore, PutStatus
from rocketq.store.message_inner import stored_again

_FIRST_DELAY_LEVEL: Final = 3

_DELAY: Final = PropertyName.DELAY.encode()
_ORIGIN_MESSAGE_ID: Final = PropertyName.ORIGIN_MESSAGE_ID.encode()
_RETRY_TOPIC: Final = PropertyName.RETRY_TOPIC.encode()
_WAIT: Final = PropertyName.WAIT.encode()

# It is stored, and not as safe as wanted.
_LESS_SAFE: Final = frozenset({PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT})


class SendBackProcessor:
    """Stores given-back messages once more."""

    def __init__(
        self,
        live: LiveConfig,
        retries: RetryTopics,
        store: MessageStore,
        writer: MessageWriter,
        stats: BrokerStats,
        references: References,
    ) -> None:
        self._live = live
        self._retries = retries
        self._store = store
        self._writer = writer
        self._stats = stats
        self._references = references

    def handlers(self) -> Handlers:
        return {ConsumerSendMsgBack.CODE: self._send_back}

    def _send_back(self, request: Command, connection: Connection) -> Command | Awaitable[Command]:
        refuse_on_slave(self._store)
        header = request.header(ConsumerSendMsgBack)
        group = self._retries.group(header.group, connection)
        if not self._live.broker.is_writable:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._live.broker.broker_ip1}] sending message is forbidden",
            )
        if group.retry_queue_nums <= 0:
            return request.reply()  # this group wants nothing a second time
        topic = self._retries.retry_topic(group, connection, unit_mode=header.unit_mode)
        original = self._store.message_at(header.offset)
        if original is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}"
            )
        self._references.check_consumed(
            request, connection, original.topic, header.group, header.origin_topic
        )
        limit = self._retries.limit(group, request.version, header.max_reconsume_times)
        level = header.delay_level
        is_dead = level < 0 or original.reconsume_times >= limit
        if is_dead:
            topic = self._retries.dlq_topic(header.group, connection)
            level, queue_count = 0, topic.write_queue_nums
        else:
            level = level or _FIRST_DELAY_LEVEL + original.reconsume_times
            queue_count = min(group.retry_queue_nums, topic.write_queue_nums)
        message = self._next_try(original, level)
        message.move_to(topic.topic_name, random.randrange(max(queue_count, 1)))
        # Named before the message is stored: nothing may fail after that.
        origin = get_property(message.properties, _RETRY_TOPIC) or original.raw_topic
        source = origin.decode("utf-8", "replace")
        result = self._writer.put(message)
        if result.status is not PutStatus.PUT_OK:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, result.status.name)
        self._stats.messages_put(topic.topic_name, message.queue_id, 1, result.size)
        self._stats.message_sent_back(header.group, source)
        if is_dead:
            self._stats.message_sent_to_dlq(header.group, source)
        safe = self._store.durable(result.end)
        return request.reply() if safe is None else self._reply_when(safe, request)

    async def _reply_when(self, safe: asyncio.Future[PutStatus], request: Command) -> Command:
        status = await asyncio.shield(safe)  # others wait for the same
        # One master keeps what is in its log. Of an elected set the next one may not have it.
        is_kept = status in _LESS_SAFE and not self._store.is_controlled
        if status is not PutStatus.PUT_OK and not is_kept:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, status.name)
        return request.reply()

    def _next_try(self, original: MessageExt, level: int) -> MessageInner:
        """The message for its next try, not yet sent anywhere."""
        message = stored_again(original)
        config = self._live.broker
        message.store_host = encode_host(config.broker_ip1, config.listen_port)
        message.reconsume_times = original.reconsume_times + 1
        properties = message.properties
        if get_property(properties, _RETRY_TOPIC) is None:
            properties = set_property(properties, _RETRY_TOPIC, original.raw_topic)
        if get_property(properties, _ORIGIN_MESSAGE_ID) is None:
            first_id = original.offset_msg_id.encode()
            properties = set_property(properties, _ORIGIN_MESSAGE_ID, first_id)
        properties = set_property(properties, _WAIT, b"false")
        message.properties = set_property(properties, _DELAY, b"%d" % level)
        return message
