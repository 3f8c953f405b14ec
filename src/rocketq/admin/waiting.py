"""Messages that wait: for their time, or for the decision about their transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from rocketq.admin import messages, topics
from rocketq.admin.errors import UnknownTopic
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.common.numbers import parse_int64
from rocketq.message.message import MessageExt
from rocketq.message.names import (
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.replication import TimerMetrics
from rocketq.remoting.codes import RequestCode


@dataclass(frozen=True, slots=True)
class Undecided:
    """Half messages that neither a commit nor a rollback was stored for.

    `behind` is how many half messages a broker has not finished with, decided ones among them.
    """

    messages: Sequence[MessageExt]
    behind: int


async def timed(api: BrokerApi, address: str) -> TimerMetrics | None:
    """How many timed messages wait, by topic; None of a broker that has no timers."""
    try:
        reply = await api.invoke(address, RequestCode.GET_TIMER_METRICS)
    except BrokerRejected:
        return None
    return TimerMetrics.decode(reply.body)


async def undecided(api: BrokerApi, *, most: int = 500) -> Undecided:
    """Half messages without an answer, oldest first.

    A broker keeps half messages in a topic of its own and the decisions in another one, whose
    bodies name the offsets that are decided. It moves an offset of its own group on over both.
    """
    found: list[MessageExt] = []
    behind = 0
    for part in await _parts(api, TRANSACTION_HALF_TOPIC):
        behind += max(part.end - part.begin, 0)
        decided = await _decided(api, part.queue)
        async for pulled in messages.read(api, part):
            found += [each for each in pulled.messages if each.queue_offset not in decided]
            if len(found) >= most:
                break
    found.sort(key=lambda each: each.store_timestamp)
    return Undecided(found[:most], behind)


async def _decided(api: BrokerApi, half: MessageQueue) -> set[int]:
    offsets: set[int] = set()
    for part in await _parts(api, TRANSACTION_OP_TOPIC):
        queue = part.queue
        if (queue.broker_name, queue.queue_id) != (half.broker_name, half.queue_id):
            continue
        async for pulled in messages.read(api, part):
            for message in pulled.messages:
                for word in message.body.decode(errors="replace").split(","):
                    offset = parse_int64(word.strip())
                    if offset is not None:
                        offsets.add(offset)
    return offsets


async def _parts(api: BrokerApi, topic: str) -> list[messages.QueueRange]:
    """What the broker's own group has not finished with in each queue."""
    try:
        await topics.route(api, topic)
    except UnknownTopic:
        return []
    parts = []
    for part in await messages.ranges(api, topic):
        at = await api.query_offset(
            part.address, TRANSACTION_GROUP, part.queue, zero_if_not_found=False
        )
        begin = max(part.begin, at or 0)
        parts.append(messages.QueueRange(part.queue, part.address, begin, part.end))
    return parts
