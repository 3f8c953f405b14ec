"""The RPC layer against a broker, request by request."""

import pytest

from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.client.producer.producer import Producer
from rocketq.message.flags import PullFlag
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketq.remoting.codes import RequestCode, ResponseCode
from tests.client.conftest import BrokerUnderTest
from tests.waiting import patiently


@pytest.fixture
def api(broker: BrokerUnderTest) -> BrokerApi:
    return broker.client.api


async def test_the_name_server_knows_brokers_and_topics(
    broker: BrokerUnderTest, api: BrokerApi
) -> None:
    topic = await broker.new_topic(queues=3)
    info = await api.cluster_info()
    ((name, addresses),) = info.broker_addr_table.items()
    assert name in info.cluster_addr_table[addresses.cluster]
    assert topic in await api.topic_names()
    route = await api.route(topic)
    assert route is not None
    assert route.queue_datas[0].write_queue_nums == 3
    assert await api.route("no-such-topic") is None


async def test_name_servers_keep_settings(broker: BrokerUnderTest, api: BrokerApi) -> None:
    namespace = broker.new_name("namespace")
    assert await api.kv_config(namespace, "key") is None
    await api.put_kv_config(namespace, "key", "a:4;b:4")
    assert await api.kv_config(namespace, "key") == "a:4;b:4"
    await api.delete_kv_config(namespace, "key")
    assert await api.kv_config(namespace, "key") is None


async def test_offsets_of_a_queue(
    broker: BrokerUnderTest, api: BrokerApi, producer: Producer
) -> None:
    address, topic = await broker.address(), await broker.new_topic(queues=1)
    (queue,) = await producer.publish_queues(topic)
    for _ in range(5):
        await producer.send(Message(topic, b"x"))
    first, *_, last = await broker.wait_for_messages(topic, 5)
    assert await api.min_offset(address, queue) == 0
    assert await api.max_offset(address, queue) == 5
    assert await api.earliest_time(address, queue) == first.store_timestamp
    assert await api.search_offset(address, queue, first.store_timestamp) == 0
    assert await api.search_offset(address, queue, last.store_timestamp + 60_000) >= 4
    stats = await api.topic_stats(address, topic)
    assert stats.offset_table[queue].max_offset == 5


async def test_offsets_of_a_group(broker: BrokerUnderTest, api: BrokerApi) -> None:
    address, topic, group = await broker.address(), await broker.new_topic(), broker.new_group()
    await api.create_group(address, SubscriptionGroupConfig(group_name=group))
    queue = MessageQueue(topic, "", 0)
    assert await api.query_offset(address, group, queue, zero_if_not_found=False) in (None, 0)
    await api.update_offset(address, group, queue, 7, oneway=False)
    assert await api.query_offset(address, group, queue) == 7
    await api.update_offset(address, group, queue, 9)

    async def stored() -> None:
        assert await api.query_offset(address, group, queue) == 9

    await patiently(stored, AssertionError)


async def test_pulling(broker: BrokerUnderTest, api: BrokerApi, producer: Producer) -> None:
    address, topic = await broker.address(), await broker.new_topic(queues=1)
    (queue,) = await producer.publish_queues(topic)
    for number in range(5):
        await producer.send(
            Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd")
        )
    await broker.wait_for_messages(topic, 5)
    group = broker.new_group()
    await api.create_group(address, SubscriptionGroupConfig(group_name=group))

    async def pull(offset: int, subscription: str = "*", *, lite: bool = False) -> list[bytes]:
        response = await api.pull(
            address,
            group=group,
            queue=queue,
            offset=offset,
            flags=PullFlag.SUBSCRIPTION,
            subscription=subscription,
            lite=lite,
        )
        codes.append(response.code)
        assert response.max_offset == 5
        return [message.body for message in decode_records(response.body)]

    codes: list[int] = []
    assert await pull(0) == [b"0", b"1", b"2", b"3", b"4"]
    assert await pull(3) == [b"3", b"4"]
    assert await pull(0, "odd") == [b"1", b"3"]
    assert await pull(0, lite=True) == [b"0", b"1", b"2", b"3", b"4"], "4.9 does not know 361"
    assert await pull(5) == []
    assert await pull(99) == []
    assert codes[-2:] == [19, 21]


async def test_looking_for_messages(
    broker: BrokerUnderTest, api: BrokerApi, producer: Producer
) -> None:
    address, topic = await broker.address(), await broker.new_topic()
    result = await producer.send(Message(topic, b"x", keys=["first", "second"]))
    (stored,) = await broker.wait_for_messages(topic, 1)
    viewed = await api.view_message(address, stored.physical_offset, topic=topic)
    assert viewed.msg_id == result.msg_id

    async def found(key: str, *, unique: bool = False) -> list[str]:
        messages = await api.query_message(address, topic, key, unique=unique)
        assert messages, key  # RocketMQ builds its index a moment later
        return [message.msg_id for message in messages]

    assert await patiently(lambda: found("first"), AssertionError) == [result.msg_id]
    assert await patiently(lambda: found("second"), AssertionError) == [result.msg_id]
    assert await patiently(lambda: found(result.msg_id, unique=True), AssertionError) == [
        result.msg_id
    ]
    assert await api.query_message(address, topic, "no such key") == []


async def test_clients_come_and_go(broker: BrokerUnderTest, api: BrokerApi) -> None:
    address, topic, group = await broker.address(), await broker.new_topic(), broker.new_group()
    subscription = SubscriptionData(topic=topic, sub_version=1)
    reply = await api.heartbeat(
        address,
        HeartbeatData(
            client_id="me",
            producer_data_set=[ProducerData(group_name=group)],
            consumer_data_set=[
                ConsumerData(group_name=group, subscription_data_set=[subscription])
            ],
        ),
    )
    assert reply.version >= 232
    assert await api.consumer_list(address, group) == ["me"]
    await api.unregister(address, "me", producer_group=group, consumer_group=group)
    with pytest.raises(BrokerRejected):
        await api.consumer_list(address, group)


async def test_queues_are_locked_for_one(broker: BrokerUnderTest, api: BrokerApi) -> None:
    address, group, topic = await broker.address(), broker.new_group(), await broker.new_topic()
    await api.create_group(address, SubscriptionGroupConfig(group_name=group))
    queues = [MessageQueue(topic, "broker-a", number) for number in range(2)]
    assert await api.lock(address, "first", group, queues) == set(queues)
    assert await api.lock(address, "second", group, queues) == set()
    await api.unlock(address, "first", group, queues[:1], oneway=False)
    assert await api.lock(address, "second", group, queues) == {queues[0]}


async def test_a_bad_expression_is_rejected(broker: BrokerUnderTest, api: BrokerApi) -> None:
    address, topic, group = await broker.address(), await broker.new_topic(), broker.new_group()
    sql = SubscriptionData(topic=topic, sub_string="a >", expression_type="SQL92", sub_version=1)
    with pytest.raises(BrokerRejected) as caught:
        await api.check_client(address, "me", group, sql)
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_topic_can_be_deleted(broker: BrokerUnderTest, api: BrokerApi) -> None:
    address, topic = await broker.address(), await broker.new_topic()
    await api.delete_topic(address, topic)
    await api.delete_topic_in_name_servers(topic)
    assert await api.route(topic) is None


async def test_how_far_a_group_is(
    broker: BrokerUnderTest, api: BrokerApi, producer: Producer
) -> None:
    address, topic, group = (
        await broker.address(),
        await broker.new_topic(queues=1),
        broker.new_group(),
    )
    await api.create_group(address, SubscriptionGroupConfig(group_name=group))
    result = await producer.send(Message(topic, b"x"))
    await broker.wait_for_messages(topic, 1)
    await api.update_offset(address, group, result.queue, 0, oneway=False)
    stats = await api.consume_stats(address, group, topic=topic)
    progress = stats.offset_table[result.queue]
    assert (progress.broker_offset, progress.consumer_offset) == (1, 0)


async def test_an_unknown_request_is_rejected_by_name(
    broker: BrokerUnderTest, api: BrokerApi
) -> None:
    with pytest.raises(BrokerRejected, match="REQUEST_CODE_NOT_SUPPORTED") as caught:
        await api.invoke(await broker.address(), RequestCode.GET_TOPIC_NAME_LIST)
    assert caught.value.request == "GET_TOPIC_NAME_LIST"
    assert not caught.value.retriable
    with pytest.raises(BrokerRejected, match="request 31234"):
        await api.invoke(await broker.address(), 31234)
