"""Push consumers against a broker: delivery, selection, retries, and what can be set."""

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest

from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.consumer.push.listener import ConsumeLater, ConsumeStatus, Delivery
from rocketq.client.consumer.subscription import Sql
from rocketq.client.errors import (
    BrokerRejected,
    ClientClosed,
    ClientNotStarted,
    GroupInUse,
    InvalidSettings,
    InvalidState,
    MissingListener,
)
from rocketq.client.hooks import ConsumeContext
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import dlq_topic
from rocketq.message.queue import MessageQueue
from tests.client.consuming import QUICK, Broker, Received, bodies, consuming, send_all
from tests.waiting import eventually


async def test_every_message_of_a_topic_arrives(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    sent = bodies(100)
    await send_all(producer, topic, sent[:50])

    async with consuming(broker, topic, received):
        await send_all(producer, topic, sent[50:])
        await received.wait_for(sent)

    assert sorted(received.bodies) == sorted(sent)


async def test_a_group_goes_on_where_it_stopped(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(), broker.new_group()
    first, second = Received(), Received()
    await send_all(producer, topic, bodies(20, "first"))
    async with consuming(broker, topic, first, group=group):
        await first.wait_for(bodies(20, "first"))

    await send_all(producer, topic, bodies(20, "second"))
    async with consuming(broker, topic, second, group=group):
        await second.wait_for(bodies(20, "second"))

    assert sorted(second.bodies) == sorted(bodies(20, "second"))


async def test_an_async_listener_gets_lists(broker: Broker, producer: Producer) -> None:
    topic, received, sizes = await broker.new_topic(queues=1), Received(), []
    sent = bodies(64)
    await send_all(producer, topic, sent)
    consumer = PushConsumer(
        broker.new_group(),
        namesrv=broker.namesrv,
        topics=topic,
        consume_from="first",
        batch_size=10,
    )

    @consumer.listener
    async def on_messages(messages: list[MessageExt]) -> None:
        sizes.append(len(messages))
        received.all(messages)

    async with consumer:
        await received.wait_for(sent)

    assert sorted(received.bodies) == sorted(sent)
    assert max(sizes) == 10


async def test_blocking_listeners_run_in_a_bounded_number_of_threads(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(), Received()
    sent = bodies(40)
    await send_all(producer, topic, sent)
    all_busy = threading.Event()
    lock = threading.Lock()
    at_once = most_at_once = 0

    def on_message(message: MessageExt) -> None:
        nonlocal at_once, most_at_once
        with lock:
            at_once += 1
            most_at_once = max(most_at_once, at_once)
            if at_once == 4:
                all_busy.set()
        assert all_busy.wait(20)
        with lock:
            at_once -= 1
        received(message)

    async with consuming(broker, topic, on_message, concurrency=4):
        await received.wait_for(sent)

    assert most_at_once == 4


async def test_async_listeners_overlap_up_to_the_concurrency(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(), Received()
    sent = bodies(20)
    await send_all(producer, topic, sent)
    go_on = asyncio.Event()
    running = 0

    async def on_message(message: MessageExt) -> None:
        nonlocal running
        running += 1
        await go_on.wait()
        running -= 1
        received(message)

    consumer = consuming(broker, topic, on_message, concurrency=3)
    async with consumer:
        await eventually(lambda: running == 3, "three listeners at once")
        consumer.concurrency = 5
        await eventually(lambda: running == 5, "five listeners at once")
        go_on.set()
        await received.wait_for(sent)


async def test_only_wanted_tags_arrive(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    for number in range(30):
        tag = ("paid", "sent", "lost")[number % 3]
        await producer.send(Message(topic, f"{tag} {number}".encode(), tags=tag))

    async with consuming(broker, {topic: "paid || sent"}, received):
        await received.wait_for_count(20)

    assert {body.partition(b" ")[0] for body in received.bodies} == {b"paid", b"sent"}


async def test_sql_selects_by_properties(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    for total in range(0, 200, 10):
        properties = {"total": str(total), "region": "eu" if total % 20 else "us"}
        await producer.send(Message(topic, b"%d" % total, properties=properties))

    async with consuming(broker, {topic: Sql("total >= 100 AND region = 'eu'")}, received):
        await received.wait_for([b"110", b"130", b"150", b"170", b"190"])

    assert len(received) == 5


async def test_a_wrong_condition_fails_the_start(broker: Broker) -> None:
    topic = await broker.new_topic()
    consumer = consuming(broker, {topic: Sql("total >")}, Received(), consume_from="last")
    with pytest.raises(BrokerRejected, match="SUBSCRIPTION_PARSE_FAILED"):
        await consumer.start()
    await consumer.close()


async def test_a_failed_message_comes_again_and_at_last_goes_to_the_dead_letters(
    broker: Broker, producer: Producer
) -> None:
    topic, group = await broker.new_topic(), broker.new_group()
    attempts: list[tuple[int, str]] = []
    await producer.send(Message(topic, b"poison", keys="42", properties={"shop": "7"}))

    async def on_message(message: MessageExt) -> None:
        attempts.append((message.reconsume_times, message.topic))
        raise ConsumeLater("not yet", delay_level=1)

    async with consuming(broker, topic, on_message, group=group, max_reconsume_times=2, **QUICK):
        await eventually(lambda: len(attempts) == 3, "three attempts")
        assert attempts == [(0, topic), (1, topic), (2, topic)]
        dead = Received()
        async with consuming(broker, dlq_topic(group), dead, **QUICK):
            await dead.wait_for([b"poison"])

    message = dead.messages[0]
    assert (message.keys, message.get_property("shop")) == (["42"], "7")
    assert message.get_property("ORIGIN_MESSAGE_ID") is not None


async def test_only_what_failed_of_a_batch_comes_again(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    sent = bodies(5)
    await send_all(producer, topic, sent)
    again = Received()

    async def on_messages(messages: list[MessageExt], delivery: Delivery) -> None:
        first_time = [message for message in messages if message.reconsume_times == 0]
        again.all(message for message in messages if message.reconsume_times)
        received.all(first_time)
        if first_time:
            delivery.ack_index = len(messages) - 2
            delivery.delay_level = 1

    async with consuming(broker, topic, on_messages, batch_size=5, **QUICK):
        await again.wait_for([received.messages[-1].body] if len(received) else [sent[-1]])

    assert sent[-1] in again.bodies
    assert len(received) == 5


async def test_returning_later_is_as_good_as_raising(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    await producer.send(Message(topic, b"again"))

    def on_message(message: MessageExt, delivery: Delivery) -> ConsumeStatus:
        received(message)
        delivery.delay_level = 1
        return ConsumeStatus.LATER if message.reconsume_times == 0 else ConsumeStatus.SUCCESS

    async with consuming(broker, topic, on_message, **QUICK):
        await received.wait_for_count(2)

    assert received.bodies == [b"again", b"again"]


async def test_a_listener_that_takes_too_long_loses_its_message(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(), Received()
    await producer.send(Message(topic, b"slow"))
    stuck = asyncio.Event()

    async def on_message(message: MessageExt) -> None:
        received(message)
        if message.reconsume_times == 0:
            await stuck.wait()

    consumer = consuming(broker, topic, on_message, consume_timeout_s=0.4, **QUICK)
    async with consumer:
        await received.wait_for_count(2)
        stuck.set()

    assert received.messages[1].reconsume_times == 1


async def test_broadcasting_gives_everything_to_each_and_remembers_it_in_a_file(
    broker: Broker, producer: Producer, tmp_path: Path
) -> None:
    topic, group = await broker.new_topic(), broker.new_group()
    one, two, later = Received(), Received(), Received()

    def consumer(name: str, received: Received) -> PushConsumer:
        return consuming(
            broker,
            topic,
            received,
            group=group,
            message_model="broadcasting",
            offset_folder=tmp_path,
            instance_name=name,
        )

    await send_all(producer, topic, bodies(20))
    async with consumer("one", one), consumer("two", two):
        await one.wait_for(bodies(20))
        await two.wait_for(bodies(20))
    await send_all(producer, topic, bodies(5, "later"))
    async with consumer("one", later):
        await later.wait_for(bodies(5, "later"))

    assert sorted(later.bodies) == sorted(bodies(5, "later"))
    clients = sorted(os.listdir(tmp_path))
    assert [client.rpartition("@")[2] for client in clients] == ["one", "two"]


async def test_suspended_consumers_get_nothing_until_they_resume(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    consumer = consuming(broker, topic, received, consume_from="last", pull_suspend_ms=100, **QUICK)
    async with consumer:
        await producer.send(Message(topic, b"before"))
        await received.wait_for([b"before"])
        consumer.suspend()
        assert consumer.is_suspended
        # One request may be held by the broker still; what it brings is consumed.
        await send_all(producer, topic, bodies(40))
        cached = len(received)
        assert cached < 41
        consumer.resume()
        await received.wait_for(bodies(40))


async def test_topics_can_be_added_and_removed_while_it_runs(
    broker: Broker, producer: Producer
) -> None:
    first, second = await broker.new_topic(queues=2), await broker.new_topic(queues=2)
    received = Received()
    consumer = consuming(broker, first, received, **QUICK)
    async with consumer:
        await producer.send(Message(second, b"second"))
        await consumer.subscribe(second)
        await received.wait_for([b"second"])
        consumer.unsubscribe(second)
        await eventually(
            lambda: all(queue.topic != second for queue in consumer.assignment),
            "the queues to be released",
        )


async def test_a_topic_may_appear_after_the_start(broker: Broker, producer: Producer) -> None:
    topic, received = f"late-{broker.new_group()}", Received()
    async with consuming(broker, topic, received, route_interval_s=0.2, **QUICK):
        await producer.send(Message(topic, b"at last"))
        await received.wait_for([b"at last"])


async def test_hooks_see_every_batch(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    seen: list[tuple[str, str, bool]] = []

    class Hook:
        def before(self, context: ConsumeContext) -> None:
            seen.append(("before", context.status, context.success))

        def after(self, context: ConsumeContext) -> None:
            seen.append(("after", context.status, context.success))

    await producer.send(Message(topic, b"one"))
    async with consuming(broker, topic, received, hooks=[Hook()]):
        await eventually(lambda: len(seen) == 2)

    assert seen == [("before", "", False), ("after", "SUCCESS", True)]


async def test_filters_may_drop_messages(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(), Received()
    await send_all(producer, topic, bodies(10))
    async with consuming(
        broker,
        topic,
        received,
        filters=[lambda messages: [m for m in messages if m.body.endswith(b"7")]],
    ):
        await received.wait_for([b"message 7"])

    assert received.bodies == [b"message 7"]


async def test_pulling_pauses_while_enough_is_cached(broker: Broker, producer: Producer) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    sent = bodies(100)
    await send_all(producer, topic, sent)
    go_on = asyncio.Event()

    async def on_message(message: MessageExt) -> None:
        await go_on.wait()
        received(message)

    consumer = consuming(broker, topic, on_message, pull_batch_size=8, pull_threshold=20)
    async with consumer:
        session = consumer._running()
        (cached,) = (queue for queue in session.held.process_queues() if queue.queue.topic == topic)
        await eventually(lambda: cached.count > 20, "the cache to fill")
        assert cached.count <= 20 + 8
        go_on.set()
        await received.wait_for(sent)


async def test_a_namespace_keeps_groups_apart(broker: Broker, producer: Producer) -> None:
    topic, group = await broker.new_topic(), broker.new_group()
    inside, outside = Received(), Received()

    def on_message(message: MessageExt) -> None:
        inside(message)
        if message.reconsume_times == 0:
            raise ConsumeLater(delay_level=1)

    async with Producer(group, namesrv=broker.namesrv, namespace="shop") as shop:
        await shop.send(Message(topic, b"inside"))
        await producer.send(Message(topic, b"outside"))
        async with (
            consuming(broker, topic, on_message, group=group, namespace="shop", **QUICK),
            consuming(broker, topic, outside, group=group),
        ):
            await inside.wait_for_count(2)
            await outside.wait_for_count(1)

    assert inside.bodies == [b"inside", b"inside"]
    assert {message.topic for message in inside.messages} == {topic}
    assert outside.bodies == [b"outside"]


async def test_consumption_can_be_traced(broker: Broker, producer: Producer) -> None:
    topic, trace_topic, received = await broker.new_topic(), await broker.new_topic(), Received()
    sent = await producer.send(Message(topic, b"traced", keys="42"))
    group = broker.new_group()
    async with consuming(broker, topic, received, group=group, trace=trace_topic):
        await received.wait_for([b"traced"])

    traced = await broker.wait_for_messages(trace_topic, 1)
    text = b"".join(message.body for message in traced).decode()
    records = [record.split("\x01") for record in text.split("\x02") if record]
    assert [record[0] for record in records] == ["SubBefore", "SubAfter"]
    assert all(sent.msg_id in record and "42" in record for record in records)
    assert records[0][3] == group


async def test_closing_waits_for_listeners_and_commits_what_they_did(
    broker: Broker, producer: Producer
) -> None:
    topic, group = await broker.new_topic(queues=1), broker.new_group()
    await producer.send(Message(topic, b"one"))
    began, finish, again = asyncio.Event(), asyncio.Event(), Received()

    async def on_message(message: MessageExt) -> None:
        began.set()
        await finish.wait()

    consumer = consuming(broker, topic, on_message, group=group)
    await consumer.start()
    await began.wait()
    closing = asyncio.create_task(consumer.close())
    finish.set()
    await closing

    await producer.send(Message(topic, b"two"))
    async with consuming(broker, topic, again, group=group):
        await again.wait_for([b"two"])
    assert again.bodies == [b"two"]


async def test_a_listener_that_never_returns_does_not_hold_up_the_close(
    broker: Broker, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await producer.send(Message(topic, b"one"))
    began = asyncio.Event()

    async def on_message(message: MessageExt) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer = consuming(broker, topic, on_message, close_timeout_s=0.05)
    await consumer.start()
    await began.wait()
    async with asyncio.timeout(5):  # the listener would take for ever
        await consumer.close()


async def test_a_group_can_be_used_once_in_an_instance(broker: Broker) -> None:
    topic, group = await broker.new_topic(), broker.new_group()

    def consumer() -> PushConsumer:
        return consuming(
            broker,
            topic,
            Received(),
            group=group,
            consume_from="last",
            instance_name=f"shared-{group}",
        )

    async with consumer():
        second = consumer()
        with pytest.raises(GroupInUse, match=group):
            await second.start()
        await second.close()


async def test_the_assignment_is_told(broker: Broker) -> None:
    topic = await broker.new_topic(queues=3)
    told: list[tuple[str, int, int]] = []
    consumer = consuming(
        broker,
        topic,
        Received(),
        consume_from="last",
        on_assignment=lambda name, everyones, mine: told.append((name, len(everyones), len(mine))),
    )
    async with consumer:
        assert (topic, 3, 3) in told
        assert {queue for queue in consumer.assignment if queue.topic == topic} == {
            MessageQueue(topic, queue.broker_name, number)
            for number, queue in enumerate(q for q in consumer.assignment if q.topic == topic)
        }


# Without a broker


def settings_error(**options: object) -> str:
    with pytest.raises(InvalidSettings) as caught:
        PushConsumer("group", namesrv="127.0.0.1:1", topics="orders", **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_settings_out_of_range_are_named() -> None:
    assert settings_error(concurrency=0) == "concurrency must be within 1 and 1000, not 0"
    assert "batch_size" in settings_error(batch_size=2000)
    assert "message_model" in settings_error(message_model="round robin")
    assert "consume_from" in settings_error(consume_from="middle")
    assert "yyyyMMddHHmmss" in settings_error(consume_timestamp="yesterday")


def test_the_default_group_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="DEFAULT_CONSUMER"):
        PushConsumer("DEFAULT_CONSUMER", topics="orders")


async def test_a_consumer_without_a_listener_or_a_topic_does_not_start() -> None:
    with pytest.raises(MissingListener, match=r"@consumer\.listener"):
        await PushConsumer("group", namesrv="127.0.0.1:1", topics="orders").start()
    with pytest.raises(InvalidSettings, match="subscribes to nothing"):
        await PushConsumer("group", namesrv="127.0.0.1:1", listener=Received()).start()


async def test_calls_at_the_wrong_time_say_so() -> None:
    consumer = PushConsumer("group", namesrv="127.0.0.1:1", topics="orders", listener=Received())
    with pytest.raises(ClientNotStarted):
        consumer.suspend()
    await consumer.close()
    with pytest.raises(ClientClosed):
        consumer.suspend()
    with pytest.raises(ClientClosed):
        await consumer.start()


async def test_without_a_name_server_it_starts_and_waits(broker: Broker) -> None:
    consumer = PushConsumer("group", namesrv="127.0.0.1:1", topics="orders", listener=Received())
    async with consumer:
        assert consumer.assignment == []
        with pytest.raises(InvalidState, match="started already"):
            await consumer.start()


async def test_a_topic_is_consumed_within_the_second_in_which_it_is_made(
    broker: Broker, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    topic, received = f"made-later-{broker.new_group()}", Received()
    caplog.set_level(logging.WARNING, logger="rocketq.client")
    async with consuming(broker, topic, received):
        await producer.send(Message(topic, b"first"))
        await eventually(lambda: received.bodies == [b"first"], "the first message", within_s=1.0)
    assert caplog.records == [], "a topic that does not exist yet is nothing to warn of"


async def test_a_topic_subscribed_to_later_is_looked_for_as_well(
    broker: Broker, producer: Producer
) -> None:
    topic, received = f"made-later-{broker.new_group()}", Received()
    async with consuming(broker, await broker.new_topic(), received) as consumer:
        await consumer.subscribe(topic)
        await producer.send(Message(topic, b"first"))
        await received.wait_for([b"first"])
