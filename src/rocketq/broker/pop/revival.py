"""Bringing back what was popped and not acknowledged.

Reads the revive log (`revive_log.py`) from where it stopped. Check points are kept until the
timer wheel has let out everything up to their time, acks for them included; then each message
that is still missing is stored in the group's retry topic, where it is popped again.

    revive queue   ck  ck  ack  ack  ck  ack | to come
                   ^ the first one that is open: what is committed ends before it

After a crash it begins there again: what was brought back since then comes twice, and nothing
is left out.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.pop.revive_log import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    CheckPointKey,
    ReviveLog,
    read_ack,
    read_check_point,
)
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.stored import stored_again
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.broker.timer import TimerMessages
from rocketq.common.service import asked_to_stop
from rocketq.message.message import MessageExt
from rocketq.message.names import is_retry_topic
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.message.properties.codec import get_property, set_property
from rocketq.store import MessageStore, PutStatus

logger = logging.getLogger(__name__)

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
_MESSAGES_A_TURN: Final = 256
_HOPELESS: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


@dataclass(slots=True)
class _Open:
    """A check point that was read and is not done."""

    offset: int
    check_point: CheckPoint


@dataclass(slots=True)
class _ReviveQueue:
    """How far one queue of the revive log has been read."""

    queue_id: int
    cursor: int
    open: dict[CheckPointKey, _Open] = field(default_factory=dict)

    @property
    def committed(self) -> int:
        """The last record before the first that is still open."""
        return min((each.offset for each in self.open.values()), default=self.cursor) - 1


class Revival:
    """Runs on the broker that delivers timers; changes its own state on the event loop."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        store: MessageStore,
        revive_log: ReviveLog,
        timers: TimerMessages,
        stats: BrokerStats,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._revive_log = revive_log
        self._timers = timers
        self._stats = stats
        self._queues: dict[int, _ReviveQueue] = {}

    async def run(self, stop: asyncio.Event) -> None:
        period_s = self._live.broker.revive_interval / 1000
        while not await asked_to_stop(stop, within_s=period_s):
            if not self._timers.is_delivering:
                self._queues = {}  # whoever delivers reads on; here it is read again later
                continue
            try:
                while self.turn() and not await asked_to_stop(stop, within_s=0):
                    pass
            except Exception:
                logger.exception("reviving goes on in %.1f s", period_s)

    def _begin(self, queue_id: int) -> _ReviveQueue:
        """Go on in a queue where the last broker to do this has stopped."""
        topic = self._revive_log.topic
        committed = self._offsets.query(REVIVE_GROUP, topic, queue_id)
        low = max(self._store.min_offset(topic, queue_id), 0)
        cursor = min(max(committed + 1, low), self._store.max_offset(topic, queue_id))
        queue = self._queues[queue_id] = _ReviveQueue(queue_id, cursor)
        return queue

    def turn(self) -> bool:
        """Read and revive some; true if there is more to do now."""
        left = _MESSAGES_A_TURN
        for queue_id in range(self._revive_log.queues):
            if not self._store.is_available(self._revive_log.topic, queue_id):
                continue
            queue = self._queues.get(queue_id) or self._begin(queue_id)
            left = self._read(queue, left)
            if left > 0:
                left = self._revive_due(queue, left)
            self._offsets.commit(
                REVIVE_GROUP, self._revive_log.topic, queue.queue_id, queue.committed, client="pop"
            )
            if left <= 0:
                return True
        return False

    # Reading

    def _read(self, queue: _ReviveQueue, left: int) -> int:
        topic = self._revive_log.topic
        end = self._store.max_offset(topic, queue.queue_id)
        while left > 0 and queue.cursor < end:
            message = self._store.message_by_queue_offset(topic, queue.queue_id, queue.cursor)
            if message is not None:
                self._note(queue, message)
            queue.cursor += 1
            left -= 1
        return left

    def _note(self, queue: _ReviveQueue, message: MessageExt) -> None:
        tag, body = message.tags, bytes(message.raw_body)
        if tag == CHECK_POINT_TAG:
            check_point = read_check_point(body)
            if check_point is not None:
                queue.open.setdefault(check_point.key, _Open(queue.cursor, check_point))
                return
        elif tag in (ACK_TAG, BATCH_ACK_TAG):
            ack = read_ack(body)
            if ack is not None:
                found = queue.open.get(ack.key)
                if found is not None:
                    for offset in ack.offsets:
                        found.check_point.acknowledge(offset)
                return
        logger.warning("revive queue %d: no record at %d", queue.queue_id, queue.cursor)

    # Reviving

    def _revive_due(self, queue: _ReviveQueue, left: int) -> int:
        if queue.cursor < self._store.max_offset(self._revive_log.topic, queue.queue_id):
            return left
        delivered_until_ms = self._timers.delivered_until_ms
        for key, found in list(queue.open.items()):
            if left <= 0:
                break
            check_point = found.check_point
            if check_point.revive_time >= delivered_until_ms:
                continue  # acks for it may still be on their way
            if not self._store.is_available(check_point.topic, check_point.queue_id):
                continue
            for offset in check_point.missing():
                left -= 1
                if not self._revive(check_point, offset):
                    return left  # the store takes nothing: again from here
                check_point.acknowledge(offset)
                if left <= 0:
                    break
            if not check_point.missing():
                del queue.open[key]
        return left

    def _revive(self, check_point: CheckPoint, offset: int) -> bool:
        """Store one message again for its group; False when that has to be tried again."""
        topic, group = check_point.topic, check_point.group
        if topic not in self._topics or group not in self._groups:
            return True
        stored = self._store.message_by_queue_offset(topic, check_point.queue_id, offset)
        if stored is None:
            logger.warning("nothing at %s/%d/%d to revive", topic, check_point.queue_id, offset)
            return True
        retry_topic = self._retry_topic(check_point)
        message = stored_again(stored)
        message.born_host = message.store_host
        if not check_point.suspended:
            message.reconsume_times += 1
        properties = message.properties
        if get_property(properties, b"1ST_POP_TIME") is None:
            properties = set_property(properties, b"1ST_POP_TIME", b"%d" % check_point.pop_time)
        message.properties = set_property(properties, b"ORIGIN_GROUP", group.encode())
        message.move_to(retry_topic, 0)
        result = self._store.append(message)
        if result.is_stored:
            self._stats.messages_put(retry_topic, 0, 1, result.size)
            return True
        logger.warning("reviving for %s: %s", group, result.status.name)
        return result.status in _HOPELESS

    def _retry_topic(self, check_point: CheckPoint) -> str:
        if is_retry_topic(check_point.topic):
            return check_point.topic
        named = retry_topic_v2 if self._live.broker.enable_retry_topic_v2 else retry_topic_v1
        topic = named(check_point.group, check_point.topic)
        if topic not in self._topics:
            self._topics.ensure(topic, 1)
            if self._offsets.query(check_point.group, topic, 0) < 0:
                self._offsets.commit(check_point.group, topic, 0, 0, client="pop")
        return topic
