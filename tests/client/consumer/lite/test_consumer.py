"""The lite pull consumer: polling, iterating, seeking, committing."""

import asyncio

import pytest

from rocketq.client.consumer.lite.consumer import LitePullConsumer
from rocketq.client.errors import ClientNotStarted, InvalidSettings, InvalidState
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from rocketq.message.queue import MessageQueue
from tests.client.consuming import QUICK, Broker, Received, bodies, send_all
from tests.waiting import eventually


async def poll_until(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    messages: list[MessageExt] = []
    async with asyncio.timeout(30):
        while len(messages) < count:
            messages += await consumer.poll(timeout_s=1.0)
    return messages


async def test_messages_can_be_iterated(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    sent = bodies(50)
    await send_all(producer, topic, sent)

    async with LitePullConsumer(
        broker.new_group(), namesrv=broker.namesrv, topics=topic, consume_from="first"
    ) as consumer:
        async with asyncio.timeout(30):
            async for message in consumer:
                received(message)
                if len(received) == 50:
                    break

    assert sorted(received.bodies) == sorted(sent)


async def test_an_iterator_commits_what_is_behind_it(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await send_all(producer, topic, bodies(10))

    async def read(count: int) -> list[bytes]:
        read = []
        async with LitePullConsumer(
            group, namesrv=broker.namesrv, topics=topic, consume_from="first"
        ) as consumer:
            async for message in consumer:
                read.append(message.body)
                if len(read) == count:
                    break
        return read

    assert await read(5) == bodies(10)[:5]
    # The fifth was being worked on when its reader went away: it comes again.
    assert await read(6) == bodies(10)[4:]


async def test_a_poll_finishes_the_one_before(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await send_all(producer, topic, bodies(20))

    async with LitePullConsumer(
        group, namesrv=broker.namesrv, topics=topic, consume_from="first", pull_batch_size=10
    ) as consumer:
        assert [m.body for m in await poll_until(consumer, 10)] == bodies(20)[:10]
        second = await consumer.poll()
        assert second[0].body == b"message 10"
    async with LitePullConsumer(group, namesrv=broker.namesrv, topics=topic) as consumer:
        assert [m.body for m in await poll_until(consumer, 10)] == bodies(20)[10:]


async def test_closing_ends_an_iteration(broker: Broker) -> None:
    topic = await broker.new_topic()
    consumer = LitePullConsumer(broker.new_group(), namesrv=broker.namesrv, topics=topic)

    async def read() -> int:
        return len([message async for message in consumer])

    async with consumer:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
    async with asyncio.timeout(2):
        assert await reading == 0


async def test_an_empty_topic_gives_an_empty_list_in_time(broker: Broker) -> None:
    topic = await broker.new_topic()
    async with LitePullConsumer(
        broker.new_group(), namesrv=broker.namesrv, topics=topic
    ) as consumer:
        assert await consumer.poll(timeout_s=0.01) == []
        assert await consumer.poll(timeout_s=0) == []
        with pytest.raises(InvalidSettings):
            await consumer.poll(timeout_s=-1)


async def test_offsets_can_be_committed_by_hand(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await send_all(producer, topic, bodies(10))
    async with LitePullConsumer(
        group, namesrv=broker.namesrv, topics=topic, consume_from="first", auto_commit=False
    ) as consumer:
        await poll_until(consumer, 10)
        (queue,) = consumer.assignment
        await consumer.commit()
        assert await consumer.committed(queue) == 10
        await consumer.commit({queue: 4})
        assert await consumer.committed(queue) == 4
        await consumer.commit([queue])
        assert await consumer.committed(queue) == 10
        await consumer.commit({queue: 7})

    async with LitePullConsumer(group, namesrv=broker.namesrv, topics=topic) as consumer:
        assert [m.body for m in await poll_until(consumer, 3)] == bodies(10)[7:]


async def test_without_commits_everything_comes_again(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await send_all(producer, topic, bodies(5))
    for _ in range(2):
        async with LitePullConsumer(
            group, namesrv=broker.namesrv, topics=topic, consume_from="first", auto_commit=False
        ) as consumer:
            assert [m.body for m in await poll_until(consumer, 5)] == bodies(5)


async def test_queues_can_be_assigned_and_sought(broker: Broker, producer: Producer) -> None:
    topic = await broker.new_topic(queues=2)
    await send_all(producer, topic, bodies(20))
    consumer = LitePullConsumer(
        broker.new_group(), namesrv=broker.namesrv, consume_from="first", auto_commit=False
    )
    async with consumer:
        zero, one = await consumer.message_queues(topic)
        await consumer.assign([zero])
        assert consumer.assignment == [zero]
        first_time = await poll_until(consumer, 10)
        assert {m.queue_id for m in first_time} == {zero.queue_id}

        await consumer.seek(zero, 7)
        assert [m.queue_offset for m in await poll_until(consumer, 3)] == [7, 8, 9]
        await consumer.seek_to_begin(zero)
        assert [m.queue_offset for m in await poll_until(consumer, 10)] == list(range(10))
        await consumer.seek_to_end(zero)
        assert await consumer.poll(timeout_s=0.05) == []
        await consumer.seek_to_time(zero, first_time[4].store_timestamp)
        assert (await poll_until(consumer, 1))[0].queue_offset <= 4

        with pytest.raises(InvalidSettings, match="outside of 0 to 10"):
            await consumer.seek(zero, 11)
        with pytest.raises(InvalidState, match="not assigned"):
            await consumer.seek(one, 0)

        await consumer.assign([one])
        assert {m.queue_id for m in await poll_until(consumer, 10)} == {one.queue_id}


async def test_tags_work_for_assigned_queues_too(broker: Broker, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    for number in range(10):
        await producer.send(Message(topic, b"%d" % number, tags="odd" if number % 2 else "even"))
    consumer = LitePullConsumer(broker.new_group(), namesrv=broker.namesrv, consume_from="first")
    async with consumer:
        queues = await consumer.message_queues(topic)
        await consumer.assign(queues, "odd")
        assert [m.body for m in await poll_until(consumer, 5)] == [b"1", b"3", b"5", b"7", b"9"]


async def test_a_paused_queue_brings_nothing(broker: Broker, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    consumer = LitePullConsumer(broker.new_group(), namesrv=broker.namesrv, topics=topic)
    async with consumer:
        await producer.send(Message(topic, b"before"))
        await poll_until(consumer, 1)
        (queue,) = consumer.assignment
        consumer.pause(queue)
        # The request that is under way may still bring something, further ones are not made.
        await producer.send(Message(topic, b"under way"))
        assert len(await poll_until(consumer, 1)) == 1
        await send_all(producer, topic, bodies(10))
        assert await consumer.poll(timeout_s=0.2) == []
        consumer.resume(queue)
        assert [m.body for m in await poll_until(consumer, 10)] == bodies(10)


async def test_members_share_the_queues(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=4), broker.new_group()

    def member() -> LitePullConsumer:
        return LitePullConsumer(
            group, namesrv=broker.namesrv, topics=topic, consume_from="first", **QUICK
        )

    async with member() as one:
        assert len(one.assignment) == 4
        async with member() as two:
            await eventually(
                lambda: (len(one.assignment), len(two.assignment)) == (2, 2), "two queues each"
            )
        await eventually(lambda: len(one.assignment) == 4, "all queues again")


async def test_subscribing_and_assigning_exclude_each_other(broker: Broker) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    assigning = LitePullConsumer("group", namesrv=broker.namesrv)
    await assigning.assign([queue])
    with pytest.raises(InvalidState, match="exclude each other"):
        await assigning.subscribe("orders")
    subscribing = LitePullConsumer("group", namesrv=broker.namesrv, topics="orders")
    with pytest.raises(InvalidState, match="exclude each other"):
        await subscribing.assign([queue])
    with pytest.raises(ClientNotStarted, match="async with"):
        await subscribing.poll()
