"""Push consumers whose queues the broker shares out: popped, acknowledged, tried again."""

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from rocketq import PushConsumer as BlockingPushConsumer
from rocketq.client.consumer.allocation import AverageByCircle, ConsistentHash
from rocketq.client.consumer.pop import consumption, push_session
from rocketq.client.consumer.pop.consumption import DELAYS_S, delay_after_failure
from rocketq.client.consumer.pop.queue import PopQueue, PopSettings
from rocketq.client.consumer.process_queue import FlowLimits
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.consumer.push.listener import ConsumeLater
from rocketq.client.consumer.simple.consumer import SimpleConsumer
from rocketq.client.errors import InvalidSettings
from rocketq.client.producer.producer import Producer
from rocketq.common.clock import ManualClock
from rocketq.message.message import Message, MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import new_record
from rocketq.remoting.bodies.assignment import SetMessageRequestMode
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.running_info import ConsumerRunningInfo
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.to_client import GetConsumerRunningInfo
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest
from tests.client.consuming import QUICK, Received, bodies, consuming, send_all
from tests.waiting import eventually


async def popping_group(
    broker: BrokerUnderTest, *topics: str, group: str | None = None, mode: str = "POP"
) -> str:
    """A group that pops these topics."""
    group = group or broker.new_group()
    address = await broker.address()
    await broker.client.api.create_group(address, SubscriptionGroupConfig(group_name=group))
    for topic in topics:
        body = SetMessageRequestMode(topic=topic, consumer_group=group, mode=mode)
        await broker.client.api.invoke(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body.encode())
    return group


def popping(
    broker: BrokerUnderTest, topic: Any, listener: Any, group: str, **more: Any
) -> PushConsumer:
    return consuming(broker, topic, listener, group=group, rebalance="broker", **QUICK, **more)


@pytest.fixture
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumption, "DELAYS_S", (0.2,) * len(DELAYS_S))


@pytest.fixture
def short_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not acknowledged comes again after a second."""

    def settings(**fields: Any) -> PopSettings:
        return PopSettings(**{**fields, "invisible_ms": 1000})

    monkeypatch.setattr(push_session, "PopSettings", settings)


async def is_done(broker: BrokerUnderTest, topic: str, group: str) -> None:
    """Nothing of the topic comes to the group again, whoever asks."""
    async with SimpleConsumer(group, namesrv=broker.namesrv, topics=topic) as consumer:
        assert await consumer.receive(wait_s=1.8) == []


@pytest.mark.parametrize("kind", ["async", "threads", "list"])
async def test_popped_messages_come_to_the_listener_once(
    broker: BrokerUnderTest, producer: Producer, kind: str
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    await producer.send_batch([Message(topic, body) for body in bodies(200)])
    received = Received()

    async def one(message: MessageExt) -> None:
        received(message)

    def many(messages: list[MessageExt]) -> None:
        received.all(messages)

    listener = {"async": one, "threads": received, "list": many}[kind]
    async with popping(broker, topic, listener, group) as consumer:
        await received.wait_for(bodies(200))
        popped = [queue for queue in consumer.assignment if queue.topic == topic]
        assert [queue.queue_id for queue in popped] == [-1]
        assert {message.topic for message in received.messages} == {topic}
        await send_all(producer, topic, [b"later"])
        await received.wait_for([b"later"])
    assert len(received) == 201


@pytest.mark.usefixtures("short_invisible")
async def test_what_is_consumed_is_acknowledged(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    await send_all(producer, topic, bodies(20))
    received = Received()
    async with popping(broker, topic, received, group):
        await received.wait_for(bodies(20))
    await is_done(broker, topic, group)
    assert len(received) == 20


async def test_without_a_mode_queues_are_pulled(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    await send_all(producer, topic, bodies(10))
    received = Received()
    async with popping(broker, topic, received, broker.new_group()) as consumer:
        await received.wait_for(bodies(10))
        queues = [queue for queue in consumer.assignment if queue.topic == topic]
        assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]


@pytest.mark.usefixtures("short_delays")
async def test_what_fails_comes_again_and_counts(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    attempts: list[int] = []

    async def fails_twice(message: MessageExt) -> None:
        if message.body == b"bad":
            attempts.append(message.reconsume_times)
            assert message.topic == topic
            if len(attempts) < 3:
                raise ConsumeLater

    async with popping(broker, topic, fails_twice, group):
        await send_all(producer, topic, [b"good", b"bad"])
        await eventually(lambda: len(attempts) == 3, "three attempts")
    assert attempts == [0, 1, 2]


@pytest.mark.usefixtures("short_delays", "short_invisible")
async def test_what_came_too_often_is_given_up(
    broker: BrokerUnderTest, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    attempts: list[int] = []

    async def fails(message: MessageExt) -> None:
        attempts.append(message.reconsume_times)
        raise ConsumeLater

    caplog.set_level(logging.WARNING)
    async with popping(broker, topic, fails, group, max_reconsume_times=1):
        await send_all(producer, topic, [b"bad"])
        await eventually(lambda: "is given up" in caplog.text, "the end of it")
    assert attempts == [0, 1]
    await is_done(broker, topic, group)


@pytest.mark.usefixtures("short_invisible")
async def test_a_listener_may_give_up_at_once(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    received = Received()

    def gives_up(message: MessageExt) -> None:
        received(message)
        raise ConsumeLater(delay_level=-1)

    async with popping(broker, topic, gives_up, group):
        await send_all(producer, topic, [b"bad"])
        await received.wait_for_count(1)
    await is_done(broker, topic, group)


async def test_two_members_pop_the_same_queues(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=1)
    group = await popping_group(broker, topic)
    first, second = Received(), Received()

    def slowly(received: Received) -> Any:
        async def take(message: MessageExt) -> None:
            received(message)
            await asyncio.sleep(0.01)

        return take

    more = {"concurrency": 1, "pop_threshold": 4, "instance_name": "one"}
    async with (
        popping(broker, topic, slowly(first), group, **more),
        popping(broker, topic, slowly(second), group, **{**more, "instance_name": "two"}),
    ):
        await producer.send_batch([Message(topic, body) for body in bodies(300)])
        await eventually(lambda: len(first) + len(second) >= 300, "all messages")
    assert sorted(first.bodies + second.bodies) == sorted(bodies(300))
    assert len(first) > 0
    assert len(second) > 0


async def test_popping_pauses_above_the_threshold(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    await producer.send_batch([Message(topic, body) for body in bodies(200)])
    go_on = asyncio.Event()
    received = Received()

    async def waits(message: MessageExt) -> None:
        received(message)
        await go_on.wait()

    async with (
        popping(broker, topic, waits, group, pop_threshold=40, concurrency=200),
        SimpleConsumer(group, namesrv=broker.namesrv, topics=topic) as other,
    ):
        await received.wait_for_count(64)  # two pops: after the second there are more than 40
        left: list[MessageExt] = []
        while found := await other.receive(200, wait_s=1):
            left += found
        assert len(left) + len(received) == 200
        assert len(received) == 64
        await other.ack(left)
        go_on.set()


@pytest.mark.usefixtures("short_delays")
async def test_a_topic_changes_from_pop_to_pull_and_back(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    received = Received()
    async with popping(broker, topic, received, group) as consumer:

        def has(wanted: list[int]) -> bool:
            queues = consumer.assignment
            return [queue.queue_id for queue in queues if queue.topic == topic] == wanted

        for number, (mode, queue_ids) in enumerate(
            [("POP", [-1]), ("PULL", [0, 1, 2, 3]), ("POP", [-1])]
        ):
            await popping_group(broker, topic, group=group, mode=mode)
            await eventually(partial(has, queue_ids), mode)
            await send_all(producer, topic, bodies(10, f"round {number}"))
            await received.wait_for(bodies(10, f"round {number}"))


async def test_what_was_popped_and_left_is_pulled_when_the_group_pulls(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic, mode="PULL")
    await send_all(producer, topic, bodies(3))
    async with SimpleConsumer(
        group, namesrv=broker.namesrv, topics=topic, consume_from="first"
    ) as other:
        left = await other.receive(invisible_s=0.3)
        assert len(left) == 3
    received = Received()
    async with popping(broker, topic, received, group):
        # RocketMQ tells NameServers of the topic for retries with its next regular report.
        patience_s = 30 if broker.is_ours else 90
        await eventually(lambda: len(received) == 3, "the retries", within_s=patience_s)
    assert {(message.topic, message.reconsume_times) for message in received.messages} == {
        (topic, 1)
    }


async def test_suspended_consumers_pop_nothing(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()
    group = await popping_group(broker, topic)
    received = Received()
    async with popping(broker, topic, received, group, pop_poll_s=0.1) as consumer:
        await send_all(producer, topic, [b"before"])
        await received.wait_for([b"before"])
        consumer.suspend()
        consumer.resume()
        await send_all(producer, topic, [b"after"])
        await received.wait_for([b"after"])


def test_settings_that_brokers_cannot_serve_are_refused() -> None:
    wrong_ones: list[dict[str, Any]] = [
        {"orderly": True},
        {"message_model": "broadcasting"},
        {"allocation": ConsistentHash()},
        {"pop_invisible_s": 1},
    ]
    for wrong in wrong_ones:
        with pytest.raises(InvalidSettings):
            PushConsumer("g", rebalance="broker", **wrong)
    with pytest.raises(InvalidSettings, match="'client' or 'broker'"):
        PushConsumer("g", rebalance="server")  # type: ignore[arg-type]
    PushConsumer("g", rebalance="broker", allocation=AverageByCircle())


def test_the_blocking_consumer_pops_too(local_broker: LocalBroker) -> None:
    from rocketq import Producer as BlockingProducer
    from tests.waiting import wait_until

    topic = local_broker.create_topic()
    received = Received()
    with (
        BlockingProducer(local_broker.new_name(), namesrv=local_broker.namesrv) as producer,
        BlockingPushConsumer(
            local_broker.new_name("group"),
            namesrv=local_broker.namesrv,
            topics=topic,
            listener=received,
            consume_from="first",
            rebalance="broker",
        ),
    ):
        producer.send(Message(topic, b"x"))
        wait_until(lambda: len(received) == 1)


# Parts


def popped_message(**fields: Any) -> MessageExt:
    return decode_record(new_record(b"t", b"body", b"", **fields))


def test_what_waits_too_long_is_passed_over() -> None:
    clock = ManualClock()
    queue = PopQueue(MessageQueue("t", "b", -1), FlowLimits(count=96, size=1 << 30), clock)
    old, new = [popped_message() for _ in range(3)], [popped_message() for _ in range(2)]
    queue.put_until(old, clock.monotonic() + 10)
    queue.put_until(new, clock.monotonic() + 20)
    first = queue.take(1)
    assert first is not None
    clock.advance(15_000)

    piece = queue.take(10)

    assert piece is not None
    assert [id(message) for message in piece.messages] == [id(message) for message in new]
    queue.finish(piece)
    queue.finish(first)
    assert queue.count == queue.size == 0
    assert queue.take(10) is None


@pytest.mark.parametrize(
    ("times", "level", "age_s", "delay_s"),
    [
        (0, 0, 0, 10),
        (3, 0, 0, 120),
        (0, 4, 0, 180),
        (15, 0, 0, 7200),
        (0, 99, 0, 7200),
        (0, -1, 0, None),
        (16, 0, 5, 10),
        (16, 0, 21, 30),
        (16, 0, 14_000, 7200),
        (16, 0, 14_401, None),
    ],
)
def test_how_long_a_failed_message_is_hidden(
    times: int, level: int, age_s: int, delay_s: float | None
) -> None:
    clock = ManualClock()
    message = popped_message(reconsume_times=times, born_timestamp=clock.now_ms() - age_s * 1000)
    assert delay_after_failure(message, level, 16, clock.now_ms()) == delay_s


async def test_running_info_tells_what_is_popped(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=2)
    group = await popping_group(broker, topic)
    await send_all(producer, topic, bodies(3))
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def listener(message: MessageExt) -> None:
        begun.set()
        await may_end.wait()

    async with popping(broker, topic, listener, group) as consumer:
        await begun.wait()
        try:
            request = GetConsumerRunningInfo(
                consumer_group=group, client_id=consumer.client_id, jstack_enable=False
            )

            async def info() -> ConsumerRunningInfo:
                reply = await broker.client.api.invoke(await broker.address(), request)
                return ConsumerRunningInfo.decode(reply.body)

            async def has_all() -> bool:
                popped = (await info()).mq_pop_table
                return sum(each.wait_ack_count for each in popped.values()) == 3

            await eventually(has_all, "three that are not acknowledged")
            ((queue, popped),) = (await info()).mq_pop_table.items()
            assert (queue.topic, queue.queue_id) == (topic, -1)
            assert popped.last_pop_timestamp > 0
            assert not popped.dropped
        finally:
            may_end.set()
