"""Pops, peeks, and waiting for something to pop."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Final

from rocketq.broker import remarks
from rocketq.broker.config import LiveConfig
from rocketq.broker.pop import HeldPops, PopAnswer, Popping
from rocketq.broker.pop.held_pops import ALL_QUEUES, HeldPop, Key
from rocketq.broker.processor.pull import Forbidden
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
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
        clock: Clock,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
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

    def _pop(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
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

    def _peek(self, request: Command, connection: Connection) -> Command:
        """Look at what comes next, and leave it where it is."""
        asked = request.header(PeekMessage)
        topic = self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        if not 0 < asked.max_msg_nums <= _MOST_MESSAGES:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"maxMsgNums[{asked.max_msg_nums}] is out of range"
            )
        answer = self._popping.peek(asked, topic)
        found = ResponseCode.SUCCESS if answer.count else ResponseCode.PULL_NOT_FOUND
        return request.reply(_header(answer, 0), answer.buffers, code=found)

    # Notification

    def _notification(self, request: Command, connection: Connection) -> Command | None:
        asked = request.header(Notification)
        topic = self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        filter = _filter(asked.exp_type, asked.exp)
        found = self._popping.waiting(asked, topic, filter)
        if found.has_messages:
            return request.reply(NotificationResponse(has_msg=True))
        now_ms = self._clock.now_ms()
        wait_ms = (asked.born_time or now_ms) + asked.poll_time - now_ms
        if asked.poll_time <= 0 or wait_ms <= 0:
            return request.reply(NotificationResponse(has_msg=False))
        key = _key(asked.topic, asked.consumer_group, asked.queue_id)
        held = self._held_notifications
        if self._is_full(held, key, connection):
            return request.reply(NotificationResponse(has_msg=False, polling_full=True))

        def resume(is_over: bool) -> None:
            found = self._popping.waiting(asked, topic, filter)
            if found.has_messages or is_over:
                answer = NotificationResponse(has_msg=found.has_messages)
                connection.send(request.reply(answer))
            else:
                held.hold(waiting, self._until_free_s(found.free_at))

        waiting = HeldPop(
            key=key,
            topics=_topics(asked.consumer_group, asked.topic),
            peer=connection,
            deadline=held.deadline_for(wait_ms),
            codes=_codes(filter),
            resume=resume,
        )
        held.hold(waiting, self._until_free_s(found.free_at))
        return None

    def _polling_info(self, request: Command, connection: Connection) -> Command:
        asked = request.header(PollingInfo)
        self._check(asked.topic, asked.consumer_group, asked.queue_id, connection)
        key = _key(asked.topic, asked.consumer_group, asked.queue_id)
        return request.reply(PollingInfoResponse(polling_num=self._held.count_of(key)))

    # For those that wait

    def _until_free_s(self, free_at: int) -> float | None:
        """How long until a queue that is blocked now is free."""
        return max(free_at - self._clock.now_ms(), 10) / 1000 if free_at else None

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
        self._filter = filter
        self._held: HeldPop | None = None

    def run(self, wait_ms: int) -> Command | Awaitable[Command | None] | None:
        """Answer now, or hold; None when it is held."""
        answer = self._popped()
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
            topics=_topics(asked.consumer_group, asked.topic),
            peer=self._connection,
            deadline=processor._held.deadline_for(wait_ms),
            codes=_codes(self._filter),
            resume=self._resume,
        )
        self._hold(self._held, answer)
        return None

    def _popped(self) -> PopAnswer:
        return self._processor._popping.pop(self._asked, self._topic, self._filter)

    def _hold(self, held: HeldPop, answer: PopAnswer) -> None:
        """Until something arrives, or a queue that is blocked now is free."""
        self._processor._held.hold(held, self._processor._until_free_s(answer.free_at))

    def _resume(self, is_over: bool) -> None:
        answer = self._popped()
        reply: Command | Awaitable[Command | None] | None
        if answer.count:
            reply = self._reply(answer)
        elif answer.cold is not None:
            reply = self._when_loaded(answer)
        elif is_over:
            reply = _empty(self._request, answer, ResponseCode.POLLING_TIMEOUT)
        else:
            assert self._held is not None
            self._hold(self._held, answer)
            return
        if isinstance(reply, Command):
            self._connection.send(reply)
        elif reply is not None:
            self._processor._start(self._send_later(reply))

    async def _send_later(self, reply: Awaitable[Command | None]) -> None:
        answered = await reply
        if answered is not None:
            self._connection.send(answered)

    async def _when_loaded(self, answer: PopAnswer) -> Command | None:
        """Pop again once a thread has fetched what lies far behind."""
        for _ in range(8):
            if answer.count or answer.cold is None:
                break
            await self._processor._store.load(answer.cold)
            answer = self._popped()
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
