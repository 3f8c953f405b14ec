"""Messages of a topic as people look through them: the newest first, some at a time."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rocketq.admin import messages
from rocketq.admin.messages import QueueRange
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import DLQ_PREFIX, is_dlq_topic, retry_topic
from rocketq.message.properties.codec import PropertyName

_CHUNK: Final = 32

# What is the message's own; the other names that RocketMQ knows are about one sending of it.
_CONTENT: Final = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.SHARDING_KEY,
        PropertyName.RETRY_TOPIC,
        PropertyName.ORIGIN_MESSAGE_ID,
    }
)
_KNOWN_NAMES: Final = frozenset(
    value for name, value in vars(PropertyName).items() if name.isupper()
)


@dataclass(slots=True)
class _Queue:
    """A queue that is read from its end."""

    part: QueueRange
    unread: int
    found: list[MessageExt] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.unread <= self.part.begin

    @property
    def oldest(self) -> int:
        return self.found[-1].store_timestamp if self.found else 2**63 - 1


async def newest(
    api: BrokerApi,
    topic: str,
    *,
    count: int,
    begin_ms: int | None = None,
    end_ms: int | None = None,
) -> list[MessageExt]:
    """The newest messages that were stored between two times, newest first.

    Each queue is read backwards, and only as far as its messages may belong to them.
    """
    parts = await messages.ranges(api, topic, begin_ms=begin_ms, end_ms=end_ms)
    queues = [_Queue(part, part.end) for part in parts if part.begin < part.end]
    while True:
        found = _merged(queues)[:count]
        cut = found[-1].store_timestamp if len(found) == count else -1
        needed = [each for each in queues if not each.is_done and each.oldest >= cut]
        if not needed:
            return found
        await asyncio.gather(*(_read_back(api, each) for each in needed))


def _merged(queues: Iterable[_Queue]) -> list[MessageExt]:
    every = [message for queue in queues for message in queue.found]
    every.sort(key=lambda each: (each.store_timestamp, each.physical_offset), reverse=True)
    return every


async def _read_back(api: BrokerApi, queue: _Queue) -> None:
    """The chunk before what has been read; a gap in the queue counts as read."""
    begin = max(queue.part.begin, queue.unread - _CHUNK)
    part = QueueRange(queue.part.queue, queue.part.address, begin, queue.unread)
    chunk = [message async for pulled in messages.read(api, part) for message in pulled.messages]
    queue.found += reversed(chunk)
    queue.unread = begin


def again(message: MessageExt) -> Message:
    """The same content as a new message of the same topic.

    A dead letter becomes one of its group's retries, so that this group gets it again and no
    other one does.
    """
    properties = {
        name: value
        for name, value in message.properties.items()
        if name in _CONTENT or name not in _KNOWN_NAMES
    }
    topic = message.topic
    if is_dlq_topic(topic):
        topic = retry_topic(topic.removeprefix(DLQ_PREFIX))
    return Message.of(topic, message.body, properties)
