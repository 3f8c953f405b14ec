"""From what a NameServer says to queues and addresses."""

import asyncio
import random

import pytest

from rocketq.client.cluster.routes import RouteTable, publish_view, subscribe_view
from rocketq.client.errors import NoBroker, NoRoute
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData(
        cluster="c",
        broker_name=name,
        broker_addrs={int(key.removeprefix("id")): value for key, value in addresses.items()},
    )


def queues(name: str, count: int, *, perm: int = 6, read: int | None = None) -> QueueData:
    return QueueData(
        broker_name=name,
        read_queue_nums=count if read is None else read,
        write_queue_nums=count,
        perm=perm,
    )


def route(*parts: BrokerData | QueueData, order: str | None = None) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[part for part in parts if isinstance(part, QueueData)],
        broker_datas=[part for part in parts if isinstance(part, BrokerData)],
        order_topic_conf=order,
    )


class Source:
    """A NameServer that answers what it is told to."""

    def __init__(self, **routes: TopicRouteData) -> None:
        self.routes = routes
        self.asked: list[str] = []
        self.addresses = ("ns:9876",)
        self.is_empty = False

    async def route(self, topic: str) -> TopicRouteData | None:
        self.asked.append(topic)
        await asyncio.sleep(0)
        return self.routes.get(topic)

    async def has_brokers(self) -> bool:
        return not self.is_empty


A = broker("a", id0="a:1")
B = broker("b", id0="b:1", id1="b:2")


def test_messages_go_to_writable_queues_of_brokers_with_a_master() -> None:
    slave_only = broker("s", id1="s:1")
    view = publish_view(
        "t",
        route(
            *(B, A, slave_only),
            *(queues("b", 2), queues("a", 1), queues("s", 4), queues("r", 4, perm=4)),
        ),
    )
    assert view.queues == (
        MessageQueue("t", "a", 0),
        MessageQueue("t", "b", 0),
        MessageQueue("t", "b", 1),
    )
    assert not view.ordered


def test_messages_are_read_from_readable_queues_even_of_slaves() -> None:
    slave_only = broker("s", id1="s:1")
    read = subscribe_view("t", route(slave_only, queues("s", 2, read=1), queues("w", 2, perm=2)))
    assert read == (MessageQueue("t", "s", 0),)


def test_an_order_configuration_names_the_queues_exactly() -> None:
    view = publish_view("t", route(A, queues("a", 8), order="b:2;a:1"))
    assert view.ordered
    assert view.queues == (
        MessageQueue("t", "b", 0),
        MessageQueue("t", "b", 1),
        MessageQueue("t", "a", 0),
    )


async def test_a_route_is_asked_for_once_and_then_known() -> None:
    source = Source(t=route(A, queues("a", 2)))
    table = RouteTable(source)
    first, second = await asyncio.gather(table.publish_info("t"), table.publish_info("t"))
    assert first == second == table.known_publish_info("t")
    assert source.asked == ["t"]
    assert table.master("a") == "a:1"


async def test_a_topic_not_created_yet_borrows_the_route_of_the_template() -> None:
    source = Source(TBW102=route(A, queues("a", 8)))
    table = RouteTable(source)
    info = await table.publish_info("new", template_queues=4)
    assert info.borrowed
    assert info.queues == tuple(MessageQueue("new", "a", number) for number in range(4))
    assert source.asked == ["new", "TBW102"]

    source.routes["new"] = route(A, queues("a", 6))
    assert await table.refresh("new")
    info = await table.publish_info("new")
    assert not info.borrowed
    assert len(info.queues) == 6


async def test_many_first_sends_to_a_new_topic_ask_once() -> None:
    source = Source(TBW102=route(broker("a", **{"0": "a:1"}), queues("a", 8)))
    table = RouteTable(source)
    infos = await asyncio.gather(*(table.publish_info("new") for _ in range(100)))
    assert len(set(infos)) == 1
    assert source.asked == ["new", "TBW102"]


async def test_no_route_says_whom_it_asked_and_that_creation_is_off() -> None:
    table = RouteTable(Source())
    with pytest.raises(NoRoute) as caught:
        await table.publish_info("missing")
    text = str(caught.value)
    assert "'missing'" in text
    assert "ns:9876" in text
    assert "autoCreateTopicEnable" in text
    assert caught.value.topic == "missing"


async def test_without_any_broker_the_topic_is_not_to_blame() -> None:
    source = Source()
    source.is_empty = True
    with pytest.raises(NoBroker, match="ns:9876") as caught:
        await RouteTable(source).publish_info("missing")
    assert caught.value.retriable


async def test_a_broker_that_comes_between_the_questions_is_found() -> None:
    """Neither topic nor template were known, but when asked there is a broker: ask again."""
    known = route(broker("a", **{"0": "a:1"}), queues("a", 4))

    class Starting(Source):
        async def has_brokers(self) -> bool:
            self.routes["orders"] = known
            return True

    info = await RouteTable(Starting()).publish_info("orders")
    assert len(info.queues) == 4


async def test_reading_an_unknown_topic_says_so() -> None:
    with pytest.raises(NoRoute, match="'missing'"):
        await RouteTable(Source()).subscribe_queues("missing")


async def test_a_change_is_told_once() -> None:
    source = Source(t=route(A, queues("a", 2)))
    table = RouteTable(source)
    told: list[str] = []
    table.on_change(told.append)
    await table.refresh("t")
    # The same in another order is no change.
    source.routes["t"] = route(A, queues("a", 2))
    assert not await table.refresh("t")
    assert told == ["t"]

    source.routes["t"] = route(A, B, queues("b", 2), queues("a", 2))
    assert await table.refresh("t")
    source.routes["t"] = route(B, A, queues("a", 2), queues("b", 2))
    assert not await table.refresh("t")
    assert told == ["t", "t"]


async def test_a_route_that_is_gone_stays_known() -> None:
    """NameServers restart empty; their clients go on with what they know."""
    source = Source(t=route(A, queues("a", 2)))
    table = RouteTable(source)
    await table.refresh("t")
    del source.routes["t"]
    assert not await table.refresh("t")
    assert (await table.publish_info("t")).queues


async def test_a_broker_is_found_by_id_or_the_nearest_there_is() -> None:
    table = RouteTable(Source(t=route(B, queues("b", 1))))
    await table.refresh("t")
    found = table.find("b", broker_id=1)
    assert found is not None
    assert found == ("b:2", 1)
    assert found.is_slave
    assert table.find("b", broker_id=7) == ("b:1", 0)
    assert table.find("b", broker_id=7, only_this=True) is None
    assert table.find("unknown") is None


async def test_some_broker_of_a_topic_is_a_master_where_there_is_one() -> None:
    table = RouteTable(Source(t=route(A, B, queues("a", 1))), chance=random.Random(1))
    await table.refresh("t")
    assert {table.some_broker("t") for _ in range(50)} == {"a:1", "b:1"}


async def test_brokers_in_no_route_are_forgotten() -> None:
    source = Source(t=route(A, B, queues("a", 1), queues("b", 1)))
    table = RouteTable(source)
    await table.refresh("t")
    source.routes["t"] = route(A, queues("a", 1))
    await table.refresh("t")
    table.forget_unused_brokers()
    assert set(table.brokers()) == {"a"}


async def test_giving_up_on_a_route_does_not_take_it_from_others() -> None:
    source = Source(t=route(A, queues("a", 2)))
    table = RouteTable(source)
    impatient = asyncio.create_task(table.publish_info("t"))
    patient = asyncio.create_task(table.publish_info("t"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).queues
