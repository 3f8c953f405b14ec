"""Who is connected: producers and consumers by group, and what they are told."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from rocketq.broker.clients import consumers
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable, Subscription
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.common.clock import ManualClock
from rocketq.remoting import Command, Connection, RequestCode
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketq.store.config import StoreConfig


class FakeConnection:
    """The part of a connection the tables use."""

    def __init__(self, port: int) -> None:
        self.peer = ("127.0.0.1", port)
        self.is_closing = False
        self.sent: list[Command] = []

    def call_oneway(self, command: Command) -> None:
        self.sent.append(command)

    @property
    def notified(self) -> list[str]:
        """The groups whose change this client was told of."""
        assert all(each.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for each in self.sent)
        return [each.ext_fields["consumerGroup"] for each in self.sent]


class Clients:
    """Both tables, and clients that connect to them."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.clock = ManualClock()
        live = LiveConfig(BrokerConfig(broker_name="broker-t", **options), StoreConfig())
        self.groups = SubscriptionGroups(live, folder / "subscriptionGroup.json", self.clock)
        self.producers = ProducerTable(self.clock)
        self.consumers = ConsumerTable(live, self.groups, self.clock)

    def channel(self, name: str, port: int = 0) -> ClientChannel:
        connection = cast(Connection, FakeConnection(port))
        return ClientChannel(connection, name, 0, 479, self.clock.now_ms())

    def consume(self, channel: ClientChannel, *topics: str, **more: Any) -> bool:
        data = ConsumerData(
            group_name="group",
            subscription_data_set=[
                SubscriptionData(topic=topic, sub_version=1) for topic in topics
            ],
            **more,
        )
        return self.consumers.register(data, channel)


def fake(channel: ClientChannel) -> FakeConnection:
    return cast(FakeConnection, channel.connection)


async def turn() -> None:
    await asyncio.sleep(0)


@pytest.fixture
async def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


async def test_members_are_told_when_one_joins_and_when_one_leaves(clients: Clients) -> None:
    one, two = clients.channel("one"), clients.channel("two")

    clients.consume(one, "topic")
    clients.consume(two, "topic")
    await turn()
    assert clients.consumers.client_ids("group") == ["one", "two"]
    assert fake(one).notified == ["group"]
    assert fake(two).notified == ["group"]

    clients.consumers.unregister("group", two.connection)
    await turn()
    assert clients.consumers.client_ids("group") == ["one"]
    assert fake(one).notified == ["group", "group"]
    assert fake(two).notified == ["group"]


async def test_a_heartbeat_that_changes_nothing_tells_nobody(clients: Clients) -> None:
    one = clients.channel("one")
    clients.consume(one, "topic")
    await turn()

    assert not clients.consume(one, "topic")
    await turn()

    assert fake(one).notified == ["group"]


async def test_another_set_of_topics_is_a_change_and_a_newer_version_is_not(
    clients: Clients,
) -> None:
    one = clients.channel("one")
    clients.consume(one, "topic")

    assert clients.consume(one, "topic", "more")
    assert clients.consume(one, "more")
    newer = ConsumerData(
        group_name="group",
        subscription_data_set=[SubscriptionData(topic="more", sub_version=2, sub_string="TagA")],
    )
    assert not clients.consumers.register(newer, one)

    subscription = clients.consumers.subscription("group", "more")
    assert subscription is not None
    assert subscription.data.sub_string == "TagA"
    assert clients.consumers.subscription("group", "topic") is None
    assert clients.consumers.groups_of_topic("more") == ["group"]


async def test_an_older_subscription_does_not_replace_a_newer_one(clients: Clients) -> None:
    one = clients.channel("one")
    for version, text in ((5, "TagA"), (4, "TagB")):
        data = SubscriptionData(topic="topic", sub_version=version, sub_string=text)
        clients.consumers.register(
            ConsumerData(group_name="group", subscription_data_set=[data]), one
        )

    subscription = clients.consumers.subscription("group", "topic")
    assert subscription is not None
    assert subscription.data.sub_string == "TagA"


async def test_broadcasting_consumers_share_nothing_and_are_not_told(clients: Clients) -> None:
    one = clients.channel("one")

    clients.consume(one, "topic", message_model="BROADCASTING")
    await turn()

    assert fake(one).notified == []


async def test_a_group_can_be_spared_notifications(clients: Clients) -> None:
    clients.groups.put(
        SubscriptionGroupConfig(group_name="group", notify_consumer_ids_changed_enable=False)
    )
    one = clients.channel("one")

    clients.consume(one, "topic")
    await turn()

    assert fake(one).notified == []
    await clients.groups.saved()


async def test_a_lost_connection_is_a_member_less(clients: Clients) -> None:
    one, two = clients.channel("one"), clients.channel("two")
    clients.consume(one, "topic")
    clients.consume(two, "topic")
    clients.producers.register("producers", two)
    await turn()

    clients.consumers.drop_connection(two.connection)
    clients.producers.drop_connection(two.connection)
    await turn()

    assert clients.consumers.client_ids("group") == ["one"]
    assert fake(one).notified == ["group", "group"]
    assert clients.producers.groups() == []
    assert clients.producers.find("two") is None


async def test_a_group_without_members_is_forgotten(clients: Clients) -> None:
    one = clients.channel("one")
    clients.consume(one, "topic")

    clients.consumers.drop_connection(one.connection)

    assert clients.consumers.find("group") is None
    assert clients.consumers.groups() == []


async def test_silent_clients_expire(clients: Clients) -> None:
    quiet, lively = clients.channel("quiet"), clients.channel("lively")
    for channel in (quiet, lively):
        clients.consume(channel, "topic")
        clients.producers.register("producers", channel)
    clients.clock.advance(120_000)
    clients.consume(lively, "topic")
    clients.producers.register("producers", lively)
    clients.clock.advance(1)

    assert clients.consumers.expire(120_000) == [quiet]
    assert clients.producers.expire(120_000) == [quiet]
    assert clients.consumers.client_ids("group") == ["lively"]
    assert clients.producers.channels("producers") == [lively]


async def test_a_client_with_two_connections_is_one_member(clients: Clients) -> None:
    old, new = clients.channel("one", 1), clients.channel("one", 2)

    clients.consume(old, "topic")
    clients.consume(new, "topic")
    clients.producers.register("producers", old)
    clients.producers.register("producers", new)
    assert clients.consumers.client_ids("group") == ["one"]
    clients.consumers.drop_connection(old.connection)
    clients.producers.drop_connection(old.connection)

    assert clients.consumers.channel("group", "one") is new
    assert clients.producers.find("one") is new


async def test_members_of_a_producer_group_take_turns(clients: Clients) -> None:
    channels = [clients.channel(name) for name in ("one", "two", "three")]
    for channel in channels:
        clients.producers.register("producers", channel)
    fake(channels[1]).is_closing = True

    asked = [clients.producers.next_channel("producers") for _ in range(4)]

    assert asked == [channels[0], channels[2], channels[0], channels[2]]
    assert clients.producers.next_channel("nobody") is None


async def test_what_pulls_said_is_remembered_for_a_while(clients: Clients) -> None:
    said = Subscription(SubscriptionData(topic="topic", sub_string="TagA"))
    clients.consumers.told_by_pull("group", said)

    assert clients.consumers.subscription("group", "topic") is said
    assert clients.consumers.told_before("group", "topic", "TagA", "TAG") is said
    assert clients.consumers.told_before("group", "topic", "TagB", "TAG") is None
    clients.clock.advance(600_001)
    clients.consumers.expire(120_000)
    assert clients.consumers.subscription("group", "topic") is None


async def test_a_filter_that_does_not_compile_is_remembered_as_such(clients: Clients) -> None:
    data = SubscriptionData(topic="topic", expression_type="SQL92", sub_string="a >", sub_version=1)
    clients.consumers.register(
        ConsumerData(group_name="group", subscription_data_set=[data]), clients.channel("one")
    )

    subscription = clients.consumers.subscription("group", "topic")
    assert subscription is not None
    assert subscription.error is not None


def test_an_expression_is_read_by_the_first_pull_and_not_by_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def filter_for(expression_type: str, text: str) -> None:
        read.append(text)

    monkeypatch.setattr(consumers, "filter_for", filter_for)
    group = consumers.ConsumerGroup("group")
    group.subscribe(
        SubscriptionData(topic=f"topic-{number}", sub_string="a > 5", expression_type="SQL92")
        for number in range(1_000)
    )
    assert read == []
    assert group.subscriptions["topic-7"].filter is None
    assert group.subscriptions["topic-7"].error is None
    assert read == ["a > 5"]


def test_a_client_of_many_groups_leaves_in_a_time_that_grows_with_them_alone() -> None:
    """Counted in steps: it used to be looked for in every group, once for each of its own."""
    steps = []
    for count in (500, 1_000):
        producers = ProducerTable(ManualClock())
        connection = cast(Connection, FakeConnection(1))
        channel = ClientChannel(connection, "client", 0, 0, 0)
        for number in range(count):
            producers.register(f"group-{number}", channel)
        calls = 0

        def note(*event: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(note)
        producers.drop_connection(connection)
        sys.setprofile(None)
        steps.append(calls)
        assert producers.groups() == []
        assert producers.find("client") is None
    assert steps[1] < 3 * steps[0]
