"""Looking into the store, and having it cleaned."""

from typing import Final

from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.remarks import PRESET
from rocketq.broker.stats.runtime_info import RuntimeInfo
from rocketq.broker.tables.topics import Topics
from rocketq.common.loop.turns import Turns
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.bodies.stats import ConsumeQueueData, ConsumeQueueView
from rocketq.remoting.headers import QueryConsumeQueue
from rocketq.store import MessageStore

_MOST_ENTRIES: Final = 10_000


class StorageAdminProcessor:
    """Reads queues and figures of the store; removes what is out of date."""

    def __init__(
        self,
        topics: Topics,
        consumers: ConsumerTable,
        store: MessageStore,
        runtime_info: RuntimeInfo,
        turns: Turns,
    ) -> None:
        self._topics = topics
        self._consumers = consumers
        self._store = store
        self._runtime_info = runtime_info
        self._turns = turns

    def handlers(self) -> Handlers:
        return {
            QueryConsumeQueue.CODE: self._queue_entries,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._figures,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_expired_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self._clean_unused_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._delete_expired_files,
        }

    def _figures(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=KVTable(table=self._runtime_info.table()).encode())

    # Queue entries

    async def _queue_entries(self, request: Command, connection: Connection) -> Command:
        header = request.header(QueryConsumeQueue)
        topic, queue_id = header.topic, header.queue_id
        if queue_id not in self._store.queues(topic):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        subscription, filter_data = None, None
        if header.consumer_group:
            subscription = self._consumers.subscription(header.consumer_group, topic)
            # RocketMQ shows the registered SQL filter here, if there is one.
            filter_data = "null"
            if subscription is None:
                filter_data = f"{header.consumer_group}@{topic} is not online!"
        chosen = None if subscription is None else subscription.filter
        count = min(max(header.count, 0), _MOST_ENTRIES)
        entries = [
            ConsumeQueueData(
                physic_offset=entry.position,
                physic_size=entry.size,
                tags_code=entry.tags_code,
                eval=chosen is not None and chosen.matches_code(entry.tags_code),
            )
            async for entry in self._turns.over(
                list(self._store.entries(topic, queue_id, header.index, count))
            )
        ]
        body = ConsumeQueueView(
            subscription_data=None if subscription is None else subscription.data,
            filter_data=filter_data,
            queue_data=entries,
            max_queue_index=self._store.max_offset(topic, queue_id),
            min_queue_index=self._store.min_offset(topic, queue_id),
        )
        missing = f"Index {header.index} of {queue_id}@{topic} is not exist!"
        encoded = await self._turns.in_thread(body.encode)
        return request.reply(body=encoded, remark=PRESET if entries else missing)

    # Cleaning

    async def _clean_expired_queues(self, request: Command, connection: Connection) -> Command:
        await self._store.clean_expired_queues()
        return request.reply()

    async def _clean_unused_topics(self, request: Command, connection: Connection) -> Command:
        """Queues of topics this broker no longer has."""
        for topic in self._store.topics():
            if topic not in self._topics and not self._topics.is_system(topic):
                await self._store.delete_topic(topic)
        return request.reply()

    async def _delete_expired_files(self, request: Command, connection: Connection) -> Command:
        await self._store.delete_expired_files()
        return request.reply()
