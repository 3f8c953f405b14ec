"""Producers against a broker: every way of sending, and what can go wrong."""

import asyncio
import gc
import logging
from collections import Counter
from typing import Any, get_args

import pytest

from rocketq.client.errors import (
    BrokerRejected,
    ClientClosed,
    ClientNotStarted,
    GroupInUse,
    InvalidMessage,
    InvalidSettings,
    InvalidState,
    NameServersUnavailable,
    NoRoute,
    SendFailed,
    TooManyPending,
)
from rocketq.client.hooks import SendContext
from rocketq.client.producer.options import CompressionName
from rocketq.client.producer.producer import Producer, recall_broker
from rocketq.client.producer.result import SendStatus
from rocketq.client.producer.selectors import by_random
from rocketq.message.ids import parse_offset_message_id, unique_id_time
from rocketq.message.message import Message
from rocketq.message.names import InvalidName
from rocketq.message.queue import MessageQueue
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest


async def test_a_message_arrives_as_it_was_sent(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    result = await producer.send(
        Message(topic, b"hello", tags="paid", keys=["42", "43"], properties={"shop": "süd"}, flag=7)
    )
    assert result.status is SendStatus.SEND_OK
    assert result.is_ok
    (message,) = await broker.wait_for_messages(topic, 1)
    assert message.body == b"hello"
    assert (message.tags, message.keys, message.flag) == ("paid", ["42", "43"], 7)
    assert message.get_property("shop") == "süd"
    assert message.msg_id == result.msg_id
    assert message.offset_msg_id == result.offset_msg_id
    assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
    assert abs(unique_id_time(result.msg_id) - message.born_timestamp) < 1000
    _, _, physical_offset = parse_offset_message_id(result.offset_msg_id)
    assert physical_offset == message.physical_offset


async def test_a_new_topic_is_created_by_its_first_message(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = broker.new_name("created")
    await producer.send(Message(topic, b"first"))
    (message,) = await broker.wait_for_messages(topic, 1)
    assert message.body == b"first"
    assert len(await producer.publish_queues(topic)) == 4


async def test_messages_take_turns_on_the_queues(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=4)
    results = [await producer.send(Message(topic, b"x")) for _ in range(20)]
    assert set(Counter(result.queue.queue_id for result in results).values()) == {5}


async def test_a_message_goes_to_the_queue_it_is_given(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=4)
    queues = await producer.publish_queues(topic)
    for queue in queues:
        result = await producer.send(Message(topic, b"x"), queue=queue)
        assert result.queue == queue


async def test_a_selector_chooses_the_queue(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=4)

    def third(queues: object, message: Message, key: object) -> MessageQueue:
        assert message.body == b"x"
        assert key == "what it needs"
        assert isinstance(queues, tuple)
        chosen = queues[2]
        assert isinstance(chosen, MessageQueue)
        return chosen

    result = await producer.send(Message(topic, b"x"), selector=third, key="what it needs")
    assert result.queue.queue_id == 2
    await producer.send(Message(topic, b"x"), selector=by_random)


async def test_a_selector_that_finds_nothing_is_an_error(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    with pytest.raises(InvalidMessage, match="no queue"):
        await producer.send(
            Message(topic, b"x"),
            selector=lambda queues, message, key: None,  # type: ignore[arg-type,return-value]
        )


async def test_messages_with_one_sharding_key_keep_their_order(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=8)
    for number in range(20):
        for order in ("order-1", "order-2", "order-3"):
            await producer.send(Message(topic, b"%d" % number, sharding_key=order))
    await broker.wait_for_messages(topic, 60)
    queues = set()
    for queue in await producer.publish_queues(topic):
        stored = await broker.messages_in(queue)
        for key in {message.sharding_key for message in stored}:
            queues.add((key, queue.queue_id))
            bodies = [message.body for message in stored if message.sharding_key == key]
            assert bodies == [b"%d" % number for number in range(20)]
    assert len(queues) == 3, "each key has one queue"


async def test_equal_keys_share_a_queue(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic(queues=8)
    results = [await producer.send(Message(topic, b"x"), key=42) for _ in range(5)]
    assert {result.queue.queue_id for result in results} == {42 % 8}


async def test_a_queue_and_a_key_exclude_each_other(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    queue = MessageQueue(topic, "b", 0)
    with pytest.raises(InvalidMessage, match="not both"):
        await producer.send(Message(topic, b"x"), queue=queue, key=1)


async def test_many_sends_at_a_time_all_get_their_own_receipt(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    futures = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(500)]
    results = await asyncio.gather(*futures)
    stored = {message.msg_id: message for message in await broker.wait_for_messages(topic, 500)}
    assert len(stored) == 500
    for number, result in enumerate(results):
        message = stored[result.msg_id]
        assert message.body == b"%d" % number
        assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)


async def test_oneway_messages_arrive(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()
    for number in range(50):
        await producer.send_oneway(Message(topic, b"%d" % number))
    stored = await broker.wait_for_messages(topic, 50)
    assert {message.body for message in stored} == {b"%d" % number for number in range(50)}


async def test_large_bodies_travel_compressed(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    body = b"compress me " * 1000
    for kind in get_args(CompressionName):
        async with Producer("p", namesrv=broker.namesrv, compression=kind) as producer:
            await producer.send(Message(topic, body))
    stored = await broker.wait_for_messages(topic, 3)
    assert [message.body for message in stored] == [body] * 3
    assert all(len(message.raw_body) < 1000 for message in stored)


async def test_a_delayed_message_arrives_later(broker: BrokerUnderTest, producer: Producer) -> None:
    topic = await broker.new_topic()
    await producer.send(Message(topic, b"x", delay_level=1))
    assert await broker.messages(topic) == []
    (message,) = await broker.wait_for_messages(topic, 1)
    assert message.store_timestamp - message.born_timestamp >= 900


# Batches


async def test_a_batch_gives_a_receipt_for_each_message(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    messages = [
        Message(topic, b"%d" % number, tags="t", keys=[str(number)]) for number in range(50)
    ]
    results = await producer.send_batch(messages)
    stored = {message.msg_id: message for message in await broker.wait_for_messages(topic, 50)}
    for number, result in enumerate(results):
        message = stored[result.msg_id]
        assert message.body == b"%d" % number
        assert message.keys == [str(number)]
        assert message.offset_msg_id == result.offset_msg_id
        assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)


async def test_a_large_batch_is_split(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, batch_bytes=10_000) as producer:
        results = await producer.send_batch([Message(topic, b"x" * 3000) for _ in range(20)])
    assert len(results) == 20
    assert len({result.msg_id for result in results}) == 20
    assert len(await broker.wait_for_messages(topic, 20)) == 20
    assert len({result.queue for result in results}) > 1, "several requests, several queues"


async def test_a_batch_can_go_to_a_chosen_queue(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic()
    queue = (await producer.publish_queues(topic))[3]
    results = await producer.send_batch([Message(topic, b"x")] * 3, queue=queue)
    assert {result.queue for result in results} == {queue}
    assert await producer.send_batch([]) == []


async def test_single_messages_are_collected_into_batches(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, linger_ms=5) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % number)) for number in range(100))
        )
    stored = {message.msg_id: message for message in await broker.wait_for_messages(topic, 100)}
    assert [stored[result.msg_id].body for result in results] == [b"%d" % n for n in range(100)]
    assert len({result.queue for result in results}) == 1, "they went out together"


async def test_collecting_ends_at_a_size(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with Producer(
        "p", namesrv=broker.namesrv, linger_ms=30_000, linger_bytes=2_000
    ) as producer:
        sends = [producer.send_soon(Message(topic, b"x" * 300)) for _ in range(20)]
        await asyncio.gather(*sends[:15])
    results = await asyncio.gather(*sends)
    assert all(result.is_ok for result in results), "closing sends what is held back"


async def test_what_cannot_travel_in_a_batch_is_sent_on_its_own(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, linger_ms=30_000) as producer:
        result = await producer.send(Message(topic, b"x", delay_level=1))
        assert result.is_ok
        result = await producer.send(Message(topic, b"x", sharding_key="k"))
        assert result.is_ok


async def test_a_failed_batch_fails_every_message_in_it(local_broker: LocalBroker) -> None:
    async with Producer(
        "p", namesrv=local_broker.namesrv, linger_ms=0, template_topic="no-such-template"
    ) as producer:
        results = await asyncio.gather(
            *(producer.send(Message("no-such-topic", b"x")) for _ in range(3)),
            return_exceptions=True,
        )
    assert [type(result) for result in results] == [NoRoute] * 3


# Namespace, hooks


async def test_a_namespace_is_on_the_wire_and_nowhere_else(broker: BrokerUnderTest) -> None:
    topic = broker.new_name("orders")
    async with Producer("group", namesrv=broker.namesrv, namespace="shop") as producer:
        assert producer.group == "shop%group"
        result = await producer.send(Message(topic, b"x"))
        assert result.queue.topic == topic
        queues = await producer.publish_queues(topic)
        assert {queue.topic for queue in queues} == {topic}
        assert (await producer.send(Message(topic, b"y"), queue=queues[1])).queue == queues[1]
    assert len(await broker.wait_for_messages(f"shop%{topic}", 2)) == 2


class Watching:
    """A hook that writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, SendContext]] = []

    def before(self, context: SendContext) -> None:
        self.seen.append(("before", context))

    def after(self, context: SendContext) -> None:
        self.seen.append(("after", context))


async def test_hooks_see_sends_and_their_results(broker: BrokerUnderTest) -> None:
    topic, watching = await broker.new_topic(), Watching()
    async with Producer("p", namesrv=broker.namesrv, send_hooks=[watching]) as producer:
        result = await producer.send(Message(topic, b"x", delay_level=2))
    (_, before), (_, after) = watching.seen
    assert before is after
    assert [kind for kind, _ in watching.seen] == ["before", "after"]
    assert after.result is result
    assert after.msg_id == result.msg_id
    assert after.message_type == 3
    assert after.elapsed_ms > 0


async def test_a_hook_that_fails_does_not_stop_the_message(
    broker: BrokerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def before(self, context: SendContext) -> None:
            raise RuntimeError("before")

        def after(self, context: SendContext) -> None:
            raise RuntimeError("after")

    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, send_hooks=[Failing()]) as producer:
        assert (await producer.send(Message(topic, b"x"))).is_ok
    assert [record.message for record in caplog.records if record.exc_info] == [
        "a send hook failed before the send",
        "a send hook failed after the send",
    ]


async def test_a_filter_may_refuse_a_message(broker: BrokerUnderTest) -> None:
    class Refused(Exception):
        pass

    def refuse(context: SendContext) -> None:
        if context.message.body == b"bad":
            raise Refused

    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, send_filters=[refuse]) as producer:
        await producer.send(Message(topic, b"good"))
        with pytest.raises(Refused):
            await producer.send(Message(topic, b"bad"))
    assert len(await broker.wait_for_messages(topic, 1)) == 1


# Life


async def test_a_producer_must_be_started_and_not_closed(broker: BrokerUnderTest) -> None:
    producer = Producer("p", namesrv=broker.namesrv)
    message = Message("t", b"x")
    with pytest.raises(ClientNotStarted, match=r"start\(\)"):
        await producer.send(message)
    await producer.start()
    with pytest.raises(InvalidState, match="already"):
        await producer.start()
    await producer.close()
    await producer.close()
    with pytest.raises(ClientClosed):
        await producer.send(message)
    with pytest.raises(ClientClosed):
        await producer.start()


async def test_one_group_is_used_once_in_an_instance(broker: BrokerUnderTest) -> None:
    name = broker.new_name("instance")
    async with Producer("p", namesrv=broker.namesrv, instance_name=name) as first:
        with pytest.raises(GroupInUse, match="instance_name"):
            await Producer("p", namesrv=broker.namesrv, instance_name=name).start()
        async with Producer("q", namesrv=broker.namesrv, instance_name=name) as second:
            assert first.client_id == second.client_id
    async with Producer("p", namesrv=broker.namesrv, instance_name=name):
        pass


async def test_closing_waits_for_what_was_accepted(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    producer = Producer("p", namesrv=broker.namesrv)
    await producer.start()
    futures = [producer.send_soon(Message(topic, b"x")) for _ in range(100)]
    await producer.close()
    assert all(future.done() and future.result().is_ok for future in futures)
    assert len(await broker.wait_for_messages(topic, 100)) == 100


async def test_flush_waits_for_what_was_accepted(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv, linger_ms=30_000) as producer:
        future = producer.send_soon(Message(topic, b"x"))
        await producer.flush()
        assert future.done()


async def test_sends_that_nobody_waits_for_leave_no_trace(
    broker: BrokerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await broker.new_topic()
    async with Producer("p", namesrv=broker.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        for _ in range(10):
            producer.send_soon(Message(topic, b"x")).cancel()
        task = asyncio.create_task(producer.send(Message(topic, b"x")))
        await asyncio.sleep(0)
        task.cancel()
    gc.collect()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_too_many_unanswered_sends_are_refused(local_broker: LocalBroker) -> None:
    async with Producer("p", namesrv=local_broker.namesrv, max_pending_sends=10) as producer:
        topic = local_broker.new_name()
        futures = [producer.send_soon(Message(topic, b"x")) for _ in range(10)]
        with pytest.raises(TooManyPending, match="max_pending_sends"):
            producer.send_soon(Message(topic, b"x"))
        await asyncio.gather(*futures)
        await producer.send(Message(topic, b"x"))


# Errors


async def test_name_servers_that_do_not_answer_are_all_named() -> None:
    async with Producer("p", namesrv="127.0.0.1:1;127.0.0.1:2", send_timeout_s=0.5) as producer:
        with pytest.raises(NameServersUnavailable, match=r"127\.0\.0\.1:1.*|127\.0\.0\.1:2.*") as e:
            await producer.send(Message("t", b"x"))
    assert set(e.value.causes) == {"127.0.0.1:1", "127.0.0.1:2"}
    assert e.value.retriable


async def test_a_name_server_that_does_not_answer_is_left_for_the_next(
    broker: BrokerUnderTest,
) -> None:
    topic = await broker.new_topic()
    for _ in range(4):  # whichever comes first
        async with Producer("p", namesrv=f"127.0.0.1:1;{broker.namesrv}") as producer:
            assert (await producer.send(Message(topic, b"x"))).is_ok


async def test_an_unknown_topic_where_none_is_created_has_no_route() -> None:
    with LocalBroker({"autoCreateTopicEnable": "false"}) as broker:
        async with Producer("p", namesrv=broker.namesrv) as producer:
            with pytest.raises(NoRoute) as caught:
                await producer.send(Message("missing", b"x"))
    assert not caught.value.retriable
    for part in ("'missing'", broker.namesrv, "autoCreateTopicEnable=false", "updateTopic"):
        assert part in str(caught.value)


async def test_what_a_broker_refuses_for_good_is_raised_at_once(
    broker: BrokerUnderTest, producer: Producer
) -> None:
    topic = await broker.new_topic(queues=1)
    (queue,) = await producer.publish_queues(topic)
    with pytest.raises((BrokerRejected, SendFailed)) as caught:
        await producer.send(Message(topic, b"x"), queue=queue._replace(queue_id=99))
    error: BaseException | None = caught.value
    if isinstance(error, SendFailed):  # 4.9 says SYSTEM_ERROR, which may mean anything
        assert not broker.is_ours
        error = error.__cause__
        assert isinstance(error, BrokerRejected)
    else:
        assert isinstance(error, BrokerRejected)
        assert not error.retriable
    assert error.address == await broker.address()
    assert "SEND_MESSAGE_V2" in str(error)


async def test_a_producer_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidName):
        Producer("")
    with pytest.raises(InvalidSettings, match="reserved"):
        Producer("DEFAULT_PRODUCER")


@pytest.mark.parametrize(
    "options",
    [
        {"send_timeout_s": 0},
        {"retries": -1},
        {"compression": "brotli"},
        {"compression_level": 10},
        {"linger_ms": 40_000},
        {"template_queues": 0},
        {"access_key": "only half"},
        {"api_timeout_s": 0},
        {"heartbeat_interval_s": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings):
        Producer("p", **options)  # type: ignore[arg-type]


def test_a_recall_handle_names_its_broker() -> None:
    handle = "djEgV2lyZVRvcGljIGJyb2tlci13IDE3OTQ3NzI1MDAwMDEgRkQwMA=="
    assert recall_broker(handle) == "broker-w"
    with pytest.raises(InvalidMessage, match="recall handle"):
        recall_broker("nonsense")


# Brokers that go


async def test_a_broker_that_restarts_is_waited_for() -> None:
    """With only one broker, a send goes on trying while its time lasts."""
    with LocalBroker() as broker:
        topic = broker.create_topic()
        async with Producer("p", namesrv=broker.namesrv, send_timeout_s=20) as producer:
            await producer.send(Message(topic, b"before"))
            await asyncio.to_thread(broker.stop)
            sending = asyncio.create_task(producer.send(Message(topic, b"during")))
            await asyncio.to_thread(broker.start)
            assert (await sending).is_ok
            assert (await producer.send(Message(topic, b"after"))).is_ok
        assert [message.body for message in broker.messages(topic)] == [
            b"before",
            b"during",
            b"after",
        ]


async def test_a_broker_that_stays_away_fails_the_send_in_time() -> None:
    with LocalBroker() as broker:
        topic = broker.create_topic()
        async with Producer("p", namesrv=broker.namesrv, send_timeout_s=30) as producer:
            await producer.send(Message(topic, b"x"))
            await asyncio.to_thread(broker.stop)
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(SendFailed, match="broker-a") as caught:
                await producer.send(Message(topic, b"x"), timeout_s=0.5)
            assert loop.time() - began < 20
            assert caught.value.retriable
            assert caught.value.attempts


async def test_without_retries_the_first_failure_is_final() -> None:
    with LocalBroker() as broker:
        topic = broker.create_topic()
        async with Producer("p", namesrv=broker.namesrv, retries=0) as producer:
            await producer.send(Message(topic, b"x"))
            await asyncio.to_thread(broker.stop)
            with pytest.raises(SendFailed, match="sent 1 times"):
                await producer.send(Message(topic, b"x"))


async def test_something_else_than_a_message_is_named(producer: Producer) -> None:
    wrong: Any = b"x"
    for send in (producer.send, producer.send_oneway, producer.request):
        with pytest.raises(TypeError, match=r"b'x' is no Message: send one"):
            await send(wrong)
    with pytest.raises(TypeError, match="'x' is no Message"):
        await producer.send_batch([Message("orders", b"x"), wrong])
