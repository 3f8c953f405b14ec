"""The broker that the tests of clients run against.

`rocketq`: a real one in this process. With the environment variable ROCKETQ_PEER_NAMESRV (a
NameServer's address, or several separated by commas) every test runs against those brokers
as well, marked `peers`.
"""

import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.errors import NoRoute
from rocketq.client.producer.producer import Producer
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.testing import LocalBroker
from tests.waiting import eventually

PEERS = [text for text in os.environ.get("ROCKETQ_PEER_NAMESRV", "").split(",") if text]


class BrokerUnderTest:
    """A broker, whoever wrote it, and what tests ask of it."""

    def __init__(self, namesrv: str, client: ClientInstance, *, is_ours: bool) -> None:
        self.namesrv = namesrv
        self.is_ours = is_ours
        self.client = client

    async def address(self) -> str:
        """The address of the one master."""
        info = await self.client.api.cluster_info()
        (broker,) = info.broker_addr_table.values()
        return broker.broker_addrs[0]

    def new_name(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def new_group(self) -> str:
        return self.new_name("group")

    async def new_topic(self, queues: int = 4, **config: Any) -> str:
        """A topic nobody has used, ready for use."""
        topic = self.new_name("topic")
        await self.client.api.create_topic(
            await self.address(),
            TopicConfig(
                topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, **config
            ),
        )
        await eventually(lambda: self.client.api.route(topic), f"a route of {topic}")
        return topic

    async def messages(self, topic: str) -> list[MessageExt]:
        """Everything stored in a topic."""
        found: list[MessageExt] = []
        for queue in await self.client.routes.subscribe_queues(topic, refresh=True):
            found += await self.messages_in(queue)
        return sorted(found, key=lambda message: message.physical_offset)

    async def messages_in(self, queue: MessageQueue) -> list[MessageExt]:
        """Everything stored in a queue, in order."""
        address = await self.address()
        found: list[MessageExt] = []
        offset = await self.client.api.min_offset(address, queue)
        while True:
            pulled = await self.client.api.pull(
                address,
                group="TOOLS_CONSUMER",
                queue=queue,
                offset=offset,
                flags=4,
                subscription="*",
            )
            if pulled.code != 0:
                return found
            found += decode_records(pulled.body, broker_name=queue.broker_name)
            offset = pulled.next_offset

    async def wait_for_messages(self, topic: str, count: int) -> list[MessageExt]:
        """Everything stored in a topic, once there is so much of it.

        RocketMQ answers a send before the message can be read, and before the NameServer
        knows of a topic that it has created.
        """

        async def enough() -> list[MessageExt] | None:
            with contextlib.suppress(NoRoute):
                found = await self.messages(topic)
                if len(found) >= count:
                    return found
            return None

        found = await eventually(enough, f"{count} messages in {topic}")
        assert found is not None
        return found


@pytest.fixture(scope="session")
def local_broker() -> Iterator[LocalBroker]:
    """Shared by the tests that do not hurt it."""
    settings = {
        "enablePropertyFilter": "true",
        "messageDelayLevel": "1s 1s 1s 2s 2s 5s",
        "recallMessageEnable": "true",
        "reviveInterval": "50",
        "timerPrecisionMs": "100",
    }
    with LocalBroker(settings) as broker:
        yield broker


def _brokers() -> list[Any]:
    ours = pytest.param(None, id="rocketq")
    return [ours, *(pytest.param(address, marks=pytest.mark.peers) for address in PEERS)]


@pytest.fixture(params=_brokers())
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[BrokerUnderTest]:
    """The broker a test runs against."""
    is_ours = request.param is None
    namesrv = request.getfixturevalue("local_broker").namesrv if is_ours else request.param
    async with ClientInstance.opened(ClientConfig(namesrv=namesrv)) as client:
        yield BrokerUnderTest(namesrv, client, is_ours=is_ours)


@pytest.fixture
async def producer(broker: BrokerUnderTest) -> AsyncIterator[Producer]:
    """A started producer."""
    async with Producer(broker.new_name("producers"), namesrv=broker.namesrv) as producer:
        yield producer
