"""The tables of a NameServer, without the network."""

import json
import time
from collections.abc import Mapping

import pytest

from rocketq.common.clock import ManualClock
from rocketq.common.loop.slices import at_once
from rocketq.namesrv.registration import (
    BrokerAddress,
    Master,
    MinimumIdChange,
    Registration,
    RegistrationRefused,
)
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.namesrv.route_texts import RouteForm
from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import QueueData

STANDARD = RouteForm(standard_json=True, acting_master=False)
RAW_KEYS = RouteForm(standard_json=False, acting_master=False)
FIRST = DataVersion(state_version=0, timestamp=1, counter=1)
SECOND = DataVersion(state_version=0, timestamp=2, counter=2)


def queue_data(broker_name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=flag,
    )


def registration(
    broker_name: str = "a",
    broker_id: int = 0,
    *,
    topics: Mapping[str, int] | None = None,
    address: str | None = None,
    data_version: DataVersion = FIRST,
    cluster: str = "c",
    enable_acting_master: bool | None = False,
    connection: object = None,
    heartbeat_timeout_ms: int | None = None,
    queue_mappings: Mapping[str, TopicQueueMappingInfo] | None = None,
    filter_servers: tuple[str, ...] = (),
    zone: str | None = None,
) -> Registration:
    """What a broker says; `topics` maps names to permissions."""
    if topics is None:
        topics = {"TBW102": 7, "orders": 6}
    address = address or f"{broker_name}{broker_id}:10911"
    return Registration(
        cluster=cluster,
        broker_name=broker_name,
        broker_id=broker_id,
        address=address,
        ha_address=address.replace("10911", "10912"),
        enable_acting_master=enable_acting_master,
        heartbeat_timeout_ms=heartbeat_timeout_ms,
        data_version=data_version,
        topics={topic: queue_data(broker_name, perm=perm) for topic, perm in topics.items()},
        queue_mappings=queue_mappings or {},
        filter_servers=filter_servers,
        connection=connection,
        zone=zone,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def changes() -> list[MinimumIdChange]:
    return []


@pytest.fixture
def registry(clock: ManualClock, changes: list[MinimumIdChange]) -> RouteRegistry:
    return RouteRegistry(clock=clock, on_minimum_id_change=changes.append)


def addresses(registry: RouteRegistry, topic: str, *, acting: bool = False) -> dict[str, object]:
    """Broker name -> its addresses in a route, as a client sees them."""
    route = registry.route(topic, acting_master=acting)
    assert route is not None
    return {broker.broker_name: dict(broker.broker_addrs) for broker in route.broker_datas}


def permissions(registry: RouteRegistry, topic: str) -> dict[str, int]:
    route = registry.route(topic)
    assert route is not None
    return {queue.broker_name: queue.perm for queue in route.queue_datas}


# Registration


def test_a_registered_broker_is_in_the_routes_of_its_topics(registry: RouteRegistry) -> None:
    registry.register(registration())

    assert addresses(registry, "orders") == {"a": {0: "a0:10911"}}
    assert registry.route("nothing") is None
    assert registry.encoded_route("nothing", STANDARD) is None


def test_a_topic_on_two_brokers_is_one_route(registry: RouteRegistry) -> None:
    registry.register(registration("a"))
    registry.register(registration("b"))

    assert addresses(registry, "orders") == {"a": {0: "a0:10911"}, "b": {0: "b0:10911"}}


def test_an_unknown_broker_may_not_begin_with_a_single_topic(registry: RouteRegistry) -> None:
    with pytest.raises(RegistrationRefused):
        registry.register(registration(topics={"orders": 6}))
    assert not registry.brokers
    assert not registry.clusters


def test_a_known_broker_adds_a_single_topic(registry: RouteRegistry) -> None:
    registry.register(registration())
    registry.register(registration(topics={"paid": 6}, data_version=SECOND))

    assert set(registry.topics) == {"TBW102", "orders", "paid"}


def test_a_slave_learns_its_master_and_leaves_the_topics_alone(registry: RouteRegistry) -> None:
    registry.register(registration())
    master = registry.register(registration(broker_id=1, topics={"x": 6, "y": 6}))

    assert master == Master("a0:10911", "a0:10912")
    assert set(registry.topics) == {"TBW102", "orders"}
    assert addresses(registry, "orders") == {"a": {0: "a0:10911", 1: "a1:10911"}}


def test_a_slave_without_master_is_told_of_none(registry: RouteRegistry) -> None:
    assert registry.register(registration(broker_id=1)) is None


def test_the_same_data_version_leaves_known_topics_as_they_are(registry: RouteRegistry) -> None:
    registry.register(registration())
    at_once(registry.wiping_write_permission("a"))
    registry.register(registration(topics={"TBW102": 7, "orders": 6, "new": 6}))

    assert permissions(registry, "orders") == {"a": 4}
    assert permissions(registry, "new") == {"a": 6}


def test_another_data_version_brings_the_brokers_own_settings_back(
    registry: RouteRegistry,
) -> None:
    registry.register(registration())
    at_once(registry.wiping_write_permission("a"))
    registry.register(registration(data_version=SECOND))

    assert permissions(registry, "orders") == {"a": 6}


def test_a_slave_promoted_to_master_appears_once(registry: RouteRegistry) -> None:
    registry.register(registration(broker_id=1, address="x:1"))
    registry.register(registration(broker_id=0, address="x:1"))

    assert registry.brokers["a"].broker_addrs == {0: "x:1"}


def test_a_newcomer_with_an_older_state_does_not_replace_a_live_broker(
    registry: RouteRegistry,
) -> None:
    newer = DataVersion(state_version=2, timestamp=1, counter=1)
    registry.register(registration(address="x:1", data_version=newer))
    registry.register(registration(address="y:1"))
    assert registry.brokers["a"].broker_addrs == {0: "x:1"}
    assert registry.data_version(BrokerAddress("c", "y:1")) is None


def test_a_newcomer_with_the_same_state_takes_the_id_over(registry: RouteRegistry) -> None:
    registry.register(registration(address="x:1"))
    registry.register(registration(address="y:1"))
    assert registry.brokers["a"].broker_addrs == {0: "y:1"}


def test_topics_a_broker_no_longer_lists_go_only_when_asked_for(registry: RouteRegistry) -> None:
    registry.register(registration(topics={"kept": 6, "also": 6, "gone": 6}))
    fewer = registration(topics={"kept": 6, "also": 6}, data_version=SECOND)
    registry.register(fewer)
    assert "gone" in registry

    registry.register(fewer, delete_missing_topics=True)
    assert "gone" not in registry
    assert "kept" in registry


def test_a_single_topic_update_deletes_nothing(registry: RouteRegistry) -> None:
    registry.register(registration())
    registry.register(
        registration(topics={"paid": 6}, data_version=SECOND), delete_missing_topics=True
    )
    assert "orders" in registry


# Acting masters


def test_the_prime_slave_serves_its_topics_read_only(registry: RouteRegistry) -> None:
    registry.register(registration(broker_id=1, enable_acting_master=True))
    registry.register(registration(broker_id=2, enable_acting_master=True, topics={"x": 6, "y": 6}))

    assert permissions(registry, "orders") == {"a": 4}
    assert "x" not in registry


def test_a_slave_of_an_old_broker_never_stands_in(registry: RouteRegistry) -> None:
    registry.register(registration(broker_id=1, enable_acting_master=None))
    assert not list(registry.topics)


def test_the_lowest_slave_acts_as_master_when_there_is_none(registry: RouteRegistry) -> None:
    registry.register(registration(enable_acting_master=True))
    registry.register(registration(broker_id=1, enable_acting_master=True))
    registry.register(registration(broker_id=2, enable_acting_master=True))
    assert addresses(registry, "orders", acting=True)["a"] == {
        0: "a0:10911", 1: "a1:10911", 2: "a2:10911",
    }  # fmt: skip

    registry.unregister(BrokerAddress("c", "a0:10911"), "a", 0)

    assert permissions(registry, "orders") == {"a": 4}
    assert addresses(registry, "orders") == {"a": {1: "a1:10911", 2: "a2:10911"}}
    assert addresses(registry, "orders", acting=True) == {"a": {0: "a1:10911", 2: "a2:10911"}}


def test_the_membership_topic_shows_who_is_really_there(registry: RouteRegistry) -> None:
    topic = "rmq_sys_SYNC_BROKER_MEMBER_a"
    registry.register(
        registration(broker_id=1, enable_acting_master=True, topics={topic: 6, "x": 6})
    )
    assert addresses(registry, topic, acting=True) == {"a": {1: "a1:10911"}}
    text = registry.encoded_route(topic, RouteForm(standard_json=True, acting_master=True))
    assert text is not None
    assert json.loads(text)["brokerDatas"][0]["brokerAddrs"] == {"1": "a1:10911"}


def test_a_group_is_told_when_its_lowest_id_changes(
    registry: RouteRegistry, changes: list[MinimumIdChange]
) -> None:
    registry.register(registration(broker_id=1))
    registry.register(registration(broker_id=0))
    assert changes == [MinimumIdChange("a", {1: "a1:10911", 0: "a0:10911"}, None, "a0:10912")]

    registry.unregister(BrokerAddress("c", "a0:10911"), "a", 0)
    assert changes[1:] == [MinimumIdChange("a", {1: "a1:10911"}, "a0:10911", None)]


# Leaving


def test_with_its_last_address_a_broker_leaves_every_table(registry: RouteRegistry) -> None:
    registry.register(registration("a"))
    registry.register(registration("b", cluster="d", topics={"orders": 6, "only-b": 6}))
    registry.unregister(BrokerAddress("d", "b0:10911"), "b", 0)

    assert addresses(registry, "orders") == {"a": {0: "a0:10911"}}
    assert "only-b" not in registry
    assert set(registry.brokers) == {"a"}
    assert set(registry.clusters) == {"c"}


def test_topics_live_on_with_the_slave_of_a_crashed_master(registry: RouteRegistry) -> None:
    registry.register(registration())
    registry.register(registration(broker_id=1))
    registry.unregister(BrokerAddress("c", "a0:10911"), "a", 0)

    assert addresses(registry, "orders") == {"a": {1: "a1:10911"}}
    assert permissions(registry, "orders") == {"a": 6}


def test_a_closed_connection_takes_its_broker_off_the_tables(registry: RouteRegistry) -> None:
    old, new = object(), object()
    registry.register(registration(connection=old))
    registry.register(registration(connection=new))

    registry.connection_closed(old)
    assert "orders" in registry
    registry.connection_closed(new)
    assert "orders" not in registry


def test_a_silent_broker_is_removed_and_its_connection_handed_back(
    registry: RouteRegistry, clock: ManualClock
) -> None:
    quick, steady = object(), object()
    registry.register(registration("a", connection=quick, heartbeat_timeout_ms=10_000))
    registry.register(registration("b", connection=steady))
    clock.advance(10_000)
    assert registry.remove_expired() == []
    clock.advance(1)
    assert registry.remove_expired() == [quick]
    assert set(registry.brokers) == {"b"}

    registry.refresh(BrokerAddress("c", "b0:10911"))
    clock.advance(120_000)
    assert registry.remove_expired() == []
    clock.advance(1)
    assert registry.remove_expired() == [steady]
    assert not registry.brokers


# Topics


def test_write_permission_is_wiped_and_added_for_one_broker(registry: RouteRegistry) -> None:
    registry.register(registration("a"))
    registry.register(registration("b"))

    assert at_once(registry.wiping_write_permission("a")) == 2
    assert permissions(registry, "TBW102") == {"a": 5, "b": 7}
    assert at_once(registry.adding_write_permission("a")) == 2
    assert permissions(registry, "TBW102") == {"a": 6, "b": 7}
    assert at_once(registry.wiping_write_permission("nobody")) == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(registry: RouteRegistry) -> None:
    registry.register(registration("a", cluster="c"))
    registry.register(registration("b", cluster="d"))

    registry.delete_topic("orders", "d")
    assert addresses(registry, "orders") == {"a": {0: "a0:10911"}}
    registry.delete_topic("orders", "nowhere")
    assert "orders" in registry
    registry.delete_topic("orders")
    assert "orders" not in registry
    assert "TBW102" in registry


def test_a_topic_is_announced_on_known_brokers_only(registry: RouteRegistry) -> None:
    registry.register(registration("a"))
    registry.register_topic("new", [queue_data("a"), queue_data("b")])
    assert "new" not in registry
    registry.register_topic("new", [queue_data("a")])
    assert permissions(registry, "new") == {"a": 6}


def test_topics_are_listed_by_cluster_and_by_flag(registry: RouteRegistry) -> None:
    registry.register(registration("a", cluster="c"))
    registry.register(registration("b", cluster="d", topics={"orders": 6, "only-b": 6}))
    registry.register_topic("unit", [queue_data("a", flag=1)])

    assert set(at_once(registry.topics_of_cluster("d"))) == {"orders", "only-b"}
    assert at_once(registry.topics_of_cluster("nowhere")) == []
    assert at_once(registry.topics_with_flags(lambda flag: bool(flag & 1))) == ["unit"]


# Encoded routes


def test_both_forms_of_a_route_are_those_of_the_protocol(registry: RouteRegistry) -> None:
    registry.register(registration())
    registry.register(registration(broker_id=1))

    assert registry.encoded_route("orders", RAW_KEYS) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"a0:10911",1:"a1:10911"},"brokerName":"a",'
        b'"cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
        b'[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert registry.encoded_route("orders", STANDARD) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"a0:10911","1":"a1:10911"},"brokerName":"a",'
        b'"cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
        b'[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_an_encoded_route_is_made_once_until_it_changes(registry: RouteRegistry) -> None:
    registry.register(registration(topics={"orders": 6, "paid": 6, "TBW102": 7}))
    first = registry.encoded_route("orders", STANDARD)
    assert registry.encoded_route("orders", STANDARD) is first
    # Alike but for their names, which no route mentions.
    assert registry.encoded_route("paid", STANDARD) is first
    assert registry.encoded_route("TBW102", STANDARD) is not first

    registry.register(registration(topics={"orders": 4, "paid": 6}, data_version=SECOND))
    changed = registry.encoded_route("orders", STANDARD)
    assert changed is not None
    assert b'"perm":4' in changed
    assert registry.encoded_route("paid", STANDARD) is first


@pytest.mark.parametrize("form", [STANDARD, RAW_KEYS])
def test_no_stale_route_outlives_a_change_of_addresses(
    registry: RouteRegistry, form: RouteForm
) -> None:
    registry.register(registration())
    before = registry.encoded_route("orders", form)
    registry.register(registration(broker_id=1))
    with_slave = registry.encoded_route("orders", form)
    registry.unregister(BrokerAddress("c", "a1:10911"), "a", 1)

    assert with_slave is not None
    assert b"a1:10911" in with_slave
    assert registry.encoded_route("orders", form) == before


def test_an_ordered_topic_carries_its_queues_in_its_own_route(registry: RouteRegistry) -> None:
    registry.register(registration())
    plain = registry.encoded_route("orders", STANDARD)
    ordered = registry.encoded_route("orders", STANDARD, "a:4")
    assert ordered is not None
    assert json.loads(ordered)["orderTopicConf"] == "a:4"
    assert registry.encoded_route("orders", STANDARD, "a:4") is ordered
    assert registry.encoded_route("orders", STANDARD) is plain


def test_a_static_topic_carries_its_mapping(registry: RouteRegistry) -> None:
    mapping = TopicQueueMappingInfo(topic="orders", bname="a", total_queues=1, curr_id_map={0: 0})
    registry.register(registration(queue_mappings={"orders": mapping}))
    text = registry.encoded_route("orders", STANDARD)
    assert text is not None
    assert json.loads(text)["topicQueueMappingByBroker"]["a"]["totalQueues"] == 1
    other = registry.encoded_route("TBW102", STANDARD)
    assert other is not None
    assert b"topicQueueMapping" not in other


def test_filter_servers_follow_the_address_of_their_broker(registry: RouteRegistry) -> None:
    registry.register(registration(filter_servers=("f:1",)))
    text = registry.encoded_route("orders", STANDARD)
    assert text is not None
    assert json.loads(text)["filterServerTable"] == {"a0:10911": ["f:1"]}
    registry.register(registration())
    text = registry.encoded_route("orders", STANDARD)
    assert text is not None
    assert json.loads(text)["filterServerTable"] == {}


# Scale


def test_fifty_thousand_topics_on_eight_brokers(registry: RouteRegistry) -> None:
    """Costs are compared with those of a plain loop over as many names, not with a clock."""
    names = [f"topic-{number}" for number in range(50_000)]
    started = time.thread_time()
    sink = {}
    for name in names:
        sink[name] = (name, hash(name))
    unit_s = time.thread_time() - started

    said = [registration(f"b{i}", topics=dict.fromkeys(names, 6)) for i in range(8)]
    started = time.thread_time()
    for each in said:
        registry.register(each)
    registration_s = (time.thread_time() - started) / 8
    assert registration_s < 60 * unit_s + 0.05

    started = time.thread_time()
    for name in names:
        registry.encoded_route(name, STANDARD)
    assert time.thread_time() - started < 60 * unit_s + 0.05

    route = registry.route(names[-1])
    assert route is not None
    assert len(route.broker_datas) == 8
