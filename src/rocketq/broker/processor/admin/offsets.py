"""Moving groups to other offsets: by time, by number, or after another group.

A reset is done here, in the broker: the group's next pull of a queue learns where to go on
(`useServerSideResetOffset`, the default). With that switched off the online consumers are
told instead and move themselves, as RocketMQ did before 5.0.
"""

from typing import Final

from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.long_polling import LongPolling
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics, queue_count
from rocketq.common.loop.turns import Turns
from rocketq.message.queue import MessageQueue
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    LanguageCode,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.offsets import (
    CorrectionOffsets,
    DelayOffsetWrapper,
)
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.headers import (
    CloneGroupOffset,
    QueryCorrectionOffset,
    ResetConsumerClientOffset,
    ResetOffset,
)
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole

_OLDEST_RESETTABLE_CLIENT: Final = 28
_NO_OFFSET: Final = 2**63 - 1


class OffsetAdminProcessor:
    """Changes groups' offsets on request."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        consumers: ConsumerTable,
        scheduled: ScheduledMessages,
        long_polling: LongPolling,
        store: MessageStore,
        turns: Turns,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._scheduled = scheduled
        self._long_polling = long_polling
        self._store = store
        self._turns = turns

    def handlers(self) -> Handlers:
        return {
            ResetOffset.CODE: self._reset,
            CloneGroupOffset.CODE: self._clone,
            QueryCorrectionOffset.CODE: self._correction,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all,
            RequestCode.GET_ALL_DELAY_OFFSET: self._all_delays,
        }

    # Resetting

    async def _reset(self, request: Command, connection: Connection) -> Command:
        if self._store.role is BrokerRole.SLAVE:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
        header = request.header(ResetOffset)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist"
            )
        if self._live.broker.use_server_side_reset_offset:
            table = await self._reset_here(topic, header)
        else:
            table = await self._tell_consumers(topic, header)
        body = ResetOffsetBody(offset_table=table)
        return request.reply(body=await self._turns.in_thread(body.encode))

    async def _reset_here(self, topic: TopicConfig, header: ResetOffset) -> dict[MessageQueue, int]:
        if header.group not in self._groups:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist"
            )
        if header.queue_id >= queue_count(topic):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"Topic {header.topic} has no queue {header.queue_id}",
            )
        if header.queue_id >= 0:
            targets = {header.queue_id: self._target(header, header.queue_id)}
        else:
            targets = {
                queue_id: self._offset_at(header.topic, queue_id, header.timestamp)
                async for queue_id in self._turns.over(range(topic.write_queue_nums))
            }
        if not targets:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        async for queue_id, offset in self._turns.over(targets.items()):
            self._offsets.reset(header.group, header.topic, queue_id, offset)
            # A consumer that waits for news of this queue learns of it now.
            self._long_polling.wake_queue(header.topic, queue_id)
        return {
            self._queue(header.topic, queue_id): at
            async for queue_id, at in self._turns.over(targets.items())
        }

    def _target(self, header: ResetOffset, queue_id: int) -> int:
        """Where one queue is to go on: at the offset named, or at the time."""
        offset = header.offset
        if offset is None or offset < 0:
            return self._offset_at(header.topic, queue_id, header.timestamp)
        low = self._store.min_offset(header.topic, queue_id)
        high = self._store.max_offset(header.topic, queue_id)
        if not low <= offset <= high + 1:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
            )
        return offset

    def _offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0:
            return max(self._store.max_offset(topic, queue_id), 0)
        return max(self._store.offset_by_time(topic, queue_id, timestamp_ms), 0)

    async def _tell_consumers(
        self, topic: TopicConfig, header: ResetOffset
    ) -> dict[MessageQueue, int]:
        table: dict[MessageQueue, int] = {}
        async for queue_id in self._turns.over(range(topic.write_queue_nums)):
            consumed = self._offsets.query(header.group, header.topic, queue_id)
            if consumed < 0:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR, f"The consumer group <{header.group}> not exist"
                )
            wanted = self._offset_at(header.topic, queue_id, header.timestamp)
            at = wanted if header.is_force or wanted < consumed else consumed
            table[self._queue(header.topic, queue_id)] = at
        group = self._consumers.find(header.group)
        if group is None or not group.channels:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        channels = list(group.channels.values())
        for channel in channels:
            if channel.version < _OLDEST_RESETTABLE_CLIENT:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"the client does not support this feature. version={channel.version}",
                )
        order = ResetConsumerClientOffset(
            topic=header.topic,
            group=header.group,
            timestamp=header.timestamp,
            is_force=header.is_force,
            queue_id=-1,
        )
        body = ResetOffsetBody(offset_table=table)
        for channel in channels:
            is_cpp = channel.language == LanguageCode.CPP
            encoded = body.encode_as_list() if is_cpp else body.encode()
            channel.connection.send(Command.request(order, encoded, oneway=True))
        return table

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._live.broker.broker_name, queue_id)

    # Cloning

    def _clone(self, request: Command, connection: Connection) -> Command:
        header = request.header(CloneGroupOffset)
        if self._groups.get_or_make(header.dest_group, connection) is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {header.dest_group} does not exist",
            )
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        online = self._consumers.find(header.src_group)
        for topic in topics:
            if topic not in self._topics:
                continue
            is_stray = (
                online is not None and online.subscriptions and topic not in online.subscriptions
            )
            if header.offline or not is_stray:
                self._offsets.clone(header.src_group, header.dest_group, topic)
        return request.reply()

    def _correction(self, request: Command, connection: Connection) -> Command:
        """The lowest offsets of all groups; none where they lie above the group compared."""
        header = request.header(QueryCorrectionOffset)
        left_out = [group for group in (header.filter_groups or "").split(",") if group]
        lowest = self._offsets.minimum(header.topic, left_out)
        for queue_id, offset in self._offsets.stored(header.compare_group, header.topic).items():
            if lowest.get(queue_id, _NO_OFFSET) > offset:
                lowest[queue_id] = _NO_OFFSET
        return request.reply(body=CorrectionOffsets(correction_offsets=lowest).encode())

    # Whole tables

    async def _all(self, request: Command, connection: Connection) -> Command:
        # Without the offsets of pulls, which slaves of 5.5.0 cannot read.
        body = self._offsets.body()
        return request.reply(body=await self._turns.in_thread(lambda: body().encode()))

    def _all_delays(self, request: Command, connection: Connection) -> Command:
        body = DelayOffsetWrapper(
            data_version=self._scheduled.data_version, offset_table=self._scheduled.offsets()
        )
        return request.reply(body=body.encode())
