"""Orderly consumption: the order of each queue, through failures and changes of owner."""

import asyncio
from collections import defaultdict
from pathlib import Path

from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.consumer.push.listener import ConsumeLater, ConsumeStatus, Delivery
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import dlq_topic
from tests.client.consuming import QUICK, Broker, Received, bodies, consuming, send_all
from tests.waiting import eventually


async def send_by_customer(
    producer: Producer, topic: str, customers: int, first: int, end: int
) -> None:
    """Numbered messages of several customers; each customer's in one queue."""
    for number in range(first, end):
        for customer in range(customers):
            body = f"{customer} {number}".encode()
            await producer.send(Message(topic, body, sharding_key=f"customer {customer}"))


def numbers_by_customer(messages: list[MessageExt]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        customer, _, number = message.body.decode().partition(" ")
        numbers[customer].append(int(number))
    return numbers


async def test_messages_of_a_queue_come_one_after_the_other(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(), Received()
    await send_by_customer(producer, topic, customers=5, first=0, end=20)
    busy: set[int] = set()

    async def on_message(message: MessageExt) -> None:
        assert message.queue_id not in busy
        busy.add(message.queue_id)
        await asyncio.sleep(0)
        busy.remove(message.queue_id)
        received(message)

    async with consuming(broker, topic, on_message, orderly=True):
        await received.wait_for_count(100)

    assert all(
        numbers == list(range(20)) for numbers in numbers_by_customer(received.messages).values()
    )


async def test_a_plain_function_keeps_the_order_too(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    await send_by_customer(producer, topic, customers=5, first=0, end=20)
    async with consuming(broker, topic, received, orderly=True):
        await received.wait_for_count(100)

    assert all(
        numbers == list(range(20)) for numbers in numbers_by_customer(received.messages).values()
    )


async def test_broadcasting_keeps_the_order_without_locks(
    broker: Broker, producer: Producer, tmp_path: Path
) -> None:
    topic, group = await broker.new_topic(queues=2), broker.new_group()
    one, two = Received(), Received()
    await send_by_customer(producer, topic, customers=3, first=0, end=10)

    def member(name: str, received: Received) -> PushConsumer:
        return consuming(
            broker,
            topic,
            received,
            group=group,
            orderly=True,
            message_model="broadcasting",
            offset_folder=tmp_path,
            instance_name=name,
        )

    async with member("one", one), member("two", two):
        await one.wait_for_count(30)
        await two.wait_for_count(30)

    for received in (one, two):
        for numbers in numbers_by_customer(received.messages).values():
            assert numbers == list(range(10))


async def test_a_failure_holds_up_what_comes_behind_it(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    await send_all(producer, topic, bodies(5))

    async def on_message(message: MessageExt) -> None:
        received(message)
        if message.body == b"message 2" and received.times(b"message 2") < 4:
            raise ConsumeLater(suspend_ms=10)

    async with consuming(broker, topic, on_message, orderly=True):
        await received.wait_for(bodies(5))

    expected = [*bodies(5)[:2], *[b"message 2"] * 4, *bodies(5)[3:]]
    assert received.bodies == expected
    assert [m.reconsume_times for m in received.messages[2:6]][-1] == 3


async def test_a_message_that_fails_too_often_is_set_aside(
    broker: Broker, producer: Producer
) -> None:
    topic, group, received = await broker.new_topic(queues=1), broker.new_group(), Received()
    await send_all(producer, topic, [b"good 1", b"poison", b"good 2"])

    async def on_message(message: MessageExt) -> None:
        received(message)
        if message.body == b"poison":
            raise ConsumeLater(suspend_ms=10)

    async with consuming(
        broker, topic, on_message, group=group, orderly=True, max_reconsume_times=2, **QUICK
    ):
        await received.wait_for([b"good 2"])
        assert received.bodies == [b"good 1", b"poison", b"poison", b"poison", b"good 2"]
        dead = Received()
        async with consuming(broker, dlq_topic(group), dead, **QUICK):
            await dead.wait_for([b"poison"])


async def test_without_auto_commit_the_listener_decides(broker: Broker, producer: Producer) -> None:
    """Two messages make a pair; the first try of each pair is rolled back."""
    topic, received = await broker.new_topic(queues=1), Received()
    await send_all(producer, topic, bodies(4))
    pair: list[bytes] = []
    rolled_back: set[bytes] = set()

    async def on_message(message: MessageExt, delivery: Delivery) -> ConsumeStatus:
        delivery.auto_commit = False
        delivery.suspend_ms = 10
        received(message)
        pair.append(message.body)
        if len(pair) < 2:
            return ConsumeStatus.SUCCESS
        first = pair[0]
        pair.clear()
        if first not in rolled_back:
            rolled_back.add(first)
            return ConsumeStatus.ROLLBACK
        return ConsumeStatus.COMMIT

    async with consuming(broker, topic, on_message, orderly=True):
        await received.wait_for_count(8)

    zero, one, two, three = bodies(4)
    assert received.bodies == [zero, one, zero, one, two, three, two, three]


async def test_the_order_holds_while_members_come_and_go(
    broker: Broker, producer: Producer
) -> None:
    """No message before its predecessors are done, whoever owns the queue; none twice at once."""
    topic, group, received = await broker.new_topic(queues=4), broker.new_group(), Received()
    total = 60
    at_work: dict[int, str] = {}

    def member(name: str) -> PushConsumer:
        async def on_message(message: MessageExt) -> None:
            assert message.queue_id not in at_work, "two members consume one queue"
            at_work[message.queue_id] = name
            await asyncio.sleep(0.002)
            del at_work[message.queue_id]
            received(message)

        return consuming(broker, topic, on_message, group=group, orderly=True, **QUICK)

    sending = asyncio.create_task(
        send_by_customer(producer, topic, customers=6, first=0, end=total)
    )
    async with member("one") as one:
        await received.wait_for_count(20)
        async with member("two") as two:
            await eventually(
                lambda: all(
                    sum(queue.topic == topic for queue in each.assignment) == 2
                    for each in (one, two)
                ),
                "the queues to be shared",
            )
            await received.wait_for_count(len(received) + 40)
        await eventually(
            lambda: sum(queue.topic == topic for queue in one.assignment) == 4,
            "the queues to come back",
        )
        await sending
        await eventually(
            lambda: all(
                len(set(numbers)) == total
                for numbers in numbers_by_customer(received.messages).values()
            ),
            "all messages",
        )

    for numbers in numbers_by_customer(received.messages).values():
        assert numbers == list(range(total))
