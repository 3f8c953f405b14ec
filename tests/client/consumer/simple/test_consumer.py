"""The simple consumer against a broker: taken, acknowledged, kept longer, and back again."""

import asyncio
import time
from collections import Counter

import pytest

from rocketq import SimpleConsumer as BlockingSimpleConsumer
from rocketq.client.consumer.options import SimpleOptions
from rocketq.client.consumer.simple.consumer import SimpleConsumer
from rocketq.client.consumer.subscription import Sql, Topics
from rocketq.client.errors import ClientNotStarted, InvalidMessage, InvalidSettings
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from rocketq.remoting.headers.pop import PollingInfo, PollingInfoResponse
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest
from tests.client.consuming import bodies, send_all
from tests.waiting import eventually


def simple(
    broker: BrokerUnderTest, topics: Topics, group: str | None = None, *, orderly: bool = False
) -> SimpleConsumer:
    options = SimpleOptions(
        namesrv=broker.namesrv, topics=topics, consume_from="first", orderly=orderly
    )
    return SimpleConsumer(group or broker.new_group(), **options)


async def receive_all(
    consumer: SimpleConsumer, count: int, *, invisible_s: float = 60
) -> list[MessageExt]:
    """Receive until so many have come."""
    found: list[MessageExt] = []

    async def enough() -> bool:
        found.extend(await consumer.receive(invisible_s=invisible_s, wait_s=0))
        return len(found) >= count

    await eventually(enough, f"{count} messages")
    return found


async def is_held(broker: BrokerUnderTest, topic: str, group: str) -> None:
    """Wait until the broker holds a pop of the group."""
    asked = PollingInfo(consumer_group=group, topic=topic, queue_id=-1)

    async def held() -> bool:
        reply = await broker.client.api.invoke(await broker.address(), asked)
        return reply.header(PollingInfoResponse).polling_num == 1

    await eventually(held, "a pop that waits")


def all_wait(consumer: SimpleConsumer, places: int) -> bool:
    watches = consumer._running()._watches.values()
    return sum(not watch.done() for watch in watches) == places


async def test_what_is_received_is_hidden_and_what_is_acknowledged_is_done(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await send_all(producer, topic, bodies(6))
    group = broker.new_group()
    async with simple(broker, topic, group) as consumer, simple(broker, topic, group) as other:
        messages = await receive_all(consumer, 6, invisible_s=1)
        assert sorted(message.body for message in messages) == sorted(bodies(6))
        assert await other.receive(wait_s=0) == []
        await consumer.ack(messages[0])
        await consumer.ack(messages[1:4])

        again = await receive_all(other, 2)

        assert {m.body for m in again} == {m.body for m in messages[4:]}
        for message in again:
            assert message.topic == topic
            assert message.reconsume_times == 1
            assert message.get_property("1ST_POP_TIME")
        await other.ack(again)
        assert await consumer.receive(wait_s=0) == []


async def test_acknowledged_retries_do_not_come_a_third_time(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await send_all(producer, topic, bodies(3))
    async with simple(broker, topic) as consumer:
        await receive_all(consumer, 3, invisible_s=0.3)
        again = await receive_all(consumer, 3, invisible_s=0.5)
        await consumer.ack(again)
        # One more that comes after them shows that they would have come by then.
        await send_all(producer, topic, [b"last"])
        (last,) = await receive_all(consumer, 1, invisible_s=0.5)
        (last_again,) = await receive_all(consumer, 1)
        assert last.body == last_again.body == b"last"


async def test_a_message_gets_more_time_or_less(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await send_all(producer, topic, [b"slow", b"failed"])
    async with simple(broker, topic) as consumer:
        found = {m.body: m for m in await receive_all(consumer, 2, invisible_s=5)}
        await consumer.change_invisible(found[b"slow"], 60)
        await consumer.change_invisible([found[b"failed"]], 0.2)

        (again,) = await receive_all(consumer, 1)

        assert again.body == b"failed"
        await consumer.ack(again)
        await consumer.change_invisible(found[b"slow"], 0.2)  # by its new receipt
        (again,) = await receive_all(consumer, 1)
        assert again.body == b"slow"


async def test_the_new_receipt_acknowledges(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    await send_all(producer, topic, bodies(3))
    async with simple(broker, topic) as consumer:
        messages = await receive_all(consumer, 3)
        await consumer.change_invisible(messages, 0.5)
        await consumer.ack(messages[:2])
        (left,) = await receive_all(consumer, 1)
        assert left.body == messages[2].body


async def test_a_waiting_receive_gets_what_arrives(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    async with simple(broker, topic) as consumer:
        assert await consumer.receive(wait_s=0.1) == []
        waiting = asyncio.create_task(consumer.receive(wait_s=30))
        await is_held(broker, topic, consumer.group)
        await producer.send(Message(topic, b"here"))
        (message,) = await asyncio.wait_for(waiting, 10)
        assert message.body == b"here"


async def test_a_waiting_receive_hears_of_every_topic(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topics = [await broker.new_topic() for _ in range(3)]
    async with simple(broker, topics) as consumer:
        for topic in topics:
            waiting = asyncio.create_task(consumer.receive(wait_s=30))
            await eventually(lambda: all_wait(consumer, len(topics)), "questions at all topics")
            await producer.send(Message(topic, topic.encode()))
            (message,) = await asyncio.wait_for(waiting, 10)
            assert (message.topic, message.body) == (topic, topic.encode())
            await consumer.ack(message)


async def test_topics_take_turns(broker: BrokerUnderTest, producer: Producer) -> None:
    topics = [await broker.new_topic(queues=1) for _ in range(3)]
    for topic in topics:
        await send_all(producer, topic, bodies(20))
    async with simple(broker, topics) as consumer:
        received: Counter[str] = Counter()
        for _ in range(3):
            received.update(message.topic for message in await consumer.receive(10, wait_s=0))
        assert received == dict.fromkeys(topics, 10)


async def test_one_call_may_ask_for_more_than_a_pop_gives(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await producer.send_batch([Message(topic, body) for body in bodies(100)])
    async with simple(broker, topic) as consumer:
        messages = await consumer.receive(90)
        assert len(messages) == 90
        await consumer.ack(messages)
        assert len({message.body for message in messages + await consumer.receive()}) == 100


async def test_tags_and_conditions_select(broker: BrokerUnderTest, producer: Producer) -> None:
    topic, sold = await broker.new_topic(), await broker.new_topic()
    for tag in ("paid", "sent", "lost"):
        await producer.send(Message(topic, tag.encode(), tags=tag))
    for total in ("5", "500"):
        await producer.send(Message(sold, total.encode(), properties={"total": total}))
    async with simple(broker, {topic: "paid || sent", sold: Sql("total > 100")}) as consumer:
        messages = await receive_all(consumer, 3)
        assert sorted(message.body for message in messages) == [b"500", b"paid", b"sent"]
        assert await consumer.receive(wait_s=0) == []


async def test_tags_with_the_same_hash_are_told_apart(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await producer.send(Message(topic, b"other", tags="BB"))  # the hash of "Aa" is the same
    await producer.send(Message(topic, b"mine", tags="Aa"))
    async with simple(broker, {topic: "Aa"}) as consumer:
        (message,) = await receive_all(consumer, 1, invisible_s=0.3)
        assert message.body == b"mine"
        (again,) = await receive_all(consumer, 1)
        assert again.body == b"mine"


async def test_in_order_a_queue_waits_for_its_acknowledgements(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=1)
    await send_all(producer, topic, bodies(4))
    async with simple(broker, topic, orderly=True) as consumer:
        first = await consumer.receive(2, invisible_s=60)
        assert [message.body for message in first] == bodies(4)[:2]
        assert await consumer.receive(2, wait_s=0) == []
        await consumer.ack(first)
        second = await consumer.receive(2, invisible_s=0.3)
        assert [message.body for message in second] == bodies(4)[2:]

        again = await receive_all(consumer, 2)

        assert [message.body for message in again] == bodies(4)[2:]
        assert [message.reconsume_times for message in again] == [1, 1]


async def test_in_order_two_receives_at_once_get_different_messages(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=1)
    await send_all(producer, topic, bodies(4))
    async with simple(broker, topic, orderly=True) as consumer:
        found = await asyncio.gather(*(consumer.receive(2, wait_s=0) for _ in range(3)))
        assert sorted(len(messages) for messages in found) == [0, 0, 2]


async def test_a_priority_is_received_first(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=4, attributes={"message.type": "PRIORITY"})
    for priority in (1, 3, 0, 2):
        await producer.send(Message(topic, b"%d" % priority, priority=priority))
    async with simple(broker, topic) as consumer:
        messages = await consumer.receive()
        assert [message.priority for message in messages] == [3, 2, 1, 0]


async def test_a_namespace_is_on_the_wire_only(broker: BrokerUnderTest) -> None:
    topic, group = broker.new_name("topic"), broker.new_group()
    namespace = broker.new_name("shop")
    async with (
        Producer(group, namesrv=broker.namesrv, namespace=namespace) as producer,
        SimpleConsumer(
            group,
            namesrv=broker.namesrv,
            namespace=namespace,
            topics=topic,
            consume_from="first",
        ) as consumer,
    ):
        await producer.send(Message(topic, b"in a shop"))
        (message,) = await receive_all(consumer, 1, invisible_s=0.3)
        assert message.topic == topic
        (again,) = await receive_all(consumer, 1)
        assert (again.topic, again.reconsume_times) == (topic, 1)
        await consumer.ack([again, message])


async def test_topics_may_come_and_go(broker: BrokerUnderTest, producer: Producer) -> None:
    topic, other = await broker.new_topic(), await broker.new_topic()
    await send_all(producer, topic, [b"one"])
    await send_all(producer, other, [b"two"])
    async with simple(broker, topic) as consumer:
        await consumer.subscribe(other)
        consumer.unsubscribe(topic)
        (message,) = await receive_all(consumer, 1)
        assert message.body == b"two"
        assert await consumer.receive(wait_s=0) == []


async def test_a_topic_may_be_made_later(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = broker.new_name("late")
    async with simple(broker, topic) as consumer:
        assert await consumer.receive(wait_s=0) == []
        waiting = asyncio.create_task(consumer.receive(wait_s=30))
        await producer.send(Message(topic, b"first"))
        (message,) = await asyncio.wait_for(waiting, 20)
        assert message.body == b"first"


async def test_closing_ends_a_receive(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    consumer = simple(broker, topic)
    await consumer.start()
    waiting = asyncio.create_task(consumer.receive(wait_s=60))
    await is_held(broker, topic, consumer.group)
    await consumer.close()
    assert await asyncio.wait_for(waiting, 10) == []


async def test_only_popped_messages_are_acknowledged(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await send_all(producer, topic, [b"pulled"])
    (message,) = await broker.wait_for_messages(topic, 1)
    async with simple(broker, topic) as consumer:
        with pytest.raises(InvalidMessage, match="receipt"):
            await consumer.ack(message)


async def test_wrong_calls_are_refused_at_once(broker: BrokerUnderTest) -> None:
    consumer = simple(broker, "t")
    with pytest.raises(ClientNotStarted):
        await consumer.receive()
    with pytest.raises(InvalidSettings, match="max_messages"):
        await consumer.receive(0)
    with pytest.raises(InvalidSettings, match="invisible"):
        await consumer.receive(invisible_s=0)
    with pytest.raises(InvalidSettings, match="wait_s"):
        await consumer.receive(wait_s=-1)
    with pytest.raises(InvalidSettings, match="subscribes to nothing"):
        await SimpleConsumer("g", namesrv=broker.namesrv).start()
    with pytest.raises(InvalidSettings, match="'last' or 'first'"):
        SimpleConsumer("g", consume_from="timestamp")


async def test_a_broker_that_is_away_is_waited_for() -> None:
    with LocalBroker({"reviveInterval": "50", "timerPrecisionMs": "100"}) as broker:
        topic = await asyncio.to_thread(broker.create_topic)
        async with (
            Producer("p", namesrv=broker.namesrv) as producer,
            SimpleConsumer(
                "g", namesrv=broker.namesrv, topics=topic, consume_from="first"
            ) as consumer,
        ):
            assert await consumer.receive(wait_s=0) == []
            await asyncio.to_thread(broker.stop)
            began = time.monotonic()
            assert await consumer.receive(wait_s=0.3) == []
            assert time.monotonic() - began < 20
            waiting = asyncio.create_task(consumer.receive(wait_s=60))
            await asyncio.to_thread(broker.start)
            await producer.send(Message(topic, b"back"))
            (message,) = await asyncio.wait_for(waiting, 30)
            await consumer.ack(message)


def test_the_blocking_consumer_does_the_same(local_broker: LocalBroker) -> None:
    from rocketq import Producer as BlockingProducer

    topic = local_broker.create_topic()
    with (
        BlockingProducer(local_broker.new_name(), namesrv=local_broker.namesrv) as producer,
        BlockingSimpleConsumer(
            local_broker.new_name("group"),
            namesrv=local_broker.namesrv,
            topics={topic: "*"},
            consume_from="first",
        ) as consumer,
    ):
        producer.send(Message(topic, b"x"))
        (message,) = consumer.receive(max_messages=5, invisible_s=10, wait_s=10)
        consumer.change_invisible(message, 0.2)
        (again,) = consumer.receive(wait_s=20)
        assert again.body == b"x"
        consumer.ack(again)
