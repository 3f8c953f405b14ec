"""Pops, peeks, and waiting for something to pop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Final, TypeVar

from rocketq.broker import remarks
from rocketq.broker.config import LiveConfig
from rocketq.broker.pop import HeldPops, PopAnswer, Popping
from rocketq.broker.pop.held_pops import ALL_QUEUES, HeldPop, Key
from rocketq.broker.pop.popping import Waiting
from rocketq.broker.processor.pull import Forbidden
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.common.loop.slices import Slices, begin
from rocketq.common.loop.turns import Turns
from rocketq.filter import TAG, FilterError, MessageFilter, TagFilter, filter_for
from rocketq.message.flags import Permission
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers.pop import (
    Notification,
    NotificationResponse,
    PeekMessage,
    PollingInfo,
    PollingInfoResponse,
    PopMessage,
    PopMessageResponse,
)
from rocketq.store import MessageStore

_MOST_MESSAGES: Final = 32
_LATE_MS: Final = 500

# So long a request looks through queues at once; a topic of thousands takes longer, in slices.
_MOMENT_S: Final = 0.002
# When to look again where messages came in meanwhile.
_SOON_S: Final = 0.05

T = TypeVar("T")
Answer = Command | Awaitable[Command | None] | None


class PopProcessor:
    """Answers at once, or when a message arrives."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        popping: Popping,
        held: HeldPops,
        held_notifications: HeldPops,
        store: MessageStore,
        turns: Turns,
        clock: Clock,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._turns = turns
        self._popping = popping
        self._held = held
        self._held_notifications = held_notifications
        self._store = store
        self._clock = clock
        self._waiters: set[asyncio.Task[None]] = set()

    def handlers(self) -> Handlers:
        return {
            RequestCode.POP_MESSAGE: self._pop,
            RequestCode.PEEK_MESSAGE: self._peek,
            RequestCode.NOTIFICATION: self._notification,
            RequestCode.POLLING_INFO: self._polling_info,
        }

    # Pop

    def _pop(self, request: Command, connection: Connection) -> Answer:
        asked = request.header(PopMessage)
        now_ms = self._clock.now_ms()
        born_ms = asked.born_time or now_ms
        if now_ms - born_ms - asked.poll_time > _LATE_MS:
            return _nothing(request, ResponseCode.POLLING_TIMEOUT, "the broker is too late")
        topic = self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        self._check_pop(asked)
        filter = _filter(asked.exp_type, asked.exp)
        waiting = _WaitingPop(self, request, connection, asked, topic, filter)
        return waiting.run(born_ms + asked.poll_time - now_ms)

    def _check_pop(self, asked: PopMessage) -> None:
        if not 0 < asked.max_msg_nums <= _MOST_MESSAGES:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"pop message num({asked.max_msg_nums}) is out of range, at most {_MOST_MESSAGES}",
            )
        if not self._live.store.timer_wheel_enable:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the broker[{self._live.broker.broker_ip1}] pop message is forbidden because "
                "timerWheelEnable is false",
            )
        longest_ms = self._live.store.timer_max_delay_sec * 1_000
        if not 0 < asked.invisible_time <= longest_ms:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime[{asked.invisible_time}] must lie between 1 and {longest_ms}",
            )

    def _check(
        self, topic_name: str, group_name: str, queue_id: int, connection: Connection
    ) -> TopicConfig:
        """What every request of this family has to pass, in RocketMQ's order."""
        config = self._live.broker
        if not config.is_readable:
            raise Forbidden(
                Forbidden.BROKER, f"the broker[{config.broker_ip1}] pop message is forbidden"
            )
        topic = self._topics.get(topic_name)
        if topic is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, remarks.topic_missing(topic_name))
        if not topic.perm & Permission.READ:
            raise Forbidden(
                Forbidden.TOPIC, f"the topic[{topic_name}] pulling message is forbidden"
            )
        if queue_id >= topic.read_queue_nums:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{connection.peer_address}]",
            )
        group = self._groups.get_or_make(group_name, connection)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                remarks.with_hint(f"subscription group [{group_name}] does not exist, "),
            )
        if not group.consume_enable:
            raise Forbidden(Forbidden.GROUP, f"subscription group no permission, {group_name}")
        return topic

    # Peek

    def _peek(self, request: Command, connection: Connection) -> Answer:
        """Look at what comes next, and leave it where it is."""
        asked = request.header(PeekMessage)
        topic = self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        if not 0 < asked.max_msg_nums <= _MOST_MESSAGES:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"maxMsgNums[{asked.max_msg_nums}] is out of range"
            )

        def reply(answer: PopAnswer, has_arrived: bool) -> Command:
            found = ResponseCode.SUCCESS if answer.count else ResponseCode.PULL_NOT_FOUND
            return request.reply(_header(answer, 0), answer.buffers, code=found)

        return self._looked(self._popping.peek(asked, topic), self._held, (), reply)

    # Notification

    def _notification(self, request: Command, connection: Connection) -> Answer:
        asked = request.header(Notification)
        topic = self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        filter = _filter(asked.exp_type, asked.exp)
        key = _key(asked.topic, asked.consumer_group, asked.queue_id)
        held = self._held_notifications
        now_ms = self._clock.now_ms()
        wait_ms = (asked.born_time or now_ms) + asked.poll_time - now_ms

        def first(found: Waiting, has_arrived: bool) -> Command | None:
            if found.has_messages:
                return request.reply(NotificationResponse(has_msg=True))
            if asked.poll_time <= 0 or wait_ms <= 0:
                return request.reply(NotificationResponse(has_msg=False))
            if self._is_full(held, key, connection):
                return request.reply(NotificationResponse(has_msg=False, polling_full=True))
            waiting = HeldPop(
                key=key,
                topics=_topics(asked.consumer_group, asked.topic),
                peer=connection,
                deadline=held.deadline_for(wait_ms),
                codes=_codes(filter),
                resume=lambda is_over: resume(waiting, is_over),
            )
            self._hold(held, waiting, found.free_at, has_arrived)
            return None

        def resume(waiting: HeldPop, is_over: bool) -> None:
            self._answer(connection, look(partial(again, waiting, is_over)))

        def again(
            waiting: HeldPop, is_over: bool, found: Waiting, has_arrived: bool
        ) -> Command | None:
            if found.has_messages or is_over:
                return request.reply(NotificationResponse(has_msg=found.has_messages))
            self._hold(held, waiting, found.free_at, has_arrived)
            return None

        def look(then: Callable[[Waiting, bool], Answer]) -> Answer:
            work = self._popping.waiting(asked, topic, filter)
            return self._looked(work, held, _topics(asked.consumer_group, asked.topic), then)

        return look(first)

    def _polling_info(self, request: Command, connection: Connection) -> Command:
        asked = request.header(PollingInfo)
        self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        key = _key(asked.topic, asked.consumer_group, asked.queue_id)
        return request.reply(PollingInfoResponse(polling_num=self._held.count_of(key)))

    # Looking

    def _looked(
        self,
        work: Slices[T],
        held: HeldPops,
        topics: Sequence[str],
        then: Callable[[T, bool], Answer],
    ) -> Answer:
        """Look through queues, for a moment or in slices.

        `then` makes the answer of what was found; it is told whether something has arrived
        in `topics` meanwhile, where the look may have been over.
        """
        enough_at = self._clock.monotonic() + _MOMENT_S
        done = begin(work, lambda: self._clock.monotonic() > enough_at)
        if done is not None:
            return then(done.result, False)
        return self._looked_on(work, held, topics, then)

    async def _looked_on(
        self,
        work: Slices[T],
        held: HeldPops,
        topics: Sequence[str],
        then: Callable[[T, bool], Answer],
    ) -> Command | None:
        with held.watching(topics) as watch:
            found = await self._turns.do(work)
        answer = then(found, watch.has_arrived)
        return await answer if isinstance(answer, Awaitable) else answer

    # For those that wait

    def _hold(self, held: HeldPops, waiting: HeldPop, free_at: int, has_arrived: bool) -> None:
        """Until something arrives, or a queue that is blocked now is free."""
        if waiting.peer.is_closing:
            return
        until_s = max(free_at - self._clock.now_ms(), 10) / 1000 if free_at else None
        if has_arrived:
            until_s = min(until_s or _SOON_S, _SOON_S)
        held.hold(waiting, until_s)

    def _answer(self, connection: Connection, answer: Answer) -> None:
        """Send what came of one that has waited."""
        if isinstance(answer, Command):
            connection.send(answer)
        elif answer is not None:
            self._start(self._answer_later(connection, answer))

    @staticmethod
    async def _answer_later(connection: Connection, answer: Awaitable[Command | None]) -> None:
        answered = await answer
        if answered is not None:
            connection.send(answered)

    def _is_full(self, held: HeldPops, key: Key, connection: Connection) -> bool:
        config = self._live.broker
        return (
            held.count >= config.max_pop_polling_size
            or held.count_of(key) >= config.pop_polling_size
            or held.count_by(connection) >= config.max_held_pops_per_connection
        )

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiters.add(task)
        task.add_done_callback(self._waiters.discard)


class _WaitingPop:
    """One pop on its way: run once, and again when something arrives."""

    __slots__ = (
        "_asked",
        "_connection",
        "_filter",
        "_held",
        "_processor",
        "_request",
        "_topic",
        "_topics",
    )

    def __init__(
        self,
        processor: PopProcessor,
        request: Command,
        connection: Connection,
        asked: PopMessage,
        topic: TopicConfig,
        filter: MessageFilter | None,
    ) -> None:
        self._processor = processor
        self._request = request
        self._connection = connection
        self._asked = asked
        self._topic = topic
        self._topics = _topics(asked.consumer_group, asked.topic)
        self._filter = filter
        self._held: HeldPop | None = None

    def run(self, wait_ms: int) -> Answer:
        """Answer now, or hold; None when it is held."""
        return self._look(partial(self._first, wait_ms))

    def _look(self, then: Callable[[PopAnswer, bool], Answer]) -> Answer:
        return self._processor._looked(self._work(), self._processor._held, self._topics, then)

    def _work(self) -> Slices[PopAnswer]:
        return self._processor._popping.pop(self._asked, self._topic, self._filter)

    def _first(self, wait_ms: int, answer: PopAnswer, has_arrived: bool) -> Answer:
        if answer.count:
            return self._reply(answer)
        if answer.cold is not None:
            return self._when_loaded(answer)
        asked, processor = self._asked, self._processor
        key = _key(asked.topic, asked.consumer_group, asked.queue_id)
        if asked.poll_time <= 0 or wait_ms <= 0:
            return _empty(self._request, answer, ResponseCode.POLLING_TIMEOUT)
        if processor._is_full(processor._held, key, self._connection):
            return _empty(self._request, answer, ResponseCode.POLLING_FULL)
        self._held = HeldPop(
            key=key,
            topics=self._topics,
            peer=self._connection,
            deadline=processor._held.deadline_for(wait_ms),
            codes=_codes(self._filter),
            resume=self._resume,
        )
        self._hold(answer, has_arrived)
        return None

    def _hold(self, answer: PopAnswer, has_arrived: bool) -> None:
        processor = self._processor
        assert self._held is not None
        processor._hold(processor._held, self._held, answer.free_at, has_arrived)

    def _resume(self, is_over: bool) -> None:
        self._processor._answer(self._connection, self._look(partial(self._again, is_over)))

    def _again(self, is_over: bool, answer: PopAnswer, has_arrived: bool) -> Answer:
        if answer.count:
            return self._reply(answer)
        if answer.cold is not None:
            return self._when_loaded(answer)
        if is_over:
            return _empty(self._request, answer, ResponseCode.POLLING_TIMEOUT)
        self._hold(answer, has_arrived)
        return None

    async def _when_loaded(self, answer: PopAnswer) -> Command | None:
        """Pop again once a thread has fetched what lies far behind."""
        for _ in range(8):
            if answer.count or answer.cold is None:
                break
            await self._processor._store.load(answer.cold)
            answer = await self._processor._turns.do(self._work())
        if not answer.count:
            return _empty(self._request, answer, ResponseCode.POLLING_TIMEOUT)
        reply = self._reply(answer)
        return reply if isinstance(reply, Command) else await reply

    def _reply(self, answer: PopAnswer) -> Command | Awaitable[Command | None]:
        """The messages, once their check points are safe; others may take what is left."""
        asked, processor = self._asked, self._processor
        if answer.rest > 0:
            processor._held.wake(_key(asked.topic, asked.consumer_group, asked.queue_id))
        reply = self._request.reply(_header(answer, asked.invisible_time), answer.buffers)
        safe = processor._store.durable(answer.log_end) if answer.log_end else None
        if safe is None:
            return reply

        async def when_safe() -> Command:
            await asyncio.shield(safe)
            return reply

        return when_safe()


def _filter(expression_type: str | None, expression: str | None) -> MessageFilter | None:
    if not expression:
        return None
    try:
        return filter_for(expression_type or TAG, expression)
    except FilterError as cause:
        raise RequestRejected(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"parse the consumer's subscription failed: {cause}",
        ) from cause


def _codes(filter: MessageFilter | None) -> frozenset[int] | None:
    """The tags that a filter wants, where its messages can be told by them."""
    return frozenset(filter.codes) if isinstance(filter, TagFilter) else None


def _topics(group: str, topic: str) -> tuple[str, str, str]:
    """Where messages may arrive that a group can pop from a topic."""
    return topic, retry_topic_v1(group, topic), retry_topic_v2(group, topic)


def _key(topic: str, group: str, queue_id: int) -> Key:
    return topic, group, max(queue_id, ALL_QUEUES)


def _header(answer: PopAnswer, invisible_time: int) -> PopMessageResponse:
    return PopMessageResponse(
        pop_time=answer.pop_time,
        invisible_time=invisible_time,
        revive_qid=answer.revive_queue,
        rest_num=answer.rest,
        start_offset_info=";".join(answer.starts),
        msg_offset_info=";".join(answer.offsets),
        order_count_info=";".join(answer.order_counts) or None,
    )


def _empty(request: Command, answer: PopAnswer, code: ResponseCode) -> Command:
    return request.reply(_header(answer, 0), code=code, remark="NO_MESSAGE_IN_QUEUE")


def _nothing(request: Command, code: ResponseCode, remark: str) -> Command:
    return request.reply(
        PopMessageResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0),
        code=code,
        remark=remark,
    )
