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
from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.request_modes import RequestModes
from rocketq.broker.tables.topics import Topics
from rocketq.client.consumer.allocation import AllocationStrategy, Average, AverageByCircle
from rocketq.message.names import is_retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.assignment import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
)

logger = logging.getLogger(__name__)

PULL: Final = "PULL"
POP: Final = "POP"
_ALL_QUEUES: Final = -1

_STRATEGIES: Final[dict[str, AllocationStrategy]] = {
    strategy.name: strategy for strategy in (Average(), AverageByCircle())
}


class AssignmentProcessor:
    """Answers consumers; keeps what administrators say about how groups take messages."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        consumers: ConsumerTable,
        modes: RequestModes,
        routes: TopicRoutes,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._topic_routes = routes

    def handlers(self) -> Handlers:
        return {
            RequestCode.QUERY_ASSIGNMENT: self._query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
        }

    async def _query(self, request: Command, connection: Connection) -> Command:
        asked = QueryAssignmentRequest.from_request(request)
        queues = await self._topic_routes.queues(asked.topic)
        mode, share_queues = self._mode(asked.topic, asked.consumer_group)
        share = self._share(asked, queues, share_queues if mode == POP else None)
        body = QueryAssignmentResponse(
            message_queue_assignments=None
            if share is None
            else [MessageQueueAssignment(message_queue=queue, mode=mode) for queue in share]
        )
        return request.reply(body=body.encode())

    def _mode(self, topic: str, group: str) -> tuple[str, int]:
        """How a group takes a topic's messages, and how many neighbours' queues it pops too."""
        config = self._live.broker
        if is_retry_topic(topic):
            return PULL, 0
        stored = self._modes.find(topic, group)
        if stored is not None:
            return stored.mode, stored.pop_share_queue_num
        return config.default_message_request_mode, config.default_pop_share_queue_num

    def _share(
        self, asked: QueryAssignmentRequest, queues: list[MessageQueue], popped: int | None
    ) -> list[MessageQueue] | None:
        """The queues of one member; None when no valid answer can be given now.

        `popped`: for those who pop, how many neighbours' queues come with their own.
        """
        if asked.message_model == BROADCASTING or not self._live.broker.server_load_balancer_enable:
            return queues or None
        members = sorted(self._consumers.client_ids(asked.consumer_group))
        if not queues or not members:
            return None
        strategy = _STRATEGIES.get(asked.strategy_name)
        if strategy is None:
            logger.warning("unknown strategy %s of %s", asked.strategy_name, asked.client_id)
            return None
        if popped is None:
            return strategy.allocate(asked.client_id, queues, members)
        return _pop_share(asked.client_id, queues, members, strategy, popped)

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


def _pop_share(
    client_id: str,
    queues: list[MessageQueue],
    members: list[str],
    strategy: AllocationStrategy,
    neighbours: int,
) -> list[MessageQueue]:
    """The queues of a member that pops: others may pop the same ones.

    With few neighbours it takes its own share and theirs, so that a member that is gone or
    slow leaves nothing behind. Otherwise everybody pops everything.
    """
    if neighbours <= 0 or neighbours >= len(members) - 1:
        topic = queues[0].topic
        brokers = sorted({queue.broker_name for queue in queues})
        return [MessageQueue(topic, broker, _ALL_QUEUES) for broker in brokers]
    if client_id not in members:
        return []
    index = members.index(client_id)
    if len(members) > len(queues):
        return [sorted(queues)[index % len(queues)]]
    share: list[MessageQueue] = []
    for step in range(neighbours + 1):
        neighbour = members[(index + step) % len(members)]
        share += strategy.allocate(neighbour, queues, members)
    return share
