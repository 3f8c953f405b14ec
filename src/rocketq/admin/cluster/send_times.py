"""How long brokers take for a message, measured by sending some."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue

_GROUP = "rocketq-admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message: where it was to go, how long that took, what came of it."""

    queue: MessageQueue | None
    milliseconds: float
    result: SendResult | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimes:
    """What the messages to one broker took."""

    cluster: str
    broker_name: str
    milliseconds: float
    succeeded: int
    failed: int


async def to_topic(api: BrokerApi, topic: str, count: int, size: int) -> AsyncIterator[Sent]:
    """Messages to a topic's queues in turn."""
    async with Producer(_GROUP, namesrv=api.name_servers.addresses) as producer:
        queues = await producer.publish_queues(topic)
        if not queues:
            raise AdminError(f"nothing can be sent to {topic}")
        for number in range(count):
            queue = queues[number % len(queues)]
            yield await _send(producer, topic, size, queue)


async def to_broker(api: BrokerApi, broker_name: str, count: int, size: int) -> AsyncIterator[Sent]:
    """Messages to a broker's own topic, which has its name; the first one is not counted."""
    await topics.route(api, broker_name)
    async with Producer(_GROUP, namesrv=api.name_servers.addresses) as producer:
        await producer.send(Message(broker_name, b"." * 16))
        for _ in range(count):
            yield await _send(producer, broker_name, size, None)


async def of_clusters(
    api: BrokerApi, cluster: str | None, count: int, size: int
) -> list[BrokerTimes]:
    """The mean of each broker's own topic; the first message is not counted."""
    info = await api.cluster_info()
    wanted = [cluster] if cluster else sorted(info.cluster_addr_table)
    found = []
    async with Producer(_GROUP, namesrv=api.name_servers.addresses) as producer:
        for name in wanted:
            await brokers.masters(api, name)  # raises for a cluster that nobody knows
            for broker_name in sorted(info.cluster_addr_table[name]):
                sent = [await _send(producer, broker_name, size, None) for _ in range(count + 1)]
                good = [each.milliseconds for each in sent[1:] if each.error is None]
                found.append(
                    BrokerTimes(
                        cluster=name,
                        broker_name=broker_name,
                        milliseconds=sum(good) / len(good) if good else 0.0,
                        succeeded=len(good),
                        failed=count - len(good),
                    )
                )
    return found


async def _send(producer: Producer, topic: str, size: int, queue: MessageQueue | None) -> Sent:
    began = time.perf_counter()
    result, error = None, None
    try:
        result = await producer.send(Message(topic, b"a" * max(size, 1)), queue=queue)
    except RocketqError as failure:
        error = str(failure)
    taken = (time.perf_counter() - began) * 1000
    where = queue if result is None else result.queue
    return Sent(queue=where, milliseconds=taken, result=result, error=error)
