"""The pull consumer and the pull schedule."""

import asyncio

import pytest

from rocketq.client.blocking import consumers as blocking_consumers
from rocketq.client.consumer.pull.consumer import PullConsumer
from rocketq.client.consumer.pull.schedule import PullSchedule, PullTurn
from rocketq.client.consumer.pull_result import PullStatus
from rocketq.client.errors import InvalidSettings, MissingListener, NoRoute
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue
from tests.client.consuming import QUICK_REBALANCE, Broker, Received, bodies, send_all
from tests.waiting import eventually, patiently, wait_until


async def test_single_pulls_and_what_they_answer(broker: Broker, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    await send_all(producer, topic, bodies(10))
    async with PullConsumer(broker.new_group(), namesrv=broker.namesrv) as consumer:
        (queue,) = await consumer.message_queues(topic)

        found = await consumer.pull(queue, 2, max_messages=5)
        assert found.status is PullStatus.FOUND
        assert [m.body for m in found.messages] == bodies(10)[2:7]
        assert (found.next_offset, found.min_offset, found.max_offset) == (7, 0, 10)
        assert found.messages[0].get_property("MAX_OFFSET") == "10"

        at_end = await consumer.pull(queue, 10)
        assert at_end.status is PullStatus.NO_NEW_MESSAGE
        beyond = await consumer.pull(queue, 11)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
        filtered = await consumer.pull(queue, 0, expression="nobody")
        assert filtered.status is PullStatus.NO_MATCHED_MESSAGE

        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 10)
        moment = found.messages[0].store_timestamp
        assert await consumer.search_offset(queue, moment) <= 2


async def test_a_blocking_pull_waits_for_a_message(broker: Broker, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    async with PullConsumer(broker.new_group(), namesrv=broker.namesrv) as consumer:
        (queue,) = await consumer.message_queues(topic)
        await producer.send(Message(topic, b"zero"))
        assert (await consumer.pull_block_if_not_found(queue, 0)).next_offset == 1
        pulling = asyncio.create_task(consumer.pull_block_if_not_found(queue, 1))
        await asyncio.sleep(0)
        await producer.send(Message(topic, b"one"))
        result = await pulling
        assert [m.body for m in result.messages] == [b"one"]


async def test_offsets_are_the_callers_business(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await send_all(producer, topic, bodies(3))
    async with PullConsumer(group, namesrv=broker.namesrv) as consumer:
        (queue,) = await consumer.message_queues(topic)
        consumer.update_consume_offset(queue, 2)
        assert await consumer.consume_offset(queue) == 2
    async with PullConsumer(group, namesrv=broker.namesrv) as consumer:
        assert await consumer.consume_offset(queue, from_store=True) == 2


async def test_messages_can_be_sent_back(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await producer.send(Message(topic, b"later"))
    async with PullConsumer(group, namesrv=broker.namesrv) as consumer:
        (queue,) = await consumer.message_queues(topic)
        result = await consumer.pull(queue, 0)
        await consumer.send_message_back(result.messages[0], delay_level=1)
        retried = Received()
        (retry,) = await patiently(lambda: consumer.message_queues(f"%RETRY%{group}"), NoRoute)
        while not len(retried):
            again = await consumer.pull_block_if_not_found(retry, 0)
            retried.all(again.messages)
    assert retried.messages[0].body == b"later"
    assert retried.messages[0].topic == topic


async def test_senseless_pulls_are_refused(broker: Broker) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    async with PullConsumer(broker.new_group(), namesrv=broker.namesrv) as consumer:
        with pytest.raises(InvalidSettings):
            await consumer.pull(queue, -1)
        with pytest.raises(InvalidSettings):
            await consumer.pull(queue, 0, max_messages=0)


async def test_a_schedule_gives_every_queue_its_turns(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(queues=3), Received()
    schedule = PullSchedule(
        PullConsumer(broker.new_group(), namesrv=broker.namesrv, **QUICK_REBALANCE), delay_ms=5
    )
    failures = 0

    @schedule.callback(topic)
    async def pull(queue: MessageQueue, turn: PullTurn) -> None:
        nonlocal failures
        if failures == 0:
            failures += 1
            raise ValueError("the first turn fails")
        offset = await turn.consumer.consume_offset(queue) or 0
        result = await turn.consumer.pull(queue, offset)
        received.all(result.messages)
        turn.consumer.update_consume_offset(queue, result.next_offset)

    sent = bodies(30)
    async with schedule:
        await send_all(producer, topic, sent)
        await received.wait_for(sent)

    assert sorted(received.bodies) == sorted(sent)


async def test_plain_functions_take_their_turns_in_threads(
    broker: Broker, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=2)
    schedule = PullSchedule(
        PullConsumer(broker.new_group(), namesrv=broker.namesrv, **QUICK_REBALANCE),
        delay_ms=1,
        handed_out="my own",
    )
    turns: list[tuple[int, object]] = []

    @schedule.callback(topic)
    def pull(queue: MessageQueue, turn: PullTurn) -> None:
        turns.append((queue.queue_id, turn.consumer))

    async with schedule:
        await eventually(lambda: len(turns) >= 6)
    assert set(turns) == {(0, "my own"), (1, "my own")}


async def test_a_schedule_without_a_callback_does_not_start(broker: Broker) -> None:
    schedule = PullSchedule(PullConsumer(broker.new_group(), namesrv=broker.namesrv))
    with pytest.raises(MissingListener):
        await schedule.start()


async def test_a_schedule_works_without_an_event_loop_too(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(queues=2), Received()
    sent = bodies(10)
    await send_all(producer, topic, sent)
    group, namesrv = broker.new_group(), broker.namesrv

    def run() -> None:
        schedule = blocking_consumers.PullSchedule(
            blocking_consumers.PullConsumer(group, namesrv=namesrv), delay_ms=5
        )

        @schedule.callback(topic)
        def pull(queue: MessageQueue, turn: PullTurn) -> None:
            offset = turn.consumer.consume_offset(queue) or 0
            result = turn.consumer.pull(queue, offset)
            received.all(result.messages)
            turn.consumer.update_consume_offset(queue, result.next_offset)

        with schedule:
            wait_until(lambda: len(received) >= 10, "all messages")

    await asyncio.to_thread(run)
    assert sorted(received.bodies) == sorted(sent)
