"""How full the queues are and how far the groups have come."""

from collections.abc import Iterable

from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics, queue_count
from rocketq.common.clock import Clock
from rocketq.common.loop.slices import in_slices
from rocketq.common.loop.turns import Turns
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.bodies import stats as bodies
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.headers import (
    GetBrokerConsumeStats,
    GetConsumeStats,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
    ViewBrokerStatsData,
)
from rocketq.store import MessageStore


class ProgressAdminProcessor:
    """Puts queues, offsets and counters side by side; changes nothing."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        consumers: ConsumerTable,
        store: MessageStore,
        stats: BrokerStats,
        turns: Turns,
        clock: Clock,
        address: str,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._store = store
        self._stats = stats
        self._turns = turns
        self._clock = clock
        self._address = address

    def handlers(self) -> Handlers:
        return {
            GetTopicStatsInfo.CODE: self._topic_stats,
            GetConsumeStats.CODE: self._consume_stats,
            GetBrokerConsumeStats.CODE: self._broker_consume_stats,
            QueryConsumeTimeSpan.CODE: self._time_spans,
            ViewBrokerStatsData.CODE: self._view,
        }

    # Topics

    async def _topic_stats(self, request: Command, connection: Connection) -> Command:
        config = self._topic(request.header(GetTopicStatsInfo).topic)
        topic = config.topic_name
        queue_ids = range(queue_count(config))
        table = {
            self._queue(topic, queue_id): self._queue_range(topic, queue_id)
            async for queue_id in self._turns.over(queue_ids)
            if self._store.is_available(topic, queue_id)
        }
        body = bodies.TopicStatsTable(
            offset_table=table, topic_put_tps=self._stats.topic_put_tps(topic)
        )
        return request.reply(body=await self._turns.in_thread(body.encode))

    def _queue_range(self, topic: str, queue_id: int) -> bodies.TopicOffset:
        low = max(self._store.min_offset(topic, queue_id), 0)
        high = max(self._store.max_offset(topic, queue_id), 0)
        return bodies.TopicOffset(
            min_offset=low,
            max_offset=high,
            last_update_timestamp=self._stored_at(topic, queue_id, high - 1),
        )

    def _topic(self, topic: str) -> TopicConfig:
        config = self._topics.get(topic)
        if config is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._live.broker.broker_name, queue_id)

    def _stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; 0 when there is none."""
        return max(self._store.store_time(topic, queue_id, offset), 0) if offset >= 0 else 0

    # Groups

    async def _consume_stats(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumeStats)
        group = header.consumer_group
        if header.topic:
            topics = [header.topic]
        elif header.topic_list:
            topics = [topic for topic in header.topic_list.split(";") if topic]
        else:
            topics = self._offsets.topics_of(group)
        table: dict[MessageQueue, bodies.OffsetWrapper] = {}
        tps = 0.0
        for config in self._consumed(group, topics):
            table |= await self._positions(group, config, config.read_queue_nums)
            tps += self._stats.group_get_tps(group, config.topic_name)
        body = bodies.ConsumeStats(offset_table=table, consume_tps=tps)
        return request.reply(body=await self._turns.in_thread(body.encode))

    async def _positions(
        self, group: str, config: TopicConfig, queue_count: int
    ) -> dict[MessageQueue, bodies.OffsetWrapper]:
        """How far a group has come in each queue of a topic."""
        return {
            self._queue(config.topic_name, queue_id): self._position(group, config, queue_id)
            async for queue_id in self._turns.over(range(queue_count))
            if self._store.is_available(config.topic_name, queue_id)
        }

    async def _broker_consume_stats(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetBrokerConsumeStats)
        by_group: list[dict[str, list[bodies.ConsumeStats]]] = []
        behind = in_flight = 0
        for group in self._groups:
            tables = []
            for config in self._consumed(group, self._offsets.topics_of(group)):
                if header.is_order and not config.order:
                    continue
                positions = await self._positions(group, config, config.write_queue_nums)
                for position in positions.values():
                    behind += position.broker_offset - position.consumer_offset
                    in_flight += position.pull_offset - position.consumer_offset
                tps = self._stats.group_get_tps(group, config.topic_name)
                tables.append(bodies.ConsumeStats(offset_table=positions, consume_tps=tps))
            by_group.append({group: tables})
        body = bodies.ConsumeStatsList(
            consume_stats_list=by_group,
            broker_addr=self._address,
            total_diff=behind,
            total_inflight_diff=in_flight,
        )
        return request.reply(body=await self._turns.in_thread(body.encode))

    def _consumed(self, group: str, topics: Iterable[str]) -> Iterable[TopicConfig]:
        """The topics a group really reads: while it is online, those it subscribes to."""
        online = self._consumers.find(group)
        for topic in topics:
            config = self._topics.get(topic)
            if config is None:
                continue
            if online is not None and online.subscriptions and topic not in online.subscriptions:
                continue
            yield config

    def _position(self, group: str, config: TopicConfig, queue_id: int) -> bodies.OffsetWrapper:
        topic = config.topic_name
        consumed = max(self._offsets.query(group, topic, queue_id), 0)
        return bodies.OffsetWrapper(
            broker_offset=max(self._store.max_offset(topic, queue_id), 0),
            consumer_offset=consumed,
            # Whoever commits without pulling under the group's name (a Spark query) has no
            # pull offset, and nothing under way.
            pull_offset=max(self._offsets.pull_offset(group, topic, queue_id), consumed),
            last_timestamp=self._stored_at(topic, queue_id, consumed - 1),
        )

    # Times

    async def _time_spans(self, request: Command, connection: Connection) -> Command:
        header = request.header(QueryConsumeTimeSpan)
        queue_ids = range(self._topic(header.topic).write_queue_nums)
        spans = [
            self._time_span(header.group, header.topic, queue_id)
            async for queue_id in self._turns.over(queue_ids)
            if self._store.is_available(header.topic, queue_id)
        ]
        body = bodies.ConsumeTimeSpans(consume_time_span_set=spans)
        return request.reply(body=await self._turns.in_thread(body.encode))

    def _time_span(self, group: str, topic: str, queue_id: int) -> bodies.QueueTimeSpan:
        first_ms = self._store.earliest_time(topic, queue_id)
        end = self._store.max_offset(topic, queue_id)
        last_ms = self._store.store_time(topic, queue_id, end - 1)
        consumed = self._offsets.query(group, topic, queue_id)
        consumed_ms = first_ms
        if consumed > 0:
            consumed_ms = self._store.store_time(topic, queue_id, consumed - 1)
        delay_ms = 0
        if consumed < end:
            next_ms = self._store.store_time(topic, queue_id, max(consumed, 0))
            delay_ms = max(self._clock.now_ms() - next_ms, 0)
        return bodies.QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=first_ms,
            max_time_stamp=last_ms,
            consume_time_stamp=consumed_ms,
            delay_time=delay_ms,
        )

    # Statistics

    async def _view(self, request: Command, connection: Connection) -> Command:
        header = request.header(ViewBrokerStatsData)
        if self._stats.is_sum(header.stats_name):
            await in_slices(self._stats.summing_up())
        snapshot = self._stats.view(header.stats_name, header.stats_key)
        if snapshot is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{header.stats_name}> <{header.stats_key}> not exist",
            )
        body = bodies.BrokerStatsData(
            stats_minute=bodies.BrokerStatsItem(**snapshot.minute._asdict()),
            stats_hour=bodies.BrokerStatsItem(**snapshot.hour._asdict()),
            stats_day=bodies.BrokerStatsItem(**snapshot.day._asdict()),
        )
        return request.reply(body=body.encode())
