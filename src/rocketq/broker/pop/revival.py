"""Bringing back what was popped and not acknowledged.

Reads the revive log (`revive_log.py`) from where it stopped. Check points are kept until the
timer wheel has let out everything up to their time, acks for them included; then each message
that is still missing is stored in the group's retry topic, where it is popped again.

    revive queue   ck  ck  ack  ack  ck  ack | to come
                   ^ the first one that is open: what is committed ends before it

Records come out of the wheel in the order of their ticks. So the acks of a check point have
all been read when the queue is read to its end and the wheel has passed their time, and also
when a record of a later time has been read: a long queue is not kept in memory as a whole.

After a crash it begins there again: what was brought back since then comes twice, and nothing
is left out.
"""

import asyncio
import heapq
import logging
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.pop.revive_log import (
    ACK_KIND,
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_KIND,
    CHECK_POINT_TAG,
    Ack,
    CheckPoint,
    CheckPointKey,
    ReviveLog,
    read_ack,
    read_check_point,
)
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.broker.timer import TimerMessages
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.numbers import parse_natural
from rocketq.message.message import MessageExt
from rocketq.message.names import is_retry_topic
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.message.properties.codec import get_property, set_property
from rocketq.store import MessageStore, PutStatus
from rocketq.store.message_inner import stored_again

logger = logging.getLogger(__name__)

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
_MESSAGES_A_TURN: Final = 256
_LATER_MS: Final = 2_000
"""How much later the time of a record must be, to be of a later tick on any broker."""
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
    open: OrderedDict[CheckPointKey, _Open] = field(default_factory=OrderedDict)
    # The same by the time of their revival, with those that are no longer open.
    by_time: list[tuple[int, int, CheckPointKey]] = field(default_factory=list)
    latest_ms: int = 0  # of the ticks of the records that were read

    @property
    def committed(self) -> int:
        """The last record before the first that is still open."""
        first = next(iter(self.open.values()), None)
        return (self.cursor if first is None else first.offset) - 1

    def put(self, check_point: CheckPoint) -> None:
        key = check_point.key
        if key not in self.open and not check_point.is_acknowledged:
            self.open[key] = _Open(self.cursor, check_point)
            heapq.heappush(self.by_time, (check_point.revive_time, self.cursor, key))

    def acknowledge(self, ack: Ack) -> None:
        found = self.open.get(ack.key)
        if found is not None:
            for offset in ack.offsets:
                found.check_point.acknowledge(offset)
            if found.check_point.is_acknowledged:
                del self.open[ack.key]

    def first_before(self, time_ms: int) -> CheckPoint | None:
        """The first to be revived, if its time is before this."""
        while self.by_time and self.by_time[0][0] < time_ms:
            _, offset, key = self.by_time[0]
            found = self.open.get(key)
            if found is not None and found.offset == offset:
                return found.check_point
            heapq.heappop(self.by_time)
        return None

    def done(self, check_point: CheckPoint) -> None:
        del self.open[check_point.key]
        heapq.heappop(self.by_time)


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
        self.read: Counter[tuple[str, str, int, str]] = Counter()
        """Records since the start: by group, topic, revive queue and kind."""

    async def run(self, stop: asyncio.Event) -> None:
        period_s = self._live.broker.revive_interval / 1000
        self._queues = {}  # another may have gone on with them since
        while not await asked_to_stop(stop, within_s=period_s):
            if not self._timers.is_delivering:
                self._queues = {}  # whoever delivers reads on; here it is read again later
                continue
            try:
                while self.turn() and not await asked_to_stop(stop, within_s=0):
                    pass
            except Exception:
                logger.exception("reviving goes on in %.1f s", period_s)

    @property
    def open_count(self) -> int:
        """Check points that were read and are not done."""
        return sum(len(queue.open) for queue in self._queues.values())

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
            left = self._revive_due(queue, left)  # first, so that no more are open than must be
            left = self._read(queue, left)
            left = self._revive_due(queue, left)
            self._offsets.commit(
                REVIVE_GROUP, self._revive_log.topic, queue.queue_id, queue.committed, client="pop"
            )
            if left <= 0:
                return True
        return False

    # What operators see

    def behind(self, queue_id: int) -> tuple[int, int]:
        """Records of a revive queue not dealt with, and how many ms ago the first was due."""
        topic = self._revive_log.topic
        queue = self._queues.get(queue_id)
        if queue is None or not self._store.is_available(topic, queue_id):
            return 0, 0
        lag = max(self._store.max_offset(topic, queue_id) - queue.committed - 1, 0)
        due_ms = queue.by_time[0][0] if queue.by_time else 0
        late_ms = max(self._timers.delivered_until_ms - due_ms, 0) if due_ms else 0
        return lag, late_ms

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
        tick_ms = parse_natural(get_property(message.raw_properties, b"TIMER_OUT_MS"))
        queue.latest_ms = max(queue.latest_ms, tick_ms or 0)
        if tag == CHECK_POINT_TAG:
            check_point = read_check_point(body)
            if check_point is not None:
                queue.put(check_point)
                self._count(queue, check_point.group, check_point.topic, CHECK_POINT_KIND)
                return
        elif tag in (ACK_TAG, BATCH_ACK_TAG):
            ack = read_ack(body)
            if ack is not None:
                queue.acknowledge(ack)
                topic, group, *_ = ack.key
                self._count(queue, group, topic, ACK_KIND)
                return
        logger.warning("revive queue %d: no record at %d", queue.queue_id, queue.cursor)

    def _count(self, queue: _ReviveQueue, group: str, topic: str, kind: str) -> None:
        self.read[group, topic, queue.queue_id, kind] += 1

    # Reviving

    def _revive_due(self, queue: _ReviveQueue, left: int) -> int:
        """Bring back what is due and can be read now."""
        due_ms = queue.latest_ms - _LATER_MS
        if queue.cursor >= self._store.max_offset(self._revive_log.topic, queue.queue_id):
            due_ms = max(due_ms, self._timers.delivered_until_ms)
        later = []
        while left > 0 and (check_point := queue.first_before(due_ms)) is not None:
            if not self._store.is_available(check_point.topic, check_point.queue_id):
                later.append(heapq.heappop(queue.by_time))
                left -= 1
                continue
            left -= max(self._revive_missing(check_point, left), 1)
            if not check_point.is_acknowledged:
                break  # enough for this turn, or the store takes nothing
            queue.done(check_point)
        for each in later:
            heapq.heappush(queue.by_time, each)
        return left

    def _revive_missing(self, check_point: CheckPoint, at_most: int) -> int:
        """Bring back messages that nobody has acknowledged; returns how many."""
        missing = check_point.missing()[:at_most]
        for count, offset in enumerate(missing):
            if not self._revive(check_point, offset):
                return count
            check_point.acknowledge(offset)
        return len(missing)

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
            self._stats.message_revived(group, topic)
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
