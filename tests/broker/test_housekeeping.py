"""What is looked at now and then: silent clients, and groups that are too far behind."""

from pathlib import Path
from typing import Any, cast

import pytest

from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.housekeeping import Housekeeping
from rocketq.broker.pop import OrderedQueues
from rocketq.broker.queue_locks import LOCK_LIFETIME_MS, QueueLocks
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import ManualClock
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Connection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketq.store import MessageInner, MessageStore, StoreConfig
from rocketq.store.queues.consume_queue import FILLER_SIZE, QueueEntry


class ClosableConnection:
    """The part of a connection that housekeeping uses."""

    peer = ("127.0.0.1", 1)
    is_closing = False

    def close(self) -> None:
        self.is_closing = True

    def call_oneway(self, command: object) -> None:
        pass


class House:
    """The tables, and the one who looks after them."""

    def __init__(self, folder: Path, store: Any, **options: Any) -> None:
        self.clock = ManualClock()
        live = LiveConfig(BrokerConfig(broker_name="broker-t", **options), StoreConfig())
        self.groups = SubscriptionGroups(live, folder / "groups.json", self.clock)
        self.offsets = ConsumerOffsets(folder / "offsets.json", self.clock)
        self.producers = ProducerTable(self.clock)
        self.consumers = ConsumerTable(live, self.groups, self.clock)
        self.locks = QueueLocks(self.clock)
        self.keeping = Housekeeping(
            *(live, self.groups, self.offsets, self.producers, self.consumers, self.locks),
            OrderedQueues(folder / "orders.json", self.clock),
            Topics(live, folder / "topics.json", self.clock),
            store,
        )

    def join(self, group: str) -> ClosableConnection:
        connection = ClosableConnection()
        channel = ClientChannel(cast(Connection, connection), "one", 0, 479, self.clock.now_ms())
        data = ConsumerData(
            group_name=group, subscription_data_set=[SubscriptionData(topic="topic")]
        )
        self.consumers.register(data, channel)
        self.producers.register(group, channel)
        return connection


async def test_a_client_that_fell_silent_is_disconnected(tmp_path: Path) -> None:
    house = House(tmp_path, store=None)
    connection = house.join("group")

    house.clock.advance(120_000)
    house.keeping.expire_clients()
    assert not connection.is_closing
    house.clock.advance(1)
    house.keeping.expire_clients()

    assert connection.is_closing
    assert house.consumers.groups() == []
    assert house.producers.groups() == []


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_group_that_is_too_far_behind_is_stopped(tmp_path: Path, enabled: bool) -> None:
    config = StoreConfig(
        store_path_root_dir=str(tmp_path / "store"),
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )
    async with MessageStore(config) as store:
        for _ in range(20):
            store.append(MessageInner(topic="topic", queue_id=0, body=b"x" * 1_000))
        house = House(
            tmp_path,
            store,
            disable_consume_if_consumer_read_slowly=enabled,
            consumer_fallbehind_threshold=10_000,
        )
        for group, offset in (("slow", 1), ("quick", 15)):
            house.groups.get_or_make(group)
            house.join(group)
            house.offsets.commit(group, "topic", 0, offset)

        house.keeping.protect()

    stopped = [
        name
        for name in house.groups
        if (each := house.groups.get(name)) and not each.consume_enable
    ]
    assert stopped == (["slow"] if enabled else [])
    await house.groups.saved()


async def test_a_filler_is_not_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands for a lost message, and says nothing about where that was."""
    config = StoreConfig(
        store_path_root_dir=str(tmp_path / "store"),
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )
    async with MessageStore(config) as store:
        for _ in range(20):
            store.append(MessageInner(topic="topic", queue_id=0, body=b"x" * 1_000))
        house = House(
            tmp_path,
            store,
            disable_consume_if_consumer_read_slowly=True,
            consumer_fallbehind_threshold=10_000,
        )
        house.groups.put(SubscriptionGroupConfig(group_name="unlucky"))
        house.join("unlucky")
        house.offsets.commit("unlucky", "topic", 0, 19)
        filler = QueueEntry(0, FILLER_SIZE, 0)
        monkeypatch.setattr(store, "entries", lambda *place: iter([filler]))

        house.keeping.protect()

    stored = house.groups.get("unlucky")
    assert stored is not None
    assert stored.consume_enable
    await house.groups.saved()


async def test_a_queue_that_is_being_mended_is_left_out(tmp_path: Path) -> None:
    config = StoreConfig(
        store_path_root_dir=str(tmp_path / "store"),
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )
    async with MessageStore(config) as store:
        for queue_id in range(2):
            for _ in range(20):
                store.append(MessageInner(topic="topic", queue_id=queue_id, body=b"x" * 1_000))
        house = House(
            tmp_path,
            store,
            disable_consume_if_consumer_read_slowly=True,
            consumer_fallbehind_threshold=10_000,
        )
        house.groups.put(SubscriptionGroupConfig(group_name="slow"))
        house.join("slow")
        for queue_id in range(2):
            house.offsets.commit("slow", "topic", queue_id, 1)
        damaged = store._queues.find("topic", 0)
        assert damaged is not None
        assert store._queues.suspect(damaged, 0)

        house.keeping.protect()

    stored = house.groups.get("slow")
    assert stored is not None
    assert not stored.consume_enable
    await house.groups.saved()


async def test_locks_nobody_renews_are_forgotten(tmp_path: Path) -> None:
    house = House(tmp_path, None)
    queues = [MessageQueue("topic", "broker-t", number) for number in range(100)]
    house.locks.lock("group", "one", queues)
    house.clock.advance(LOCK_LIFETIME_MS // 2)
    house.locks.lock("group", "one", queues[:1])
    house.clock.advance(LOCK_LIFETIME_MS // 2 + 1)

    house.keeping.look_around()

    assert len(house.locks) == 1
    assert house.locks.holder("group", queues[0]) == "one"
