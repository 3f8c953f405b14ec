"""Groups, their progress and their messages, with real producers and consumers."""

from collections.abc import Callable

import pytest

from rocketq.admin import groups, messages, offsets, topics
from rocketq.admin.messages import TrackType
from rocketq.aio import Message, Producer, PushConsumer
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.testing import LocalBroker
from tests.waiting import eventually

NewName = Callable[[str], str]


async def filled(
    api: BrokerApi, broker: LocalBroker, topic: str, count: int = 5, *, tags: str = "A"
) -> str:
    """A topic of one queue with messages in it."""
    config = TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1)
    await topics.create(api, config, [broker.address])
    async with Producer("test-admin", namesrv=broker.namesrv) as producer:
        for number in range(count):
            body = f"body {number}".encode()
            await producer.send(Message(topic, body, tags=tags, keys=f"key-{number}"))
    return topic


async def test_a_group_is_made_seen_and_deleted(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    group = new_name("group")
    config = SubscriptionGroupConfig(group_name=group, retry_max_times=3)
    await groups.create(api, config, [broker.address])
    (found,) = await groups.configs(api, group)
    assert (found.broker_name, found.config.retry_max_times) == ("broker-a", 3)

    assert await groups.delete(
        api, group, broker=broker.address, cluster=None, with_offsets=True
    ) == [broker.address]
    assert await groups.configs(api, group) == []


async def test_messages_are_found_by_every_id_they_have(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"))

    (by_key,) = await messages.by_key(api, topic, "key-3")
    assert by_key.body == b"body 3"
    unique_id = by_key.msg_id
    (by_unique,) = await messages.by_unique_key(api, topic, unique_id)
    by_id = await messages.by_id(api, topic, unique_id)
    by_place = await messages.by_id(api, topic, by_key.offset_msg_id)
    by_offset = await messages.by_offset(api, topic, "broker-a", 0, 3)
    for found in (by_unique, by_id, by_place, by_offset):
        assert found is not None
        assert found.body == b"body 3"

    assert await messages.by_id(api, topic, "0" * 32) is None
    assert await messages.by_offset(api, topic, "broker-a", 0, 99) is None
    assert await messages.by_key(api, topic, "no such key") == []


async def test_a_queue_is_read_from_end_to_end(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"), count=70)
    (part,) = await messages.ranges(api, topic)
    assert (part.begin, part.end) == (0, 70)
    bodies = [m.body async for pulled in messages.read(api, part) for m in pulled.messages]
    assert bodies == [f"body {number}".encode() for number in range(70)]

    other = [pulled async for pulled in messages.read(api, part, tags="B")]
    assert not [m for pulled in other for m in pulled.messages]
    assert "NO_MATCHED_MSG" in {pulled.status for pulled in other}


async def test_entries_of_a_queue_are_shown(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"), count=3)
    view = await messages.queue_entries(api, broker.address, topic, 0, 1, 10)
    assert (view.min_queue_index, view.max_queue_index, len(view.queue_data)) == (0, 3, 2)


async def test_a_group_is_followed_from_its_first_message_to_its_reset(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"))
    group = new_name("group")
    queue = MessageQueue(topic, "broker-a", 0)
    seen: list[bytes] = []

    def listen(message: Message) -> None:
        seen.append(message.body)

    async with PushConsumer(
        group,
        namesrv=broker.namesrv,
        topics={topic: "*"},
        consume_from="first",
        listener=listen,
        persist_interval_s=0.05,
    ):

        async def is_consumed() -> bool:
            stats = await groups.progress_of(api, group, topic)
            offset = stats.offset_table.get(queue)
            return offset is not None and offset.consumer_offset == 5

        await eventually(is_consumed)

        connection = await groups.consumer_connection(api, group)
        assert connection.consume_type == "CONSUME_PASSIVELY"
        assert set(connection.subscription_table) >= {topic}
        progress = {each.group: each for each in await groups.progress(api)}
        assert progress[group].connection is not None
        assert progress[group].behind == 0
        assert group in await topics.groups_of(api, topic)
        clients = await groups.clients_by_queue(api, group)
        assert queue in clients

        message = await messages.by_offset(api, topic, "broker-a", 0, 2)
        assert message is not None
        (track,) = await messages.track(api, message)
        assert (track.group, track.kind) == (group, TrackType.CONSUMED)
        (client,) = connection.connection_set
        result = await messages.consume_directly(api, message, group, client.client_id)
        assert result.consume_result == "CR_SUCCESS"
        assert seen.count(b"body 2") == 2

    with pytest.raises(BrokerRejected) as refusal:
        await groups.consumer_connection(api, group)
    assert groups.is_offline(refusal.value)
    (track,) = await messages.track(api, message)
    assert track.kind is TrackType.NOT_ONLINE

    reset = await offsets.reset_to_time(api, group, topic, 0)
    assert reset.offsets == {queue: 0}
    stats = await groups.progress_of(api, group, topic)
    assert groups.total_behind(stats) == 5
    assert (
        await offsets.reset_queue(api, broker.address, group, queue, timestamp_ms=0, offset=2) == 2
    )
    assert groups.total_behind(await groups.progress_of(api, group, topic)) == 3
    skipped = await offsets.skip(api, group, topic)
    assert skipped.offsets == {queue: 5}

    copy = new_name("group")
    await offsets.clone(api, group, copy, topic, offline=True)
    assert await api.query_offset(broker.address, copy, queue) == 5


async def test_producers_of_a_group_are_listed(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"), count=1)
    group = new_name("producers")
    async with Producer(group, namesrv=broker.namesrv) as producer:
        await producer.send(Message(topic, b"x"))

        async def is_known() -> bool:
            return group in (await groups.producers(api, broker.address)).data

        await eventually(is_known)
        found = await groups.producer_connection(api, group, topic)
        assert [each.client_id for each in found.connection_set] == [producer.client_id]


async def test_traffic_tells_who_reads_a_topic(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    topic = await filled(api, broker, new_name("topic"))
    (row,) = await topics.traffic(api, only=topic)
    assert (row.topic, row.group, row.accumulation) == (topic, None, 0)
    assert await topics.traffic(api, only=new_name("no-such-topic")) == []
    assert topic in {use.topic for use in await topics.uses(api)}


async def test_a_group_that_commits_without_pulling_has_nothing_under_way(
    api: BrokerApi, broker: LocalBroker, new_name: NewName
) -> None:
    """As a Spark query does, which reads by itself and reports how far it is."""
    topic, group = await filled(api, broker, new_name("topic")), new_name("group")
    queue = MessageQueue(topic, "broker-a", 0)
    await groups.create(api, SubscriptionGroupConfig(group_name=group), [broker.address])
    await api.update_offset(broker.address, group, queue, 3, oneway=False)
    position = (await api.consume_stats(broker.address, group, topic=topic)).offset_table[queue]
    assert (position.consumer_offset, position.pull_offset) == (3, 3)
