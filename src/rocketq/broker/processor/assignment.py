"""Sharing out queues for consumers that leave it to the broker.

Such a consumer asks which queues are its own (QUERY_ASSIGNMENT) instead of working it out
itself. The broker does the same sum with the same strategies: the queues of the topic on
all brokers, as the NameServer knows them, over the members of the group it knows itself.
An answer without a list means "keep what you have".
"""

import logging
from typing import Final

from rocketq.broker.clients.consumers import BROADCASTING, ConsumerTable
from rocketq.broker.cluster.topic_routes import TopicRoutes
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.request_modes import RequestModes
from rocketq.broker.tables.topics import Topics
from rocketq.client.consumer.allocation import AllocationStrategy, Average, AverageByCircle
from rocketq.message.names import is_retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, Connection, RequestCode, RequestRejected, ResponseCode, Routes
from rocketq.remoting.bodies.assignment import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
)

logger = logging.getLogger(__name__)

_STRATEGIES: Final[dict[str, AllocationStrategy]] = {
    strategy.name: strategy for strategy in (Average(), AverageByCircle())
}


class AssignmentProcessor:
    """Answers consumers; keeps what administrators say about how groups take messages."""

    def __init__(
        self,
        topics: Topics,
        groups: SubscriptionGroups,
        consumers: ConsumerTable,
        modes: RequestModes,
        routes: TopicRoutes,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._topic_routes = routes

    def routes(self) -> Routes:
        return {
            RequestCode.QUERY_ASSIGNMENT: self._query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
        }

    async def _query(self, request: Command, connection: Connection) -> Command:
        asked = QueryAssignmentRequest.from_request(request)
        queues = await self._topic_routes.queues(asked.topic)
        share = self._share(asked, queues)
        body = QueryAssignmentResponse(
            message_queue_assignments=None
            if share is None
            # Whatever mode was set: until this broker serves pops, its queues are pulled.
            else [MessageQueueAssignment(message_queue=queue, mode="PULL") for queue in share]
        )
        return request.reply(body=body.encode())

    def _share(
        self, asked: QueryAssignmentRequest, queues: list[MessageQueue]
    ) -> list[MessageQueue] | None:
        """The queues of one member; None when no valid answer can be given now."""
        if asked.message_model == BROADCASTING:
            return queues or None
        members = sorted(self._consumers.client_ids(asked.consumer_group))
        if not queues or not members:
            return None
        strategy = _STRATEGIES.get(asked.strategy_name)
        if strategy is None:
            logger.warning("unknown strategy %s of %s", asked.strategy_name, asked.client_id)
            return None
        return strategy.allocate(asked.client_id, queues, members)

    async def _set_mode(self, request: Command, connection: Connection) -> Command:
        mode = SetMessageRequestMode.from_request(request)
        if is_retry_topic(mode.topic):
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"
            )
        if mode.topic not in self._topics:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if mode.consumer_group not in self._groups:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {mode.consumer_group}",
            )
        await self._modes.set(mode)
        return request.reply()

    def _all_modes(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=self._modes.body().encode())
