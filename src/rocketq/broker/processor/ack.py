"""Acknowledgements of popped messages, and more or less time for them."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketq.broker import remarks
from rocketq.broker.config import LiveConfig
from rocketq.broker.pop import HeldPops, MergeBuffer, OrderedQueues, Receipt, ReviveLog
from rocketq.broker.pop.held_pops import ALL_QUEUES
from rocketq.broker.pop.ordered_queues import NOT_THERE, OTHER_POP
from rocketq.broker.pop.receipt import ORDERED_QUEUE
from rocketq.broker.pop.revive_log import MOST_MESSAGES, CheckPoint, CheckPointKey
from rocketq.broker.processor.send import check_stored
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.common.loop.slices import Slices, at_once
from rocketq.common.loop.turns import Turns
from rocketq.common.numbers import INT64_MAX, parse_natural
from rocketq.message.pop_topics import RetryKind, real_topic
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
    RunHandler,
)
from rocketq.remoting.bodies.assignment import BatchAck, BatchAckRequest
from rocketq.remoting.headers.pop import (
    AckMessage,
    BatchAckMessageResponse,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
)
from rocketq.remoting.link.handling import refusal
from rocketq.store import AppendResult, MessageStore, PutStatus
from rocketq.store.errors import QueueUnavailable

Outcome = asyncio.Future[PutStatus] | Exception | None
"""What became of acks: they are noted, they will be safe, or they are refused."""


_SAME_MOMENT_MS: Final = 1_000
"""So far ahead a chain of changes may run; a receipt further ahead is of another clock."""


_WIDEST_POP: Final = 4_096
"""Bytes of a bit set; messages that a pop finds further behind its first are acknowledged alone."""
_SMALL_BODY: Final = 4 * 1024
"""Of a batch that is noted at once; a consumer's is not larger, as a rule."""


@dataclass(slots=True)
class _AckedPop:
    """Acks of a run that belong to one pop from one queue."""

    key: CheckPointKey
    revive_queue: int
    revive_time: int
    low: int
    high: int
    offsets: list[int] = field(default_factory=list)
    requests: list[Command] = field(default_factory=list)


class _Noted(NamedTuple):
    """What became of the acks of one pop in a batch."""

    record: AppendResult | None
    passed_over: int


class AckProcessor:
    """Writes acks and new check points; moves the offsets of ordered queues."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        offsets: ConsumerOffsets,
        store: MessageStore,
        revive_log: ReviveLog,
        buffer: MergeBuffer,
        ordered: OrderedQueues,
        held: Sequence[HeldPops],
        stats: BrokerStats,
        turns: Turns,
        clock: Clock,
    ) -> None:
        self._live = live
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._revive_log = revive_log
        self._buffer = buffer
        self._ordered = ordered
        self._held = held
        self._stats = stats
        self._turns = turns
        self._clock = clock

    def handlers(self) -> Handlers:
        return {
            RequestCode.ACK_MESSAGE: RunHandler(self._ack_run),
            RequestCode.BATCH_ACK_MESSAGE: self._batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

    # A run of acks

    def _ack_run(self, requests: list[Command], connection: Connection) -> list[Command]:
        """Acks that came together; those of one pop become one record.

        A client acknowledges the messages of a pop one by one, and their receipts differ in
        the last word only. Whatever is not as it should be goes the long way, which says why.
        """
        replies: list[Command] = []
        pops: dict[tuple[str, ...], _AckedPop] = {}
        for request in requests:
            fields = request.ext_fields
            receipt, _, _ = fields.get("extraInfo", "").rpartition(" ")
            who = (
                *(receipt, fields.get("consumerGroup", "")),
                *(fields.get("topic", ""), fields.get("queueId", "")),
            )
            is_lite = "liteTopic" in fields
            pop = None if is_lite else pops.get(who)
            if pop is None and not is_lite:
                pop = self._pop_of(request, receipt)
                if pop is not None:
                    pops[who] = pop
            offset = parse_natural(fields.get("offset"))
            if pop is None or offset is None or not pop.low <= offset <= pop.high:
                self._answer(connection, [request], self._ack_alone(request, connection), replies)
                continue
            pop.offsets.append(offset)
            pop.requests.append(request)
        for pop in pops.values():
            self._answer(connection, pop.requests, self._ack_pop(pop, connection), replies)
        return replies

    def _pop_of(self, request: Command, receipt: str) -> "_AckedPop | None":
        """What a request belongs to; None for those that go the long way."""
        if receipt.count(" ") < 5:
            return None
        try:
            asked = request.header(AckMessage)
            parsed = Receipt.parse(asked.extra_info, self._revive_log.queues)
            self._check(asked.topic, asked.queue_id, asked.offset)
        except RocketqError:
            return None
        if parsed.is_ordered:
            return None
        topic = self._real_topic(asked.consumer_group, asked.topic, parsed.retry_kind)
        return _AckedPop(
            key=_key(topic, asked.consumer_group, asked.queue_id, parsed),
            revive_queue=parsed.revive_queue,
            revive_time=parsed.revive_time,
            low=self._store.min_offset(asked.topic, asked.queue_id),
            high=self._store.max_offset(asked.topic, asked.queue_id),
        )

    def _ack_pop(self, pop: "_AckedPop", connection: Connection) -> Outcome:
        """Note the acks of one pop."""
        try:
            topic, group = pop.key[:2]
            self._stats.acknowledged(group, topic, len(pop.offsets))
            if self._buffer.acknowledge(pop.key, pop.offsets):
                return None
            result = None
            for start in range(0, len(pop.offsets), MOST_MESSAGES):
                result = self._revive_log.put_ack(
                    pop.key,
                    pop.offsets[start : start + MOST_MESSAGES],
                    pop.revive_queue,
                    pop.revive_time,
                )
                check_stored(result)
            return self._store.durable(result.end) if result is not None else None
        except Exception as error:
            return error

    def _ack_alone(self, request: Command, connection: Connection) -> Outcome:
        try:
            return self._ack(request)
        except Exception as error:
            return error

    def _answer(
        self,
        connection: Connection,
        requests: list[Command],
        outcome: Outcome,
        replies: list[Command],
    ) -> None:
        """Answer requests at once, or when what they wrote is safe."""
        if isinstance(outcome, Exception):
            peer = connection.peer_address
            answers = [refusal(request, outcome, peer) for request in requests]
        else:
            answers = [request.reply() for request in requests]
        if isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(lambda _: connection.send_all(answers))
        else:
            replies += answers

    # One message

    def _ack(self, request: Command) -> Outcome:
        asked = request.header(AckMessage)
        _refuse_lite(asked.lite_topic)
        receipt = Receipt.parse(asked.extra_info, self._revive_log.queues)
        self._check(asked.topic, asked.queue_id, asked.offset)
        if receipt.is_ordered:
            self._ack_in_order(asked, receipt.pop_time)
            return None
        topic = self._real_topic(asked.consumer_group, asked.topic, receipt.retry_kind)
        self._stats.acknowledged(asked.consumer_group, topic, 1)
        key = _key(topic, asked.consumer_group, asked.queue_id, receipt)
        if self._buffer.acknowledge(key, [asked.offset]):
            return None
        result = self._revive_log.put_ack(
            key, [asked.offset], receipt.revive_queue, receipt.revive_time
        )
        check_stored(result)
        return self._store.durable(result.end)

    def _check(self, topic_name: str, queue_id: int, offset: int, *, end_allowed: int = 1) -> None:
        topic = self._topics.get(topic_name)
        if topic is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, remarks.topic_missing(topic_name))
        if not 0 <= queue_id < topic.read_queue_nums:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
            )
        low = self._store.min_offset(topic_name, queue_id)
        high = self._store.max_offset(topic_name, queue_id)
        if not low <= offset < high + end_allowed:
            raise RequestRejected(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic_name}@{queue_id}, commit:{offset}, "
                f"store:{low}~{high}",
            )

    @staticmethod
    def _real_topic(group: str, topic: str, kind: str) -> str:
        """Clients name the topic that holds the message; those that do not are helped."""
        wanted = real_topic(group, topic, kind)
        is_there = kind == RetryKind.NORMAL or topic == wanted or topic.startswith("%RETRY%")
        return topic if is_there else wanted

    def _ack_in_order(self, asked: AckMessage, pop_time: int) -> None:
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        if asked.offset < self._offsets.query(group, topic, queue_id):
            return
        next_offset = self._ordered.acknowledge(topic, group, queue_id, asked.offset, pop_time)
        if next_offset == NOT_THERE:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}, old:{asked.offset}",
            )
        if next_offset == OTHER_POP:
            return
        if not self._offsets.has_reset(group, topic, queue_id):
            self._offsets.commit(group, topic, queue_id, next_offset, client="ack")
        if not self._ordered.is_blocked(topic, group, queue_id, None):
            self._wake(topic, group, queue_id)

    def _wake(self, topic: str, group: str, queue_id: int) -> None:
        """A queue is free again."""
        for held in self._held:
            held.wake((topic, group, queue_id))
            held.wake((topic, group, ALL_QUEUES))

    # Many

    def _batch_ack(self, request: Command, connection: Connection) -> Command | Awaitable[Command]:
        if len(request.body) > _SMALL_BODY:
            return self._batch_ack_later(request)
        asked = BatchAckRequest.from_request(request)
        return self._batch_answer(request, at_once(self._ack_batches(asked)))

    async def _batch_ack_later(self, request: Command) -> Command:
        """As above for one that could keep others waiting."""
        asked = await self._turns.do(BatchAckRequest.slices_of_request(request))
        answer = self._batch_answer(request, await self._turns.do(self._ack_batches(asked)))
        return answer if isinstance(answer, Command) else await answer

    def _batch_answer(self, request: Command, noted: "_Noted") -> Command | Awaitable[Command]:
        reply = request.reply(BatchAckMessageResponse(passed_over=noted.passed_over))
        return reply if noted.record is None else self._when_safe(reply, noted.record)

    def _ack_batches(self, asked: BatchAckRequest) -> Slices["_Noted"]:
        """The last record written for all of them, and how many were passed over."""
        if not asked.acks:
            raise RequestRejected(ResponseCode.NO_MESSAGE, "nothing is acknowledged")
        last: AppendResult | None = None
        passed_over = 0
        unavailable: QueueUnavailable | None = None
        for ack in asked.acks:
            try:
                noted = self._ack_batch(ack, asked.broker_name or "")
            except QueueUnavailable as error:
                unavailable = error  # the others count; those that do already do no harm
            else:
                last = noted.record or last
                passed_over += noted.passed_over
            yield
        if unavailable is not None:
            raise unavailable
        return _Noted(last, passed_over)

    def _ack_batch(self, ack: BatchAck, broker_name: str) -> "_Noted":
        """One pop's acknowledgements; what is out of range is passed over, as in RocketMQ."""
        if ack.retry not in RetryKind.ALL or not (
            ack.revive_queue_id == ORDERED_QUEUE
            or 0 <= ack.revive_queue_id < self._revive_log.queues
        ):
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "the receipt is not one of a pop")
        asked = _set_bits(ack)
        if len(asked) > MOST_MESSAGES:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"{len(asked)} messages of one pop, which takes up to {MOST_MESSAGES}",
            )
        topic_name = real_topic(ack.consumer_group, ack.topic, ack.retry)
        topic = self._topics.get(topic_name)
        if topic is None or not 0 <= ack.queue_id < topic.read_queue_nums:
            return _Noted(None, len(asked))
        low = self._store.min_offset(topic_name, ack.queue_id)
        high = self._store.max_offset(topic_name, ack.queue_id)
        offsets = [each for each in asked if low <= each <= high]
        if not offsets or not _is_time(ack.pop_time, ack.invisible_time):
            return _Noted(None, len(asked))
        passed_over = len(asked) - len(offsets)
        if ack.revive_queue_id == ORDERED_QUEUE:
            for offset in offsets:
                self._ack_in_order(
                    AckMessage(
                        consumer_group=ack.consumer_group,
                        topic=topic_name,
                        queue_id=ack.queue_id,
                        extra_info="",
                        offset=offset,
                    ),
                    ack.pop_time,
                )
            return _Noted(None, passed_over)
        key = (
            *(topic_name, ack.consumer_group, ack.queue_id, ack.start_offset, ack.pop_time),
            broker_name or self._live.broker.broker_name,
        )
        self._stats.acknowledged(ack.consumer_group, topic_name, len(offsets))
        if self._buffer.acknowledge(key, offsets):
            return _Noted(None, passed_over)
        record = self._revive_log.put_ack(
            key, offsets, ack.revive_queue_id, ack.pop_time + ack.invisible_time
        )
        return _Noted(record, passed_over)

    # More time

    def _change(self, request: Command, connection: Connection) -> Command | Awaitable[Command]:
        asked = request.header(ChangeInvisibleTime)
        _refuse_lite(asked.lite_topic)
        receipt = Receipt.parse(asked.extra_info, self._revive_log.queues)
        self._check(asked.topic, asked.queue_id, asked.offset, end_allowed=0)
        longest_ms = self._live.store.timer_max_delay_sec * 1_000
        if not 0 <= asked.invisible_time <= longest_ms:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime[{asked.invisible_time}] must lie between 0 and {longest_ms}",
            )
        if receipt.is_ordered:
            return request.reply(self._change_in_order(asked, receipt))
        now_ms = self._clock.now_ms()
        if now_ms <= receipt.pop_time < now_ms + _SAME_MOMENT_MS:
            # A check point of the same moment could have the name of one that is given up, and
            # would be given up with it.
            now_ms = receipt.pop_time + 1
        topic = self._real_topic(asked.consumer_group, asked.topic, receipt.retry_kind)
        renewed = CheckPoint(
            topic=topic,
            group=asked.consumer_group,
            queue_id=asked.queue_id,
            start_offset=asked.offset,
            pop_time=now_ms,
            invisible_time=asked.invisible_time,
            broker_name=self._live.broker.broker_name,
            distances=[0],
            suspended=asked.suspend,
        )
        # The new one first: a crash in between must not lose the message.
        result = self._revive_log.put_check_point(renewed, receipt.revive_queue)
        check_stored(result)
        key = _key(topic, asked.consumer_group, asked.queue_id, receipt)
        if not self._buffer.acknowledge(key, [asked.offset]):
            result = self._revive_log.put_ack(
                key, [asked.offset], receipt.revive_queue, receipt.revive_time
            )
        reply = request.reply(
            ChangeInvisibleTimeResponse(
                pop_time=now_ms,
                invisible_time=asked.invisible_time,
                revive_qid=receipt.revive_queue,
            )
        )
        return self._when_safe(reply, result)

    def _change_in_order(
        self, asked: ChangeInvisibleTime, receipt: Receipt
    ) -> ChangeInvisibleTimeResponse:
        visible_at = self._clock.now_ms() + asked.invisible_time
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        if asked.offset >= self._offsets.query(group, topic, queue_id):
            self._ordered.change(topic, group, queue_id, asked.offset, receipt.pop_time, visible_at)
            if not self._ordered.is_blocked(topic, group, queue_id, None):
                self._wake(topic, group, queue_id)
        return ChangeInvisibleTimeResponse(
            pop_time=receipt.pop_time,
            invisible_time=visible_at - receipt.pop_time,
            revive_qid=receipt.revive_queue,
        )

    def _when_safe(self, reply: Command, result: AppendResult) -> Command | Awaitable[Command]:
        """The answer, once what was written is as safe as the configuration wants it."""
        check_stored(result)
        safe = self._store.durable(result.end)
        if safe is None:
            return reply

        async def answer() -> Command:
            await asyncio.shield(safe)
            return reply

        return answer()


def _key(topic: str, group: str, queue_id: int, receipt: Receipt) -> CheckPointKey:
    return (
        *(topic, group, queue_id, receipt.start_offset, receipt.pop_time),
        receipt.broker_name,
    )


def _set_bits(ack: BatchAck) -> list[int]:
    """The offsets that a bit set names: bit k is `start_offset + k`."""
    try:
        bits = base64.b64decode(ack.bit_set.encode(), validate=True)
    except (binascii.Error, UnicodeError):
        return []
    return [
        ack.start_offset + at * 8 + bit
        for at, byte in enumerate(bits[:_WIDEST_POP])
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]


def _is_time(pop_time: int, invisible_time: int) -> bool:
    return 0 <= pop_time <= INT64_MAX // 2 and 0 <= invisible_time <= INT64_MAX // 2


def _refuse_lite(lite_topic: str | None) -> None:
    if lite_topic:
        raise RequestRejected(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "lite topics are not supported"
        )
