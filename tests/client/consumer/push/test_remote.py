"""What brokers ask of a consumer on behalf of administrators."""

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.errors import BrokerRejected
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
)
from rocketq.remoting.headers.admin import ResetOffset
from rocketq.remoting.headers.to_client import ConsumeMessageDirectly, GetConsumerRunningInfo
from tests.client.consuming import QUICK, Broker, Received, bodies, consuming, send_all
from tests.waiting import eventually, patiently


async def test_running_info_tells_how_it_is_doing(broker: Broker, producer: Producer) -> None:
    topic, group, received = await broker.new_topic(queues=2), broker.new_group(), Received()
    await send_all(producer, topic, bodies(10))
    consumer = consuming(broker, {topic: "*"}, received, group=group)
    async with consumer, ClientInstance.opened(ClientConfig(namesrv=broker.namesrv)) as tools:
        await received.wait_for(bodies(10))
        await tools.routes.subscribe_queues(topic)
        address = tools.routes.some_broker(topic)
        assert address is not None
        reply = await tools.api.invoke(
            address,
            GetConsumerRunningInfo(
                consumer_group=group, client_id=consumer.client_id, jstack_enable=True
            ),
        )

    info = ConsumerRunningInfo.decode(reply.body)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["PROP_CONSUMEORDERLY"] == "false"
    assert {data.topic for data in info.subscription_set} == {topic, f"%RETRY%{group}"}
    queues = {queue: each for queue, each in info.mq_table.items() if queue.topic == topic}
    assert sum(each.commit_offset for each in queues.values()) == 10
    assert info.status_table[topic].consume_ok_tps > 0
    assert info.jstack is not None


async def test_a_message_can_be_consumed_directly(broker: Broker, producer: Producer) -> None:
    topic, group, received = await broker.new_topic(), broker.new_group(), Received()
    sent = await producer.send(Message(topic, b"once more"))

    def on_message(message: MessageExt) -> None:
        received(message)
        if received.times(b"once more") == 3:
            raise ValueError("enough")

    consumer = consuming(broker, topic, on_message, group=group)
    async with consumer, ClientInstance.opened(ClientConfig(namesrv=broker.namesrv)) as tools:
        await received.wait_for([b"once more"])
        await tools.routes.subscribe_queues(topic)
        address = tools.routes.some_broker(topic)
        assert address is not None
        request = ConsumeMessageDirectly(
            consumer_group=group,
            client_id=consumer.client_id,
            msg_id=sent.offset_msg_id,
            broker_name=sent.queue.broker_name,
            topic=topic,
        )
        good = await tools.api.invoke(address, request)
        bad = await tools.api.invoke(address, request)

    assert ConsumeMessageDirectlyResult.decode(good.body).consume_result == "CR_SUCCESS"
    result = ConsumeMessageDirectlyResult.decode(bad.body)
    assert result.consume_result == "CR_THROW_EXCEPTION"
    assert result.remark == "ValueError: enough"
    assert received.bodies == [b"once more"] * 3


async def test_offsets_can_be_set_back_at_the_broker(broker: Broker, producer: Producer) -> None:
    topic, group, received = await broker.new_topic(queues=2), broker.new_group(), Received()
    await send_all(producer, topic, bodies(10))
    consumer = consuming(broker, topic, received, group=group, pull_suspend_ms=200, **QUICK)
    async with consumer, ClientInstance.opened(ClientConfig(namesrv=broker.namesrv)) as tools:
        await received.wait_for(bodies(10))
        await tools.routes.subscribe_queues(topic)
        address = tools.routes.some_broker(topic)
        assert address is not None
        # Refused until offsets of all queues have been committed.
        await patiently(
            lambda: tools.api.invoke(
                address, ResetOffset(topic=topic, group=group, timestamp=0, is_force=True)
            ),
            BrokerRejected,
        )
        # A pull held by the broker notices when it is answered.
        await producer.send(Message(topic, b"wake up"))
        await producer.send(Message(topic, b"wake up"))
        await eventually(
            lambda: all(received.times(body) == 2 for body in bodies(10)), "everything again"
        )


async def test_offsets_can_be_set_back_by_the_old_way(broker: Broker, producer: Producer) -> None:
    """Before 5.x the broker told the clients (220); they answer 221 with where they are."""
    topic, group, received = await broker.new_topic(queues=1), broker.new_group(), Received()
    await send_all(producer, topic, bodies(10))
    consumer = consuming(broker, topic, received, group=group)
    async with consumer:
        await received.wait_for(bodies(10))
        session = consumer._running()
        (queue,) = (each for each in consumer.assignment if each.topic == topic)
        await eventually(lambda: session.consumer_status(topic) == {queue: 10})

        body = ResetOffsetBody(offset_table={queue: 5})
        await session.reset_offsets(topic, ResetOffsetBody.decode(body.encode()).offset_table)

        await eventually(lambda: len(received) == 15, "the last five again")
        await eventually(lambda: session.consumer_status(topic) == {queue: 10})
    assert received.bodies[10:] == bodies(10)[5:]
    status = ConsumerStatus(message_queue_table={MessageQueue(topic, "b", 0): 10})
    assert ConsumerStatus.decode(status.encode()) == status
