"""What has to be looked at now and then: clients that fell silent, groups that fell behind."""

import asyncio
import logging
from typing import Final

from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.pop.ordered_queues import OrderedQueues
from rocketq.broker.queue_locks import QueueLocks
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.loop.service import asked_to_stop
from rocketq.store import MessageStore

logger = logging.getLogger(__name__)

_PERIOD_S: Final = 10.0
_ROUNDS_BETWEEN_PROTECTIONS: Final = 18


class Housekeeping:
    """One slow loop for everything that is not urgent."""

    def __init__(
        self,
        live: LiveConfig,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        producers: ProducerTable,
        consumers: ConsumerTable,
        locks: QueueLocks,
        ordered: OrderedQueues,
        topics: Topics,
        store: MessageStore,
    ) -> None:
        self._live = live
        self._groups = groups
        self._offsets = offsets
        self._producers = producers
        self._consumers = consumers
        self._locks = locks
        self._ordered = ordered
        self._all_topics = topics
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        rounds = 0
        while not await asked_to_stop(stop, within_s=_PERIOD_S):
            rounds += 1
            try:
                self.look_around()
                if rounds % _ROUNDS_BETWEEN_PROTECTIONS == 0:
                    self.protect()
                    self.expire_orders()
            except Exception:
                # Nothing that clients said is worth stopping the broker for.
                logger.exception("something was not looked at; the next time is in 10 s")

    def look_around(self) -> None:
        """What is done in every round."""
        self.expire_clients()
        self._locks.forget_expired()

    def expire_clients(self) -> None:
        """Forget and disconnect clients whose heartbeats have stopped."""
        silence_ms = self._live.broker.channel_expired_timeout
        expired = self._consumers.expire(silence_ms) + self._producers.expire(silence_ms)
        for channel in expired:
            logger.warning("no heartbeat from %s, closing its connection", channel)
            channel.connection.close()

    def expire_orders(self) -> None:
        """Forget how far ordered pops have come that nobody goes on with."""
        self._ordered.expire(
            lambda topic, group: topic in self._all_topics and group in self._groups
        )

    def protect(self) -> None:
        """Stop groups that are so far behind that reading for them would hurt everybody."""
        config = self._live.broker
        if not config.disable_consume_if_consumer_read_slowly:
            return
        for group in self._consumers.groups():
            behind = max(
                (self._bytes_behind(group, topic) for topic in self._topics(group)), default=0
            )
            if behind > config.consumer_fallbehind_threshold:
                logger.warning(
                    "group %s is %d bytes behind and may not consume any more", group, behind
                )
                self._groups.disable_consume(group)

    def _topics(self, group: str) -> list[str]:
        return self._offsets.topics_of(group)

    def _bytes_behind(self, group: str, topic: str) -> int:
        """How much has been stored since the oldest message the group has not consumed."""
        end = self._store.max_physical_offset
        behind = 0
        for queue_id, offset in self._offsets.stored(group, topic).items():
            if not self._store.is_available(topic, queue_id):
                continue  # nobody can read it at the moment
            for entry in self._store.entries(topic, queue_id, offset, 1):
                if not entry.is_filler:
                    behind = max(behind, end - entry.position)
        return behind


class OffsetSaving:
    """Writes how far consumers have come every few seconds, if there is anything new."""

    def __init__(self, live: LiveConfig, offsets: ConsumerOffsets, ordered: OrderedQueues) -> None:
        self._live = live
        self._offsets = offsets
        self._ordered = ordered

    async def run(self, stop: asyncio.Event) -> None:
        while not await asked_to_stop(stop, within_s=self._period_s):
            self._offsets.save()
            self._ordered.save()

    @property
    def _period_s(self) -> float:
        return self._live.broker.flush_consumer_offset_interval / 1000
