"""Push consumers when connections break, brokers vanish and NameServers are away."""

import asyncio
import socket
from pathlib import Path

import pytest

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from tests.client.consuming import QUICK, Broker, Received, bodies, consuming, send_all
from tests.client.cutting_proxy import detour
from tests.waiting import eventually


async def address_of(broker: Broker, topic: str) -> tuple[str, str]:
    """Name and address of the broker that has the topic."""
    async with ClientInstance.opened(ClientConfig(namesrv=broker.namesrv)) as tools:
        queues = await tools.routes.subscribe_queues(topic)
        address = tools.routes.some_broker(topic)
        assert address is not None
        return queues[0].broker_name, address


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_when_connections_are_cut_at_random_bytes(
    broker: Broker, producer: Producer, tmp_path: Path, seed: int
) -> None:
    topic, group, received = await broker.new_topic(), broker.new_group(), Received()
    broker_name, address = await address_of(broker, topic)
    sent = bodies(400)

    async def on_messages(messages: list[MessageExt]) -> None:
        received.all(messages)

    async with detour(address, broker_name, {topic: 4}, tmp_path, seed) as (namesrv, proxy):
        consumer = PushConsumer(
            group,
            namesrv=namesrv,
            topics=topic,
            listener=on_messages,
            consume_from="first",
            pull_batch_size=8,
            **QUICK,
        )
        async with consumer:
            proxy.budget = 40_000
            proxy.cut_all()
            await send_all(producer, topic, sent)
            await received.wait_for(sent)
            await eventually(lambda: proxy.cuts >= 3, "connections to be cut")
            proxy.budget = None
            proxy.cut_all()
            # What was committed in between must not have skipped anything either.
            await producer.send(Message(topic, b"last"))
            await received.wait_for([b"last"])

    async with consuming(broker, topic, received, group=group):
        await producer.send(Message(topic, b"after"))
        await received.wait_for([b"after"])


async def test_a_connection_cut_while_orderly_keeps_the_order(
    broker: Broker, producer: Producer, tmp_path: Path
) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    broker_name, address = await address_of(broker, topic)
    sent = bodies(200)
    async with detour(address, broker_name, {topic: 1}, tmp_path) as (namesrv, proxy):
        consumer = PushConsumer(
            broker.new_group(),
            namesrv=namesrv,
            topics=topic,
            listener=received,
            consume_from="first",
            orderly=True,
            pull_batch_size=8,
            **QUICK,
        )
        async with consumer:
            sending = asyncio.create_task(send_all(producer, topic, sent))
            for count in (20, 60, 120):
                await received.wait_for_count(count)
                proxy.cut_all()
            await sending
            await received.wait_for(sent)

    assert list(dict.fromkeys(received.bodies)) == sent


async def test_a_name_server_may_come_after_the_consumer(
    broker: Broker, producer: Producer, tmp_path: Path
) -> None:
    topic, received = await broker.new_topic(), Received()
    broker_name, address = await address_of(broker, topic)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    consumer = PushConsumer(
        broker.new_group(),
        namesrv=f"127.0.0.1:{port}",
        topics=topic,
        listener=received,
        consume_from="first",
        route_interval_s=0.1,
        **QUICK,
    )
    async with consumer, detour(address, broker_name, {topic: 4}, tmp_path, port=port):
        await send_all(producer, topic, bodies(20))
        await received.wait_for(bodies(20))


async def test_a_name_server_that_goes_away_is_not_missed(
    broker: Broker, producer: Producer, tmp_path: Path
) -> None:
    topic, received = await broker.new_topic(), Received()
    broker_name, address = await address_of(broker, topic)
    async with detour(address, broker_name, {topic: 4}, tmp_path) as (namesrv, _):
        consumer = PushConsumer(
            broker.new_group(),
            namesrv=f"127.0.0.1:1;{namesrv}",
            topics=topic,
            listener=received,
            consume_from="first",
            route_interval_s=0.1,
            **QUICK,
        )
        async with consumer:
            await send_all(producer, topic, bodies(20))
            await received.wait_for(bodies(20))
