"""Messages that become visible when a local transaction commits."""

import asyncio
import threading

import pytest

from rocketq.client.errors import MissingListener
from rocketq.client.hooks import EndTransactionContext
from rocketq.client.producer.transaction import TransactionProducer, TransactionState
from rocketq.message.message import Message, MessageExt
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest
from tests.waiting import eventually


def never_asked(message: MessageExt) -> TransactionState:
    raise AssertionError("nobody should ask")


async def test_a_committed_message_becomes_visible(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()

    async def local(message: Message, argument: object) -> TransactionState:
        assert argument == {"order": 42}
        assert message.body == b"paid"
        assert await broker.messages(topic) == [], "not visible before the commit"
        return TransactionState.COMMIT

    async with TransactionProducer(
        broker.new_group(), namesrv=broker.namesrv, execute=local, check=never_asked
    ) as producer:
        message = Message(topic, b"paid", tags="t", keys=["42"])
        result = await producer.send_in_transaction(message, {"order": 42})
        assert result.state is TransactionState.COMMIT
        assert result.msg_id == message.unique_key
        (stored,) = await broker.wait_for_messages(topic, 1)
    assert (stored.body, stored.tags, stored.keys) == (b"paid", "t", ["42"])
    assert stored.msg_id == result.msg_id
    assert stored.transaction_id == result.transaction_id


async def test_a_message_rolled_back_never_becomes_visible(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic(queues=1)

    async def local(message: Message, argument: object) -> TransactionState:
        return TransactionState.ROLLBACK if argument == "bad" else TransactionState.COMMIT

    async with TransactionProducer(
        broker.new_group(), namesrv=broker.namesrv, execute=local, check=never_asked
    ) as producer:
        result = await producer.send_in_transaction(Message(topic, b"bad"), "bad")
        assert result.state is TransactionState.ROLLBACK
        await producer.send_in_transaction(Message(topic, b"good"), "good")
        stored = await broker.wait_for_messages(topic, 1)
    assert [message.body for message in stored] == [b"good"]


async def test_a_plain_function_runs_in_a_thread(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    threads = []

    def local(message: Message, argument: object) -> TransactionState:
        threads.append(threading.current_thread())
        return TransactionState.COMMIT

    async with TransactionProducer(
        broker.new_group(), namesrv=broker.namesrv, check=never_asked
    ) as producer:
        await producer.send_in_transaction(Message(topic, b"x"), execute=local)
    assert threads[0] is not threading.current_thread()


async def test_a_broker_asks_about_what_it_did_not_hear_of() -> None:
    """Transactions that fail, or say nothing, are settled by the check."""
    with LocalBroker({"transactionCheckInterval": "100", "transactionTimeOut": "50"}) as broker:
        topic = broker.create_topic()
        asked: list[bytes] = []

        async def local(message: Message, argument: object) -> None:
            if message.body == b"fails":
                raise RuntimeError("the database is away")

        producer = TransactionProducer("group", namesrv=broker.namesrv, execute=local)

        @producer.on_check
        async def check(message: MessageExt) -> TransactionState:
            asked.append(message.body)
            assert message.topic == topic
            return {
                b"fails": TransactionState.COMMIT,
                b"says nothing": TransactionState.ROLLBACK,
            }[message.body]

        async with producer:
            for body in (b"fails", b"says nothing"):
                result = await producer.send_in_transaction(Message(topic, body))
                assert result.state is TransactionState.UNKNOWN
            await eventually(lambda: {b"fails", b"says nothing"} <= set(asked), "checks")
            (stored,) = await asyncio.to_thread(broker.wait_for_messages, topic, 1)
        assert stored.body == b"fails"


@pytest.mark.parametrize("creates_topics", ["true", "false"])
async def test_a_producer_is_asked_what_an_earlier_one_left_before_it_sends_anything(
    creates_topics: str,
) -> None:
    settings = {
        "transactionCheckInterval": "100",
        "transactionTimeOut": "50",
        "autoCreateTopicEnable": creates_topics,
    }
    with LocalBroker(settings) as broker:
        topic = broker.create_topic()
        async with TransactionProducer(
            "group",
            namesrv=broker.namesrv,
            execute=lambda message, argument: None,
            check=lambda message: None,
        ) as first:
            await first.send_in_transaction(Message(topic, b"left open"))
        async with TransactionProducer(
            "group",
            namesrv=broker.namesrv,
            topics=() if creates_topics == "true" else topic,
            check=lambda message: TransactionState.COMMIT,
        ):
            (stored,) = await asyncio.to_thread(broker.wait_for_messages, topic, 1)
        assert stored.body == b"left open"


async def test_a_check_that_fails_is_made_again() -> None:
    with LocalBroker({"transactionCheckInterval": "100", "transactionTimeOut": "50"}) as broker:
        topic = broker.create_topic()
        asked = 0

        def check(message: MessageExt) -> TransactionState | None:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise RuntimeError("not now")
            return None if asked == 2 else TransactionState.COMMIT

        async with TransactionProducer(
            "group", namesrv=broker.namesrv, execute=lambda message, argument: None, check=check
        ) as producer:
            await producer.send_in_transaction(Message(topic, b"x"))
            await asyncio.to_thread(broker.wait_for_messages, topic, 1)
        assert asked >= 3


async def test_the_steps_can_be_taken_one_by_one(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with TransactionProducer(
        broker.new_group(), namesrv=broker.namesrv, check=never_asked
    ) as producer:
        half = await producer.send_half(Message(topic, b"x"))
        assert half.is_safe
        assert await broker.messages(topic) == []
        await producer.settle(half, TransactionState.COMMIT)
        assert len(await broker.wait_for_messages(topic, 1)) == 1


async def test_hooks_see_how_transactions_end(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    seen: list[EndTransactionContext] = []
    async with TransactionProducer(
        broker.new_group(),
        namesrv=broker.namesrv,
        execute=lambda message, argument: TransactionState.COMMIT,
        check=never_asked,
        end_transaction_hooks=[seen.append],
    ) as producer:
        result = await producer.send_in_transaction(Message(topic, b"x"))
    (context,) = seen
    assert (context.state, context.from_check) == ("COMMIT_MESSAGE", False)
    assert context.msg_id == result.msg_id


async def test_without_a_check_it_does_not_start(broker: BrokerUnderTest) -> None:
    with pytest.raises(MissingListener, match="on_check"):
        await TransactionProducer("p", namesrv=broker.namesrv).start()


async def test_without_a_local_transaction_nothing_is_sent(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    async with TransactionProducer(
        broker.new_group(), namesrv=broker.namesrv, check=never_asked
    ) as producer:
        with pytest.raises(MissingListener, match="on_execute"):
            await producer.send_in_transaction(Message(topic, b"x"))
