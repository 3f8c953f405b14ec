"""Queues shared out by the brokers: they say which are this member's, and how to take them."""

from collections.abc import Sequence
from typing import Any, Protocol

from rocketq.client.consumer.rebalance import QueueHolder, Rebalance
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.assignment import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from rocketq.remoting.codes import RequestCode


class AssignedHolder(QueueHolder, Protocol):
    """Who pulls some queues and pops others."""

    async def hold_assigned(
        self,
        topic: str,
        pulled: Sequence[MessageQueue],
        popped: Sequence[MessageQueue],
        everyones: Sequence[MessageQueue],
    ) -> bool:
        """Hold exactly these queues of the topic; False when that did not succeed yet."""
        ...


class BrokerRebalance(Rebalance):
    """Asks one of a topic's brokers for this member's share."""

    def __init__(self, holder: AssignedHolder, *arguments: Any, **more: Any) -> None:
        super().__init__(holder, *arguments, **more)
        self._assigned = holder

    async def divide(self, topic: str, queues: Sequence[MessageQueue]) -> bool:
        assignments = await self._assignments(topic)
        if assignments is None:
            return False
        pulled = [each.message_queue for each in assignments if each.mode == "PULL"]
        popped = [each.message_queue for each in assignments if each.mode == "POP"]
        return await self._assigned.hold_assigned(topic, sorted(pulled), sorted(popped), queues)

    async def _assignments(self, topic: str) -> list[MessageQueueAssignment] | None:
        """What a broker says; None leaves everything as it is."""
        address = self._instance.routes.some_broker(topic)
        if address is None:
            return None
        asked = QueryAssignmentRequest(
            topic=topic,
            consumer_group=self._group,
            client_id=self._instance.client_id,
            strategy_name=self._strategy.name,
        )
        try:
            reply = await self._instance.api.invoke(
                address, RequestCode.QUERY_ASSIGNMENT, asked.encode()
            )
        except RocketqError as error:
            self._say_once(
                topic,
                f"{address} does not say which queues of {topic} {self._group} gets: {error}",
                error,
            )
            self._instance.heartbeat_soon()
            return None
        self._said.discard(topic)
        return QueryAssignmentResponse.decode(reply.body).message_queue_assignments
