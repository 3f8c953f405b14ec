"""Messages for later, called back, and with a priority, against a broker."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from rocketq import Producer as BlockingProducer
from rocketq.client.errors import BrokerRejected, InvalidMessage
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest


async def test_a_message_with_a_delay_arrives_when_it_is_over(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    sent_ms = time.time_ns() // 1_000_000
    at = datetime.now(UTC) + timedelta(milliseconds=1500)
    results = [
        await producer.send(Message(topic, b"delay", delay=1.5)),
        await producer.send(Message(topic, b"timedelta", delay=timedelta(seconds=1.5))),
        await producer.send(Message(topic, b"at", deliver_at=at)),
    ]
    await producer.send(Message(topic, b"now"))
    assert [message.body for message in await broker.wait_for_messages(topic, 1)] == [b"now"]

    messages = await broker.wait_for_messages(topic, 4)

    timed = {message.body: message for message in messages if message.body != b"now"}
    assert timed.keys() == {b"delay", b"timedelta", b"at"}
    for message in timed.values():
        assert message.store_timestamp - sent_ms >= 1400  # the precision of the timer is 100 ms
    assert {message.msg_id for message in timed.values()} == {each.msg_id for each in results}


async def test_a_message_is_called_back_by_its_handle(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    delay_s = 1.5 if broker.is_ours else 6  # RocketMQ's timer works in whole seconds
    result = await producer.send(Message(topic, b"never", delay=delay_s))
    later = await producer.send(Message(topic, b"later", delay=delay_s + 0.5))
    assert result.recall_handle

    assert await producer.recall(topic, result.recall_handle) == result.msg_id

    (message,) = await broker.wait_for_messages(topic, 1)
    assert message.msg_id == later.msg_id


async def test_only_a_message_for_later_can_be_called_back(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    assert not (await producer.send(Message(topic, b"now"))).recall_handle
    with pytest.raises(InvalidMessage, match="recall handle"):
        await producer.recall(topic, "bm90IG9uZQ==")


async def test_what_is_delivered_cannot_be_called_back(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    result = await producer.send(Message(topic, b"soon", delay=0.2))
    await broker.wait_for_messages(topic, 1)
    with pytest.raises(BrokerRejected, match="RECALL_MESSAGE"):
        await producer.recall(topic, result.recall_handle)


async def test_a_delay_beyond_what_the_broker_keeps_is_refused(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    with pytest.raises(BrokerRejected):
        await producer.send(Message(topic, b"in a year", delay=timedelta(days=365)))


async def test_a_priority_chooses_the_queue(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=3, attributes={"message.type": "PRIORITY"})
    for priority in (0, 2, 9):
        result = await producer.send(Message(topic, b"%d" % priority, priority=priority))
        assert result.queue.queue_id == min(priority, 2)
    messages = await broker.wait_for_messages(topic, 3)
    assert {message.body: message.priority for message in messages} == {b"0": 0, b"2": 2, b"9": 9}


async def test_messages_with_a_priority_go_in_no_batch(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    with pytest.raises(InvalidMessage, match="priority"):
        await producer.send_batch([Message(topic, b"x", priority=1), Message(topic, b"y")])


async def test_the_blocking_producer_calls_back_too(local_broker: LocalBroker) -> None:
    def send_and_recall() -> tuple[str, str]:
        topic = local_broker.create_topic()
        with BlockingProducer(
            local_broker.new_name("producers"), namesrv=local_broker.namesrv
        ) as producer:
            result = producer.send(Message(topic, b"never", delay=60))
            return result.msg_id, producer.recall(topic, result.recall_handle)

    sent, recalled = await asyncio.to_thread(send_and_recall)
    assert sent == recalled
