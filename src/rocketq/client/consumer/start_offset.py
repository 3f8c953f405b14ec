"""Where consumption of a queue starts.

A stored offset always wins. Without one it depends on what the consumer asked for:

    consume_from    ordinary topic               retry topic
    last            the end                      the beginning
    first           the beginning                the beginning
    timestamp       the first message after it   the end

Brokers answer a group they do not know with offset 0 while a queue is young (its first message
is still in memory), so that a new group on a new topic misses nothing even with "last".
"""

from datetime import datetime
from enum import Enum

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.errors import InvalidSettings
from rocketq.message.names import is_retry_topic
from rocketq.message.queue import MessageQueue


class ConsumeFrom(Enum):
    """What a group without a stored offset gets; the values are RocketMQ's words."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

    @classmethod
    def of(cls, value: "ConsumeFrom | str") -> "ConsumeFrom":
        """Accepts a member, `"first"`, or RocketMQ's word."""
        if isinstance(value, cls):
            return value
        for member in cls:
            if str(value).lower() in (member.name.lower(), member.value.lower()):
                return member
        raise InvalidSettings(f"consume_from is 'last', 'first' or 'timestamp', not {value!r}")


def timestamp_ms(value: int | float | str | datetime) -> int:
    """A moment as milliseconds: epoch milliseconds, a datetime, or RocketMQ's `yyyyMMddHHmmss`."""
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, str):
        try:
            return int(datetime.strptime(value, "%Y%m%d%H%M%S").timestamp() * 1000)
        except ValueError as error:
            raise InvalidSettings(
                f"consume_timestamp {value!r} is not of the form yyyyMMddHHmmss"
            ) from error
    return int(value)


async def start_offset(
    instance: ClientInstance,
    offsets: OffsetStore,
    queue: MessageQueue,
    consume_from: ConsumeFrom,
    consume_timestamp_ms: int,
) -> int:
    """Where to start; raises when that cannot be found out now."""
    stored = await offsets.read(queue)
    if stored is not None and stored >= 0:
        return stored
    if consume_from is ConsumeFrom.FIRST:
        return 0  # the broker moves it to the first message there is
    is_retry = is_retry_topic(queue.topic)
    if consume_from is ConsumeFrom.LAST and is_retry:
        return 0
    if consume_from is ConsumeFrom.LAST or is_retry:
        return await max_offset(instance, queue)
    return await offset_at(instance, queue, consume_timestamp_ms)


async def min_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """The offset of the first message there still is."""
    return await instance.ask_broker_of(
        queue, lambda broker: instance.api.min_offset(broker.address, queue)
    )


async def max_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """The offset after the last message."""
    return await instance.ask_broker_of(
        queue, lambda broker: instance.api.max_offset(broker.address, queue)
    )


async def offset_at(instance: ClientInstance, queue: MessageQueue, moment_ms: int) -> int:
    """The offset of the first message stored at or after a moment."""
    return await instance.ask_broker_of(
        queue, lambda broker: instance.api.search_offset(broker.address, queue, moment_ms)
    )
