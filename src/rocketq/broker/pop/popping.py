"""Taking messages by pop: from which queues, from which offsets, and under which receipt.

One pop visits the queues of a topic until it has enough, beginning with a random one, and
looks into the group's retry topic first (one time in five) or last. From each queue:

    blocked?  ->  offset of the group  ->  read  ->  check point  ->  offset moves on

A check point is in the log before the answer goes out, or in the merge buffer, and then the
stored offset waits for it; if it cannot be written the messages stay where they are. All of
this is one turn of the loop, so no queue needs a lock. Between two queues others may have their
turn: a topic may have thousands of them.
"""

import logging
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketq.broker.config import LiveConfig
from rocketq.broker.pop.merge_buffer import MergeBuffer
from rocketq.broker.pop.ordered_queues import OrderedQueues
from rocketq.broker.pop.receipt import ORDERED_QUEUE
from rocketq.broker.pop.revive_log import CheckPoint, ReviveLog
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.common.loop.slices import Slices
from rocketq.common.numbers import parse_natural
from rocketq.filter import MessageFilter
from rocketq.message.names import is_retry_topic
from rocketq.message.pop_topics import RetryKind, real_topic, retry_topic_v1, retry_topic_v2
from rocketq.message.properties.codec import append_property, get_property
from rocketq.message.record.reader import decode_records
from rocketq.message.record.writer import new_record
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers.pop import Notification, PeekMessage, PopMessage
from rocketq.store import GetResult, GetStatus, MessageStore
from rocketq.store.log.cold_data import ColdRange

logger = logging.getLogger(__name__)

# Total size, then what lies between, then the offset in its queue: the head of a record.
_HEAD: Final = struct.Struct(">i16xq")
_GONE: Final = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)
_PASSED_OVER: Final = frozenset({GetStatus.NO_MATCHED_MESSAGE})


@dataclass(slots=True)
class PopAnswer:
    """What one pop found."""

    pop_time: int
    revive_queue: int
    buffers: list[bytes | memoryview] = field(default_factory=list)
    count: int = 0
    rest: int = 0
    starts: list[str] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    log_end: int = 0  # what must be safe before the answer goes out
    cold: ColdRange | None = None  # what a thread must fetch before more can be found
    free_at: int = 0  # when a blocked queue is free again


class Waiting(NamedTuple):
    """What a question whether there is something to pop is told."""

    has_messages: bool
    free_at: int = 0  # when a blocked queue is free again


class Popping:
    """Used by the processor of pops alone."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        store: MessageStore,
        revive_log: ReviveLog,
        buffer: MergeBuffer,
        ordered: OrderedQueues,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._revive_log = revive_log
        self._buffer = buffer
        self._ordered = ordered
        self._stats = stats
        self._clock = clock

    # One request

    def pop(
        self, asked: PopMessage, topic: TopicConfig, filter: MessageFilter | None
    ) -> Slices[PopAnswer]:
        answer = PopAnswer(
            pop_time=self._clock.now_ms(),
            revive_queue=ORDERED_QUEUE if asked.order else self._revive_log.next_queue(),
        )
        for kind, name, queue_id in self._route(asked, topic):
            if answer.count >= asked.max_msg_nums:
                break
            self._pop_queue(answer, asked, kind, name, queue_id, filter)
            yield
        return answer

    def _route(self, asked: PopMessage, topic: TopicConfig) -> Iterator[tuple[str, str, int]]:
        """The queues in the order in which they are visited: kind, topic, queue id."""
        config = self._live.broker
        chance = random.randrange(100)
        is_by_priority = self._is_by_priority(asked, topic, chance)
        retry_chance = (
            config.pop_from_retry_probability_for_priority
            if is_by_priority
            else config.pop_from_retry_probability
        )
        retries = [] if asked.order else list(self._retry_queues(asked, chance))
        if chance < retry_chance:
            yield from retries
        count = topic.read_queue_nums
        if asked.queue_id >= 0:
            yield RetryKind.NORMAL, asked.topic, asked.queue_id
        elif is_by_priority:
            for queue_id in reversed(range(count)):
                yield RetryKind.NORMAL, asked.topic, queue_id
        else:
            for step in range(count):
                queue_id = (count - 1 + chance - step) % count
                if not config.priority_order_asc:
                    queue_id = (chance + step) % count
                yield RetryKind.NORMAL, asked.topic, queue_id
        if chance >= retry_chance:
            yield from retries

    def _is_by_priority(self, asked: PopMessage, topic: TopicConfig, chance: int) -> bool:
        if asked.order or topic.attributes.get("message.type") != "PRIORITY":
            return False
        group = self._groups.get(asked.consumer_group)
        text = group.attributes.get("priority.factor", "100") if group is not None else "100"
        factor = parse_natural(text, 100)
        return chance < (100 if factor is None else factor)

    def _retry_queues(self, asked: PopMessage, chance: int) -> Iterator[tuple[str, str, int]]:
        config = self._live.broker
        kind = RetryKind.RETRY_V1
        if config.enable_retry_topic_v2 and not (
            config.retrieve_message_from_pop_retry_topic_v1 and chance % 2 == 0
        ):
            kind = RetryKind.RETRY_V2
        name = real_topic(asked.consumer_group, asked.topic, kind)
        topic = self._topics.get(name)
        for queue_id in range(topic.read_queue_nums if topic is not None else 0):
            yield kind, name, queue_id

    # One queue

    def _pop_queue(
        self,
        answer: PopAnswer,
        asked: PopMessage,
        kind: str,
        topic: str,
        queue_id: int,
        filter: MessageFilter | None,
    ) -> None:
        if not self._store.is_available(topic, queue_id):
            return
        group = asked.consumer_group
        if asked.order and self._ordered.is_blocked(topic, group, queue_id, asked.attempt_id):
            free_at = self._ordered.free_at(topic, group, queue_id)
            answer.free_at = min(answer.free_at or free_at, free_at)
            return
        offset = self._start(group, topic, queue_id, asked.init_mode)
        wanted = asked.max_msg_nums - answer.count
        end = self._store.max_offset(topic, queue_id)
        if self._store.has_cold_data and offset < end:
            cold = self._store.cold_range(topic, queue_id, offset, wanted)
            if cold is not None:
                answer.cold = cold
                answer.rest += end - offset
                return
        result = self._store.get(topic, queue_id, offset, wanted, 0, filter)
        if result.status in _GONE and result.next_offset != offset:
            # What it stood at is gone: on from where there is something.
            offset = result.next_offset
            self._buffer.forget(group, topic, queue_id)
            self._offsets.commit(group, topic, queue_id, offset, client="pop")
            result = self._store.get(topic, queue_id, offset, wanted, 0, filter)
        if result.status in _PASSED_OVER and result.next_offset > offset:
            self._buffer.move(group, topic, queue_id, result.next_offset)
        if result.message_count:
            self._take(answer, asked, kind, topic, queue_id, offset, result)
        else:
            answer.rest += max(result.max_offset - max(result.next_offset, offset), 0)

    def _take(
        self,
        answer: PopAnswer,
        asked: PopMessage,
        kind: str,
        topic: str,
        queue_id: int,
        start: int,
        result: GetResult,
    ) -> None:
        """Hide what was read, and put it into the answer."""
        group = asked.consumer_group
        offsets = list(_offsets_of(result.buffers))
        if asked.order:
            self._take_in_order(answer, asked, kind, topic, queue_id, start, offsets)
        elif not self._hide(answer, asked, topic, queue_id, start, offsets, result.next_offset):
            answer.rest += result.max_offset - start
            return
        self._stats.messages_got(group, topic, queue_id, result.message_count, result.size)
        if not asked.order:
            self._stats.check_point(group, topic)
        answer.starts.append(f"{kind} {queue_id} {start}")
        answer.offsets.append(f"{kind} {queue_id} {','.join(map(str, offsets))}")
        answer.count += result.message_count
        answer.rest += max(result.max_offset - result.next_offset, 0)
        if kind == RetryKind.NORMAL or self._live.broker.pop_response_return_actual_retry_topic:
            answer.buffers += result.buffers
        else:
            answer.buffers += self._as_of_their_topic(answer, asked, kind, queue_id, start, result)

    def _hide(
        self,
        answer: PopAnswer,
        asked: PopMessage,
        topic: str,
        queue_id: int,
        start: int,
        offsets: list[int],
        next_offset: int,
    ) -> bool:
        """Keep a check point, in memory or in the log; False if that failed."""
        check_point = CheckPoint(
            topic=topic,
            group=asked.consumer_group,
            queue_id=queue_id,
            start_offset=start,
            pop_time=answer.pop_time,
            invisible_time=asked.invisible_time,
            broker_name=self._live.broker.broker_name,
            distances=[offset - start for offset in offsets],
        )
        if self._buffer.add(check_point, answer.revive_queue, next_offset):
            return True
        result = self._revive_log.put_check_point(check_point, answer.revive_queue)
        if not result.is_stored:
            logger.warning("pop from %s/%d: %s", topic, queue_id, result.status.name)
            return False
        answer.log_end = max(answer.log_end, result.end)
        self._buffer.move(asked.consumer_group, topic, queue_id, next_offset)
        return True

    def _take_in_order(
        self,
        answer: PopAnswer,
        asked: PopMessage,
        kind: str,
        topic: str,
        queue_id: int,
        start: int,
        offsets: list[int],
    ) -> None:
        pop = self._ordered.popped(
            *(topic, asked.consumer_group, queue_id, answer.pop_time, asked.invisible_time),
            *(offsets, asked.attempt_id),
        )
        self._offsets.commit(asked.consumer_group, topic, queue_id, start, client="pop")
        for offset, times in pop.times.items():
            answer.order_counts.append(f"{kind} qo{queue_id}%{offset} {times}")
        lowest = min(pop.times.values()) if len(pop.times) == len(offsets) else 0
        answer.order_counts.append(f"{kind} {queue_id} {lowest}")

    def _as_of_their_topic(
        self,
        answer: PopAnswer,
        asked: PopMessage,
        kind: str,
        queue_id: int,
        start: int,
        result: GetResult,
    ) -> Iterator[bytes]:
        """Messages of a retry topic as the consumer knows them: of the topic it asked for."""
        broker_name = self._live.broker.broker_name
        for buffer in result.buffers:
            for message in decode_records(buffer):
                properties = message.raw_properties
                if get_property(properties, b"POP_CK") is None:
                    receipt = (
                        f"{start} {answer.pop_time} {asked.invisible_time} {answer.revive_queue} "
                        f"{kind} {broker_name} {queue_id} {message.queue_offset}"
                    )
                    properties = append_property(properties, b"POP_CK", receipt.encode())
                yield new_record(
                    asked.topic.encode(),
                    message.raw_body,
                    properties,
                    queue_id=message.queue_id,
                    flag=message.flag,
                    queue_offset=message.queue_offset,
                    physical_offset=message.physical_offset,
                    sys_flag=message.sys_flag,
                    born_timestamp=message.born_timestamp,
                    born_host=message.raw_born_host,
                    store_timestamp=message.store_timestamp,
                    store_host=message.raw_store_host,
                    reconsume_times=message.reconsume_times,
                    prepared_transaction_offset=message.prepared_transaction_offset,
                )

    def peek(self, asked: PeekMessage, topic: TopicConfig) -> Slices[PopAnswer]:
        """What a group would get next; nothing changes by it."""
        answer = PopAnswer(pop_time=self._clock.now_ms(), revive_queue=0)
        count = topic.read_queue_nums
        first = random.randrange(max(count, 1))
        queues = [(first + step) % count for step in range(count)]
        for queue_id in queues if asked.queue_id < 0 else [asked.queue_id]:
            wanted = asked.max_msg_nums - answer.count
            if wanted <= 0:
                break
            if not self._store.is_available(asked.topic, queue_id):
                continue
            offset = self._position(asked.consumer_group, asked.topic, queue_id)
            if offset < 0:
                offset = self._first(asked.topic, queue_id, init_mode=1)
            result = self._store.get(asked.topic, queue_id, offset, wanted)
            answer.buffers += result.buffers
            answer.count += result.message_count
            answer.rest += max(result.max_offset - result.next_offset, 0)
            yield
        return answer

    # Offsets

    def _start(self, group: str, topic: str, queue_id: int, init_mode: int) -> int:
        """Where a group goes on, or begins."""
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self._ordered.forget(topic, group, queue_id)
            self._buffer.forget(group, topic, queue_id)
            self._offsets.commit(group, topic, queue_id, reset, client="pop")
            return reset
        offset = self._position(group, topic, queue_id)
        if offset < 0:
            offset = self._first(topic, queue_id, init_mode)
            self._offsets.commit(group, topic, queue_id, offset, client="pop")
        return offset

    def _position(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset that was not popped; -1 for a group that is new here."""
        offset = self._offsets.query(group, topic, queue_id)
        ahead = self._buffer.next_offset(group, topic, queue_id)
        return offset if ahead is None else max(ahead, offset)

    def _first(self, topic: str, queue_id: int, init_mode: int) -> int:
        low = max(self._store.min_offset(topic, queue_id), 0)
        if init_mode == 0 or is_retry_topic(topic):
            return low
        is_in_memory = low == 0 and (
            not self._store.has_cold_data or self._store.cold_range(topic, queue_id, 0, 1) is None
        )
        if self._live.broker.init_pop_offset_by_check_msg_in_mem and is_in_memory:
            return 0
        return max(self._store.max_offset(topic, queue_id) - 1, 0)

    def waiting(
        self, asked: Notification, topic: TopicConfig, filter: MessageFilter | None
    ) -> Slices[Waiting]:
        """Whether there is anything a group could pop."""
        queues = range(topic.read_queue_nums) if asked.queue_id < 0 else (asked.queue_id,)
        free_at = 0
        for queue_id in queues:
            if asked.order and self._ordered.is_blocked(
                topic.topic_name, asked.consumer_group, queue_id, asked.attempt_id
            ):
                blocked_until = self._ordered.free_at(
                    topic.topic_name, asked.consumer_group, queue_id
                )
                free_at = min(free_at or blocked_until, blocked_until)
            elif self._has_next(asked.consumer_group, topic.topic_name, queue_id, filter):
                return Waiting(True)
            yield
        if asked.order:
            return Waiting(False, free_at)
        for name in self.retry_topics(asked.consumer_group, topic.topic_name):
            retry = self._topics.get(name)
            for queue_id in range(0 if retry is None else retry.read_queue_nums):
                if self._has_next(asked.consumer_group, name, queue_id, filter):
                    return Waiting(True)
                yield
        return Waiting(False)

    def _has_next(
        self, group: str, topic: str, queue_id: int, filter: MessageFilter | None
    ) -> bool:
        """Whether a queue holds a message for a group. Where many have to be looked at for
        that it is taken for granted; a pop will see."""
        if not self._store.is_available(topic, queue_id):
            return False
        offset = self._position(group, topic, queue_id)
        low = max(self._store.min_offset(topic, queue_id), 0)
        offset = low if offset < 0 else offset
        behind = self._store.max_offset(topic, queue_id) - offset
        config = self._live.broker
        if (
            behind <= 0
            or filter is None
            or not config.use_message_filter_for_notification
            or behind > config.max_message_filter_num_for_notification
            or (
                self._store.has_cold_data
                and self._store.cold_range(topic, queue_id, offset, 1) is not None
            )
        ):
            return behind > 0
        result = self._store.get(topic, queue_id, offset, 1, 0, filter)
        return result.message_count > 0 or result.next_offset < result.max_offset

    @staticmethod
    def retry_topics(group: str, topic: str) -> tuple[str, str]:
        """Where messages that were not acknowledged come back."""
        return retry_topic_v1(group, topic), retry_topic_v2(group, topic)


def _offsets_of(buffers: list[memoryview]) -> Iterator[int]:
    """The offsets of records one behind the other."""
    for buffer in buffers:
        at = 0
        while at < len(buffer):
            size, offset = _HEAD.unpack_from(buffer, at)
            yield offset
            at += size
