"""Requests over topics, and their replies."""

import asyncio

import pytest

from rocketq.client.errors import ClientClosed, ReplyTimeout
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.request_reply import reply_to
from rocketq.message.message import Message, MessageExt
from tests.client.conftest import BrokerUnderTest
from tests.client.consuming import QUICK, consuming


async def test_a_request_gets_its_reply(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()

    async def answer(message: MessageExt) -> None:
        await producer.send(reply_to(message, b"re: " + message.body))

    async with (
        consuming(broker, topic, answer, **QUICK),
        Producer(broker.new_group(), namesrv=broker.namesrv) as requester,
    ):
        replies = await asyncio.gather(
            *(requester.request(Message(topic, b"%d" % n), timeout_s=20) for n in range(20))
        )
        assert [reply.body for reply in replies] == [b"re: %d" % n for n in range(20)]
        assert replies[0].get_property("CORRELATION_ID")


async def test_a_large_reply_is_decompressed(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()

    async def answer(message: MessageExt) -> None:
        await producer.send(reply_to(message, b"long reply " * 1000))

    async with consuming(broker, topic, answer, **QUICK):  # fmt: skip
        reply = await producer.request(Message(topic, b"?"), timeout_s=20)
        assert reply.body == b"long reply " * 1000


async def test_a_request_without_reply_times_out(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    with pytest.raises(ReplyTimeout, match=topic) as caught:
        await producer.request(Message(topic, b"anybody?"), timeout_s=0.2)
    assert caught.value.retriable
    assert await broker.wait_for_messages(topic, 1), "the request itself was sent"


async def test_closing_ends_requests_that_wait(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    producer = Producer(broker.new_group(), namesrv=broker.namesrv)
    await producer.start()
    waiting = asyncio.create_task(producer.request(Message(topic, b"?"), timeout_s=60))
    await broker.wait_for_messages(topic, 1)
    await producer.close()
    with pytest.raises(ClientClosed):
        await waiting
