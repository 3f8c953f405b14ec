"""What the clients of one id share: heartbeats, routes, goodbyes."""

import asyncio

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message
from tests.client.scripted_broker import scripted_cluster
from tests.waiting import eventually

MESSAGE = Message("topic", b"x")


async def test_a_client_id_says_who_and_where() -> None:
    config = ClientConfig(client_ip="10.0.0.1", instance_name="web", unit_name="unit")
    assert config.client_id() == "10.0.0.1@web@unit"
    assert config.client_id(stream=True) == "10.0.0.1@web@unit@STREAM"
    unnamed = ClientConfig(client_ip="10.0.0.1")
    assert unnamed.client_id() != unnamed.client_id(), "every client is another one"
    assert unnamed.client_id(unique_name=False) == "10.0.0.1@DEFAULT"


async def test_new_brokers_get_a_heartbeat_at_once() -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        await producer.send(MESSAGE)
        for broker in cluster.brokers.values():
            data = (await eventually(broker.heartbeats.copy, "a heartbeat"))[0]
            assert data.client_id == producer.client_id
            assert [group.group_name for group in data.producer_data_set] == ["p"]


async def test_heartbeats_go_on() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, heartbeat_interval_s=0.05) as producer,
    ):
        await producer.send(MESSAGE)
        await eventually(lambda: len(cluster["a"].heartbeats) >= 3, "heartbeats")


async def test_a_broker_reached_again_is_told_again() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        await producer.send(MESSAGE)
        await eventually(lambda: len(cluster["a"].heartbeats) == 1, "the first heartbeat")
        cluster["a"].cut_connections()
        await producer.send(MESSAGE)
        await eventually(lambda: len(cluster["a"].heartbeats) == 2, "another heartbeat")


async def test_closing_says_goodbye() -> None:
    async with scripted_cluster("a", "b") as cluster:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            await producer.send(MESSAGE)
            client_id = producer.client_id
            await eventually(
                lambda: all(broker.heartbeats for broker in cluster.brokers.values()), "heartbeats"
            )
        for broker in cluster.brokers.values():
            (goodbye,) = broker.unregistered
            assert (goodbye.client_id, goodbye.producer_group) == (client_id, "p")


async def test_closing_does_not_wait_long_for_a_broker_that_is_gone() -> None:
    async with scripted_cluster("a") as cluster:
        producer = Producer("p", namesrv=cluster.namesrv)
        await producer.start()
        await producer.send(MESSAGE)
        await eventually(lambda: bool(cluster["a"].heartbeats), "a heartbeat")
        await cluster["a"].server.stop(0.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await producer.close()
        assert loop.time() - began < 5


async def test_routes_are_refreshed() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, route_interval_s=0.05) as producer,
    ):
        await producer.send(MESSAGE)
        await eventually(lambda: cluster.asked.count("topic") >= 3, "refreshes")


async def test_a_topic_created_by_a_message_gets_its_own_route_soon() -> None:
    async with scripted_cluster("a") as cluster:
        cluster.topics = {"TBW102"}
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            await producer.send(MESSAGE)
            assert cluster.asked[:2] == ["topic", "TBW102"]
            cluster.topics.add("topic")
            await eventually(lambda: cluster.asked.count("topic") >= 2, "another question")


async def test_one_name_can_be_used_with_two_clusters() -> None:
    async with (
        scripted_cluster("a") as first,
        scripted_cluster("b") as second,
        Producer("p", namesrv=first.namesrv, instance_name="one") as here,
        Producer("p", namesrv=second.namesrv, instance_name="one") as there,
    ):
        assert here.client_id == there.client_id
        assert (await here.send(MESSAGE)).queue.broker_name == "a"
        assert (await there.send(MESSAGE)).queue.broker_name == "b"


async def test_tools_need_nothing_but_an_instance() -> None:
    async with scripted_cluster("a") as cluster:
        config = ClientConfig(namesrv=cluster.namesrv)
        async with ClientInstance.opened(config) as client:
            assert await client.routes.subscribe_queues("topic")
            assert client.routes.master("a") == cluster["a"].address
        assert cluster["a"].heartbeats == [], "who has no group needs no heartbeat"
