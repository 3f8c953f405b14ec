# cython: annotation_typing=False
"""Pulls: the messages of one queue from an offset on.

    checks        may this group read this queue, and what does it want of it
    load          what lies far behind is first fetched from the disk, by a thread
    read          slices of the mapped log, limited by count and bytes
    outcome       found / nothing new / nothing that passes the filter / offset out of range
    hold          a pull that found nothing new waits in `LongPolling` and runs once more

The four offsets of the answer are always there, also when nothing was found: clients go on
from `nextBeginOffset` whatever the code.

Compiled where possible (pull.pxd gives the types).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from functools import partial
from typing import Final

import cython

from rocketq.broker import remarks
from rocketq.broker.clients.consumers import ConsumerTable, Subscription
from rocketq.broker.config import LiveConfig
from rocketq.broker.long_polling import HeldPull, LongPolling
from rocketq.broker.replication.reading import Reading
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.filter import MessageFilter
from rocketq.message.flags import Permission, PullFlag
from rocketq.message.names import is_retry_topic
from rocketq.message.properties.codec import PropertyName
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import SubscriptionData
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers import PullMessage
from rocketq.remoting.hot.pull import PullFields, pull_fields, read_pull, reply_to_pull
from rocketq.store import GetResult, GetStatus, MessageStore
from rocketq.store.log.cold_data import ColdRange

logger = logging.getLogger(__name__)

TAG: Final = "TAG"

# Now, later, or from somewhere else when there is something.
Answer = Command | Awaitable[Command | None] | None

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_REMARKS: Final = {status: status.name.encode() for status in GetStatus}


class Forbidden(RequestRejected):
    """Not allowed to read; says who forbids it."""

    BROKER: Final = 1
    GROUP: Final = 2
    TOPIC: Final = 3
    BROADCAST: Final = 4
    SUBSCRIPTION: Final = 5

    def __init__(self, by: int, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.by = by


@cython.freelist(64)
@cython.cclass
class _Pull:
    """One pull under way: the request, and what the checks found out about it."""

    group: SubscriptionGroupConfig
    topic: TopicConfig

    def __init__(self, asked: PullFields, reply_to: Command, connection: Connection) -> None:
        self.asked = asked
        self.reply_to = reply_to
        self.connection = connection
        # Where to read from: behind what was already seen not to pass while it was held.
        self.start = asked.queue_offset
        self.filter: MessageFilter | None = None
        self.was_held = False  # it runs once more, and is answered in any case
        self.was_loaded = False  # what it reads has been fetched from the disk


class PullProcessor:
    """Serves consumers, now or as soon as there is something."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        consumers: ConsumerTable,
        long_polling: LongPolling,
        store: MessageStore,
        stats: BrokerStats,
        reading: Reading,
    ) -> None:
        self._live = live
        self._reading = reading
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._long_polling = long_polling
        self._store = store
        self._stats = stats
        # Pulls that were woken while their peer had too much to read already.
        self._stalled: dict[Connection, deque[_Pull]] = {}
        self._waiters: set[asyncio.Task[None]] = set()

    def handlers(self) -> Handlers:
        return {
            RequestCode.PULL_MESSAGE: self._on_pull,
            RequestCode.LITE_PULL_MESSAGE: self._on_pull,
        }

    def _on_pull(self, request: Command, connection: Connection) -> Answer:
        asked = read_pull(request) or pull_fields(request.header(PullMessage))
        return self._run(_Pull(asked, request, connection))

    def _run(self, pull: _Pull) -> Answer:
        """Check, read and answer; None when the pull is held."""
        try:
            self._check(pull)
        except RequestRejected as refusal:
            forbidden = {"forbiddenType": str(refusal.by)} if isinstance(refusal, Forbidden) else {}
            return pull.reply_to.reply(code=refusal.code, remark=refusal.remark, ext=forbidden)
        asked = pull.asked
        if self._live.broker.use_server_side_reset_offset:
            reset = self._offsets.take_reset(asked.consumer_group, asked.topic, asked.queue_id)
            if reset is not None:
                return self._offset_reset(pull, reset)
        if not pull.was_held and asked.sys_flag & PullFlag.COMMIT_OFFSET:
            self._offsets.commit(
                *(asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset),
                client=pull.connection.peer_address,
            )
        return self._read(pull)

    # Checks

    def _check(self, pull: _Pull) -> None:
        """Refuse what is not allowed, find out what is wanted."""
        asked = pull.asked
        config = self._live.broker
        refusal = self._reading.refusal
        if refusal is not None:
            raise RequestRejected(refusal.code, refusal.remark)
        if not config.is_readable:
            raise Forbidden(
                Forbidden.BROKER, f"the broker[{config.broker_ip1}] pulling message is forbidden"
            )
        if not config.lite_pull_message_enable and (
            pull.reply_to.code == RequestCode.LITE_PULL_MESSAGE
            or asked.sys_flag & PullFlag.LITE_PULL
        ):
            raise Forbidden(
                Forbidden.BROKER,
                f"the broker[{config.broker_ip1}] for lite pull consumer is forbidden",
            )
        group = self._groups.get_or_make(asked.consumer_group, pull.connection)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                remarks.with_hint(f"subscription group [{asked.consumer_group}] does not exist, "),
            )
        pull.group = group
        if not group.consume_enable:
            raise Forbidden(
                Forbidden.GROUP, f"subscription group no permission, {asked.consumer_group}"
            )
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                remarks.with_hint(f"topic[{asked.topic}] not exist, apply first please! "),
            )
        pull.topic = topic
        if not topic.perm & Permission.READ:
            raise Forbidden(
                Forbidden.TOPIC, f"the topic[{asked.topic}] pulling message is forbidden"
            )
        if not 0 <= asked.queue_id < topic.read_queue_nums:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{pull.connection.peer_address}]",
            )
        if asked.sys_flag & PullFlag.SUBSCRIPTION:
            subscription = self._subscription_in_request(asked)
        else:
            subscription = self._subscription_from_heartbeat(asked, group)
        if config.reject_pull_consumer_enable:
            self._refuse_strangers(pull)
        pull.filter = subscription.filter
        if config.filter_support_retry and is_retry_topic(asked.topic):
            pull.filter = RetryFilter(self._consumers, asked.consumer_group)

    def _subscription_in_request(self, asked: PullFields) -> Subscription:
        text, expression_type = asked.subscription or "*", asked.expression_type or TAG
        known = self._consumers.told_before(
            asked.consumer_group, asked.topic, text, expression_type
        )
        if known is not None and not asked.sys_flag & PullFlag.CLASS_FILTER:
            return known
        data = SubscriptionData(
            topic=asked.topic,
            sub_string=text,
            expression_type=expression_type,
            sub_version=asked.sub_version,
            class_filter_mode=bool(asked.sys_flag & PullFlag.CLASS_FILTER),
        )
        self._refuse_filters_we_lack(data)
        subscription = Subscription(data)
        if subscription.error is not None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {subscription.error}",
            )
        self._consumers.told_by_pull(asked.consumer_group, subscription)
        return subscription

    def _subscription_from_heartbeat(
        self, asked: PullFields, config: SubscriptionGroupConfig
    ) -> Subscription:
        group = self._consumers.find(asked.consumer_group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                remarks.with_hint("the consumer's group info not exist"),
            )
        if group.is_broadcasting and not config.consume_broadcast_enable:
            raise Forbidden(
                Forbidden.BROADCAST,
                f"the consumer group[{asked.consumer_group}] can not consume by broadcast way",
            )
        if self._groups.is_forbidden(asked.consumer_group, asked.topic):
            raise Forbidden(
                Forbidden.SUBSCRIPTION,
                f"the consumer group[{asked.consumer_group}] is forbidden for topic[{asked.topic}]",
            )
        subscription = group.subscriptions.get(asked.topic)
        if subscription is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                remarks.with_hint("the consumer's subscription not exist"),
            )
        if subscription.data.sub_version < asked.sub_version:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        self._refuse_filters_we_lack(subscription.data)
        if subscription.error is not None:
            raise RequestRejected(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist! Your expression may be wrong: "
                + str(subscription.error),
            )
        return subscription

    def _refuse_filters_we_lack(self, data: SubscriptionData) -> None:
        if data.class_filter_mode:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                "filtering by a Java class is not supported, use SQL92",
            )
        if data.expression_type not in (TAG, "") and not self._live.broker.enable_property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by " + data.expression_type,
            )

    def _refuse_strangers(self, pull: _Pull) -> None:
        """Where only push consumers may read: who has not registered as one may not."""
        group = self._consumers.find(pull.asked.consumer_group)
        if group is None or pull.connection not in group.channels:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                remarks.with_hint("the consumer's group info not exist"),
            )

    # Reading and answering

    def _read(self, pull: _Pull) -> Answer:
        asked = pull.asked
        count = max(1, min(asked.max_msg_nums, self._live.broker.max_pull_message_count))
        size = self._byte_budget(asked)
        if not pull.was_loaded and self._store.has_cold_data:
            cold = self._store.cold_range(asked.topic, asked.queue_id, pull.start, count, size)
            if cold is not None:
                return self._when_loaded(pull, cold)
        self._offsets.record_pull(
            asked.consumer_group, asked.topic, asked.queue_id, asked.queue_offset
        )
        result = self._store.get(
            asked.topic,
            asked.queue_id,
            pull.start,
            count,
            size,
            pull.filter,
        )
        status = result.status
        code = _CODES.get(status)
        if code is None:  # no queue, or nothing in it ever
            moved = pull.start != 0
            code = ResponseCode.PULL_OFFSET_MOVED if moved else ResponseCode.PULL_NOT_FOUND
        next_offset = result.next_offset
        if self._reading.is_slave and code != ResponseCode.SUCCESS:
            if code == ResponseCode.PULL_OFFSET_MOVED and not self._reading.corrects_offsets:
                next_offset = pull.start
            code = self._reading.code_on_slave(code, status)
        if code == ResponseCode.SUCCESS:
            self._stats.messages_got(
                *(asked.consumer_group, asked.topic, asked.queue_id),
                *(result.message_count, result.size),
            )
        elif code == ResponseCode.PULL_NOT_FOUND:
            if not pull.was_held and asked.sys_flag & PullFlag.SUSPEND and self._hold(pull):
                return None
            if pull.start != asked.queue_offset:
                # What came while it was held did not pass its filter: it goes on behind that.
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
                status = GetStatus.NO_MATCHED_MESSAGE
        return self._answer(
            pull,
            code,
            _REMARKS[status],
            next_offset,
            result.min_offset,
            result.max_offset,
            result,
        )

    async def _when_loaded(self, pull: _Pull, cold: ColdRange) -> Command | None:
        """The answer, once a thread has fetched what it is made of."""
        await self._store.load(cold)
        return self._run_loaded(pull)

    def _run_loaded(self, pull: _Pull) -> Command | None:
        pull.was_loaded = True
        reply = self._run(pull)
        assert reply is None or isinstance(reply, Command)
        return reply

    def _byte_budget(self, asked: PullFields) -> int:
        """What RocketMQ sends at once, or more for a client that says it can take it."""
        wanted = asked.max_msg_bytes
        if wanted <= 0:
            wanted = self._live.store.max_transfer_bytes_on_message_in_memory
        return min(wanted, self._live.broker.max_pull_bytes)

    def _offset_reset(self, pull: _Pull, offset: int) -> Command:
        topic, queue_id = pull.asked.topic, pull.asked.queue_id
        low, high = 0, offset
        if self._store.is_available(topic, queue_id):
            low = self._store.min_offset(topic, queue_id)
            high = self._store.max_offset(topic, queue_id)
        return self._answer(
            pull,
            ResponseCode.PULL_OFFSET_MOVED,
            b"OFFSET_RESET",
            offset,
            low,
            high,
            None,
        )

    def _answer(
        self,
        pull: _Pull,
        code: ResponseCode,
        remark: bytes,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        result: GetResult | None,
    ) -> Command:
        return reply_to_pull(
            pull.reply_to,
            code,
            remark,
            self._suggested_broker(pull.group, result),
            next_offset,
            min_offset,
            max_offset,
            pull.topic.topic_sys_flag,
            pull.group.group_sys_flag,
            result.buffers if result is not None else b"",
        )

    def _suggested_broker(self, group: SubscriptionGroupConfig, result: GetResult | None) -> int:
        """Where to pull next time: a slave, for a group that is far behind."""
        is_far_behind = result is not None and result.suggest_slave
        return self._reading.suggestion(group, is_far_behind=is_far_behind)

    # Holding

    def _hold(self, pull: _Pull) -> bool:
        config = self._live.broker
        asked = pull.asked
        timeout_ms = asked.suspend_timeout_millis
        if not config.long_polling_enable:
            timeout_ms = config.short_polling_time_mills
        request = pull.reply_to
        # The request itself would keep alive everything that was read together with it.
        pull.reply_to = Command(
            request.code,
            opaque=request.opaque,
            flag=request.flag,
            serialize_type=request.serialize_type,
        )
        return self._long_polling.hold(
            HeldPull(
                topic=asked.topic,
                queue_id=asked.queue_id,
                offset=pull.start,
                filter=pull.filter,
                peer=pull.connection,
                resume=partial(self._resume, pull),
                look=partial(self._look, pull),
            ),
            timeout_ms,
        )

    def _look(self, pull: _Pull, offset: int) -> int | None:
        """Where messages end of which none passes a held pull's filter; None if one may."""
        asked = pull.asked
        result = self._store.get(asked.topic, asked.queue_id, offset, 1, 0, pull.filter)
        if result.status is GetStatus.NO_MATCHED_MESSAGE:
            return result.next_offset
        return offset if result.status is GetStatus.OFFSET_OVERFLOW_ONE else None

    def _resume(self, pull: _Pull, offset: int) -> None:
        """Run a held pull once more and answer it, whatever it finds."""
        pull.start = offset
        pull.was_held = True
        if pull.connection.is_write_paused:
            self._stall(pull)
            return
        self._finish(pull)

    def _finish(self, pull: _Pull) -> None:
        reply = self._run(pull)
        if isinstance(reply, Command):
            self._send(pull, reply)
        elif reply is not None:
            self._start(self._send_later(pull, reply))

    async def _send_later(self, pull: _Pull, reply: Awaitable[Command | None]) -> None:
        self._send(pull, await reply)

    def _send(self, pull: _Pull, reply: Command | None) -> None:
        if reply is not None and not pull.reply_to.is_oneway:
            pull.connection.send(reply)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiters.add(task)
        task.add_done_callback(self._waiters.discard)

    def _stall(self, pull: _Pull) -> None:
        """Wait until the peer reads: what it is sent meanwhile would only pile up here."""
        connection = pull.connection
        stalled = self._stalled.get(connection)
        if stalled is not None:
            stalled.append(pull)
            return
        self._stalled[connection] = deque([pull])
        self._start(self._when_writable(connection))

    async def _when_writable(self, connection: Connection) -> None:
        try:
            while not connection.is_closing and self._stalled[connection]:
                await connection.writable()
                if not connection.is_closing:
                    self._finish(self._stalled[connection].popleft())
        finally:
            del self._stalled[connection]


class RetryFilter:
    """Applies to a retried message the filter of the topic it came from."""

    needs_properties = True
    # It may be any of the group's filters; who consumes again seldom has a long one.
    terms = 64

    def __init__(self, consumers: ConsumerTable, group: str) -> None:
        self._consumers = consumers
        self._group = group

    def matches_code(self, tags_code: int) -> bool:
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        origin = properties.get(PropertyName.RETRY_TOPIC)
        subscription = None if origin is None else self._consumers.subscription(self._group, origin)
        if subscription is None or subscription.filter is None:
            return True
        return not subscription.filter.needs_properties or subscription.filter.matches_properties(
            properties
        )
