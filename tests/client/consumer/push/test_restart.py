"""A broker restarted under load: everything it acknowledged is consumed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.producer.producer import Producer
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message
from rocketq.testing import LocalBroker
from tests.client.consuming import QUICK, Received
from tests.waiting import eventually


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """One that a test may stop."""
    with LocalBroker(folder=tmp_path) as broker:
        yield broker


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_nothing_is_lost_when_the_broker_restarts_under_load(
    own_broker: LocalBroker, orderly: bool
) -> None:
    topic = await asyncio.to_thread(own_broker.create_topic, queues=2)
    received = Received()
    acknowledged: list[bytes] = []
    stop = asyncio.Event()

    async def send(producer: Producer) -> None:
        number = 0
        while not stop.is_set():
            body = b"%d" % number
            number += 1
            try:
                await producer.send(Message(topic, body))
            except RocketqError:
                await asyncio.sleep(0.02)
            else:
                acknowledged.append(body)

    consumer = PushConsumer(
        "group",
        namesrv=own_broker.namesrv,
        topics=topic,
        listener=received,
        consume_from="first",
        orderly=orderly,
        **QUICK,
    )
    async with Producer("producers", namesrv=own_broker.namesrv) as producer, consumer:
        sending = asyncio.create_task(send(producer))
        await received.wait_for_count(50)
        for _ in range(2):
            await asyncio.to_thread(own_broker.stop)
            await asyncio.to_thread(own_broker.start)
            before = len(received)
            await eventually(
                lambda before=before: len(received) >= before + 50,  # type: ignore[misc]
                "consumption to go on",
            )
        stop.set()
        await sending
        await received.wait_for(acknowledged)


async def test_offsets_committed_before_a_restart_are_kept(own_broker: LocalBroker) -> None:
    topic = await asyncio.to_thread(own_broker.create_topic, queues=1)
    first, second = Received(), Received()
    async with Producer("producers", namesrv=own_broker.namesrv) as producer:
        for number in range(10):
            await producer.send(Message(topic, b"%d" % number))
        async with PushConsumer(
            "group", namesrv=own_broker.namesrv, topics=topic, listener=first, consume_from="first"
        ):
            await first.wait_for_count(10)

    await asyncio.to_thread(own_broker.stop)
    await asyncio.to_thread(own_broker.start)

    async with Producer("producers", namesrv=own_broker.namesrv) as producer:
        await producer.send(Message(topic, b"new"))
        async with PushConsumer(
            "group", namesrv=own_broker.namesrv, topics=topic, listener=second, consume_from="first"
        ):
            await second.wait_for([b"new"])
    assert second.bodies == [b"new"]
