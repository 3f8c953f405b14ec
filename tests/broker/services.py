"""The parts of a broker around a real store, without listeners: for tests of its services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.queue_locks import QueueLocks
from rocketq.broker.retry import RetryTopics
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.broker.timer import TimerMessages
from rocketq.broker.transaction import TransactionalMessages
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import Clock
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import encode_properties
from rocketq.store import MessageInner, MessageStore, StoreConfig
from rocketq.store.files.disk import Disk

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


@dataclass
class Services:
    """What `opened` puts together."""

    live: LiveConfig
    clock: Clock
    store: MessageStore
    writer: MessageWriter
    topics: Topics
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    producers: ProducerTable
    locks: QueueLocks
    stats: BrokerStats
    retries: RetryTopics
    scheduled: ScheduledMessages
    timers: TimerMessages
    transactions: TransactionalMessages

    def put(self, topic: str, body: bytes = b"body", queue_id: int = 0, **properties: str) -> int:
        """Store a message as a producer's; returns its place in the log."""
        result = self.writer.put(self.message(topic, body, queue_id, **properties))
        assert result.is_stored, result.status
        return result.physical_offset

    def message(
        self, topic: str, body: bytes = b"body", queue_id: int = 0, **properties: str
    ) -> MessageInner:
        return MessageInner(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=encode_properties(properties),
            born_timestamp=self.clock.now_ms(),
            born_host=HOST,
            store_host=HOST,
        )

    def read(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        """Everything in a queue."""
        found = []
        for offset in range(self.store.max_offset(topic, queue_id)):
            message = self.store.message_by_queue_offset(topic, queue_id, offset)
            assert message is not None, offset
            found.append(message)
        return found

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.read(topic, queue_id)]


def store_config(folder: Path, **settings: object) -> StoreConfig:
    """A store of small files."""
    sizes: dict[str, object] = {
        "store_path_root_dir": str(folder),
        "mapped_file_size_commit_log": 1_048_576,
        "mapped_file_size_consume_queue": 20_000,
        "max_hash_slot_num": 1_000,
        "max_index_num": 4_000,
    }
    return StoreConfig(**(sizes | settings))  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    folder: Path,
    clock: Clock,
    broker: BrokerConfig | None = None,
    store_settings: dict[str, object] | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[Services]:
    """Everything over the store in a folder; leaving closes it as a clean stop does."""
    settings = store_config(folder, **(store_settings or {}))
    config = broker or BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1")
    live = LiveConfig(config, settings, clock=clock)
    tables = folder / "config"
    topics = Topics(live, tables / "topics.json", clock)
    groups = SubscriptionGroups(live, tables / "subscriptionGroup.json", clock)
    offsets = ConsumerOffsets(tables / "consumerOffset.json", clock)
    producers = ProducerTable(clock)
    locks = QueueLocks(clock)
    stats = BrokerStats(live, clock)
    async with MessageStore(settings, clock=clock, disk=disk) as store:
        writer = MessageWriter(store)
        scheduled = ScheduledMessages(live, store, stats, tables / "delayOffset.json", clock)
        writer.add_transformation(scheduled.transform)
        timers = TimerMessages(live, store, stats, clock)
        writer.add_transformation(timers.transform)
        transactions = TransactionalMessages(live, topics, store, writer, offsets, producers, clock)
        for table in (topics, groups, offsets, scheduled):
            table.load()
        try:
            yield Services(
                live=live,
                clock=clock,
                store=store,
                writer=writer,
                topics=topics,
                groups=groups,
                offsets=offsets,
                producers=producers,
                locks=locks,
                stats=stats,
                retries=RetryTopics(topics, groups, locks, stats),
                scheduled=scheduled,
                timers=timers,
                transactions=transactions,
            )
        finally:
            for each in (topics, groups, offsets):
                await each.close()
