"""What producers and consumers record in the trace topic."""

from rocketq.client.producer.producer import Producer
from rocketq.client.producer.transaction import TransactionProducer, TransactionState
from rocketq.client.trace.records import (
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceRecord,
    decode_records,
)
from rocketq.message.message import Message
from tests.client.conftest import BrokerUnderTest
from tests.client.consuming import QUICK, Received, consuming


async def traced(broker: BrokerUnderTest, topic: str, count: int) -> list[TraceRecord]:
    messages = await broker.wait_for_messages(topic, count)
    return [record for message in messages for record in decode_records(message.body.decode())]


async def test_a_send_is_traced(broker: BrokerUnderTest) -> None:
    topic, trace_topic = await broker.new_topic(), await broker.new_topic()
    group = broker.new_group()
    async with Producer(
        group, namesrv=broker.namesrv, trace=True, trace_topic=trace_topic
    ) as producer:
        result = await producer.send(Message(topic, b"hello", tags="t", keys=["k1", "k2"]))
    (record,) = await traced(broker, trace_topic, 1)
    assert isinstance(record, Pub)
    assert record.msg_id == result.msg_id
    assert record.offset_msg_id == result.offset_msg_id
    assert (record.topic, record.group, record.tags, record.keys) == (topic, group, "t", "k1 k2")
    assert (record.body_length, record.message_type, record.success) == (5, 0, True)
    assert record.store_host == await broker.address()
    (message,) = await broker.wait_for_messages(trace_topic, 1)
    assert message.keys == [result.msg_id, "k1", "k2"]


async def test_many_records_share_a_message(broker: BrokerUnderTest) -> None:
    topic, trace_topic = await broker.new_topic(), await broker.new_topic()
    async with Producer(
        broker.new_group(), namesrv=broker.namesrv, trace=True, trace_topic=trace_topic
    ) as producer:
        for _ in range(45):
            await producer.send(Message(topic, b"x"))
    messages = await broker.wait_for_messages(trace_topic, 3)
    assert len(messages) <= 10, "20 records go into one"
    assert sum(len(list(decode_records(m.body.decode()))) for m in messages) == 45


async def test_the_end_of_a_transaction_is_traced(broker: BrokerUnderTest) -> None:
    topic, trace_topic = await broker.new_topic(), await broker.new_topic()
    async with TransactionProducer(
        broker.new_group(),
        namesrv=broker.namesrv,
        execute=lambda message, argument: TransactionState.COMMIT,
        check=lambda message: None,
        trace=True,
        trace_topic=trace_topic,
    ) as producer:
        result = await producer.send_in_transaction(Message(topic, b"x"))
    pub, end = await traced(broker, trace_topic, 1)
    assert isinstance(pub, Pub)
    assert pub.message_type == 1
    assert isinstance(end, EndTransaction)
    assert (end.msg_id, end.state, end.from_check) == (result.msg_id, "COMMIT_MESSAGE", False)


async def test_consumption_is_traced(broker: BrokerUnderTest, producer: Producer) -> None:
    topic, trace_topic, received = await broker.new_topic(), await broker.new_topic(), Received()
    result = await producer.send(Message(topic, b"x", keys=["k"]))
    group = broker.new_group()
    async with consuming(broker, topic, received, group=group, trace=trace_topic, **QUICK):
        await received.wait_for_count(1)
    before, after = await traced(broker, trace_topic, 1)
    assert isinstance(before, SubBefore)
    assert isinstance(after, SubAfter)
    assert before.msg_id == after.msg_id == result.msg_id
    assert before.request_id == after.request_id
    assert (before.group, after.success, after.context_code) == (group, True, 0)
