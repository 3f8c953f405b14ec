"""Topics, administered on a real broker."""

from collections.abc import Callable

import pytest

from rocketq.admin import AdminError, topics
from rocketq.admin.cluster import brokers
from rocketq.admin.errors import UnknownCluster, UnknownTopic
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.testing import LocalBroker

NewName = Callable[[str], str]


async def make(api: BrokerApi, broker: LocalBroker, name: str, queues: int = 4) -> str:
    config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
    await topics.create(api, config, [broker.address])
    return name


async def test_a_new_topic_has_a_route_and_empty_queues(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await make(api, broker, new_name("topic"), queues=2)

    assert topic in await topics.names(api)
    assert await topics.clusters_of(api, topic) == [broker.cluster]
    status = await topics.status(api, topic)
    assert sorted(status.offset_table) == [MessageQueue(topic, "broker-a", i) for i in range(2)]
    assert {offset.max_offset for offset in status.offset_table.values()} == {0}


async def test_a_deleted_topic_is_gone_from_broker_and_name_server(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await make(api, broker, new_name("topic"))
    await topics.delete(api, topic, broker.cluster)
    with pytest.raises(UnknownTopic):
        await topics.route(api, topic)


async def test_a_permission_is_changed_once(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await make(api, broker, new_name("topic"), queues=3)

    change = await topics.change_permission(api, topic, 4, broker=None, cluster=broker.cluster)
    assert (change.old, change.new, list(change.addresses)) == (6, 4, [broker.address])
    assert change.config.read_queue_nums == 3
    assert (await topics.route(api, topic)).queue_datas[0].perm == 4

    again = await topics.change_permission(api, topic, 4, broker=broker.address, cluster=None)
    assert not again.addresses


async def test_only_a_master_of_the_topic_can_be_told(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await make(api, broker, new_name("topic"))
    with pytest.raises(AdminError, match="not a master"):
        await topics.change_permission(api, topic, 4, broker="127.0.0.1:1", cluster=None)


async def test_shares_of_an_ordered_topic_are_kept_side_by_side(
    api: BrokerApi, new_name: NewName
) -> None:
    topic = new_name("ordered")
    await topics.put_order_conf(api, topic, "broker-b:8")
    assert await topics.merge_order_conf(api, topic, "broker-a", 4) == "broker-b:8;broker-a:4"
    assert await topics.merge_order_conf(api, topic, "broker-b", 2) == "broker-b:2;broker-a:4"
    await topics.delete_order_conf(api, topic)
    assert await topics.order_conf(api, topic) is None


async def test_queues_are_shared_among_clients(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await make(api, broker, new_name("topic"), queues=3)
    shares = await topics.allocation(api, topic, ["10.0.0.1", "10.0.0.2"])
    assert {client: len(queues) for client, queues in shares.items()} == {
        "10.0.0.1": 2,
        "10.0.0.2": 1,
    }


async def test_an_unknown_cluster_is_named_with_those_there_are(
    api: BrokerApi, broker: LocalBroker
) -> None:
    with pytest.raises(UnknownCluster, match=f"there is {broker.cluster}"):
        await brokers.masters(api, "nowhere")


async def test_a_request_needs_a_place_to_go_to(api: BrokerApi) -> None:
    with pytest.raises(AdminError, match="name a broker"):
        await brokers.targets(api, None, None)
