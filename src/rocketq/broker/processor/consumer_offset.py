"""Answers questions about offsets: of consumers, and of the queues themselves."""

import os
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics, queue_count
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.headers import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffset,
    GetMaxOffsetResponse,
    GetMinOffset,
    GetMinOffsetResponse,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
    SearchOffset,
    SearchOffsetResponse,
    UpdateConsumerOffset,
)
from rocketq.store import Boundary, MessageStore

_MEMORY: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class ConsumerOffsetProcessor:
    """Progress of groups, and where queues begin and end."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        store: MessageStore,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store

    def handlers(self) -> Handlers:
        return {
            QueryConsumerOffset.CODE: self._query,
            UpdateConsumerOffset.CODE: self._update,
            GetMaxOffset.CODE: self._max_offset,
            GetMinOffset.CODE: self._min_offset,
            SearchOffset.CODE: self._search,
            GetEarliestMsgStoretime.CODE: self._earliest,
        }

    def _query(self, request: Command, connection: Connection) -> Command:
        header = request.header(QueryConsumerOffset)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = self._offsets.query(group, topic, queue_id)
        if offset < 0:
            if header.set_zero_if_not_found is False:
                raise RequestRejected(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, do not set to zero, maybe this group boot first",
                )
            if not self._begins_at_zero(topic, queue_id):
                raise RequestRejected(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            offset = 0
        return request.reply(QueryConsumerOffsetResponse(offset=offset))

    def _begins_at_zero(self, topic: str, queue_id: int) -> bool:
        """Whether a new group may read a queue from its first message on.

        So it is while nothing has been deleted from the queue yet and its first message is
        still at hand. An empty queue has no first message: there the group begins wherever
        its consumers were told to.
        """
        if self._store.min_offset(topic, queue_id) > 0:
            return False
        for first in self._store.entries(topic, queue_id, 0, 1):
            behind = self._store.max_physical_offset - first.position
            return behind <= self._live.store.access_message_in_memory_max_ratio * _MEMORY // 100
        return False

    def _update(self, request: Command, connection: Connection) -> Command:
        header = request.header(UpdateConsumerOffset)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if group not in self._groups:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
            )
        config = self._topics.get(topic)
        if config is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if not 0 <= queue_id < queue_count(config):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"Topic {topic} has no queue {queue_id}"
            )
        if self._live.broker.use_server_side_reset_offset and self._offsets.has_reset(
            group, topic, queue_id
        ):
            return request.reply(remark="Offset has been previously reset", ext={})
        is_stored = self._offsets.commit(
            group, topic, queue_id, header.commit_offset, client=connection.peer_address
        )
        if not is_stored:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "the broker keeps as many offsets as it may (maxConsumerOffsets)",
            )
        return request.reply(ext={})

    def _max_offset(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetMaxOffset)
        offset = self._store.max_offset(header.topic, header.queue_id)
        return request.reply(GetMaxOffsetResponse(offset=max(offset, 0)))

    def _min_offset(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetMinOffset)
        offset = self._store.min_offset(header.topic, header.queue_id)
        return request.reply(GetMinOffsetResponse(offset=max(offset, 0)))

    def _search(self, request: Command, connection: Connection) -> Command:
        header = request.header(SearchOffset)
        is_upper = (header.boundary_type or "").upper() == "UPPER"
        boundary = Boundary.UPPER if is_upper else Boundary.LOWER
        offset = self._store.offset_by_time(
            header.topic, header.queue_id, header.timestamp, boundary
        )
        return request.reply(SearchOffsetResponse(offset=offset))

    def _earliest(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetEarliestMsgStoretime)
        timestamp = self._store.earliest_time(header.topic, header.queue_id)
        return request.reply(GetEarliestMsgStoretimeResponse(timestamp=timestamp))
