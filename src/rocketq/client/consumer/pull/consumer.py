"""The pull consumer: single pulls, offsets kept by you.

    async with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
        for queue in await consumer.message_queues("orders"):
            offset = await consumer.consume_offset(queue, from_store=True) or 0
            result = await consumer.pull(queue, offset)
            ...
            consumer.update_consume_offset(queue, result.next_offset)

For most purposes the lite pull consumer is the better one: it pulls ahead, shares queues and
commits. This one is for those who want to do all that themselves.
"""

from dataclasses import replace
from typing import Final, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.consumer import Consumer
from rocketq.client.consumer.options import PullConfig, PullOptions
from rocketq.client.consumer.pull.session import PullSession
from rocketq.client.consumer.pull_result import PullResult
from rocketq.client.consumer.rebalance import AssignmentListener
from rocketq.client.consumer.start_offset import max_offset, min_offset, offset_at
from rocketq.client.consumer.subscription import EVERYTHING, Expression
from rocketq.client.errors import InvalidSettings, InvalidState
from rocketq.client.options import configured, explained_by
from rocketq.common.clock import ambient_clock
from rocketq.message.message import MessageExt
from rocketq.message.names import wrap_namespace
from rocketq.message.queue import MessageQueue

_DEFAULT_TIMEOUT_S: Final = 10.0


class PullConsumer(Consumer[PullSession]):
    """Pulls on request and remembers offsets. Belongs to the event loop that starts it."""

    _KIND = "pull consumer"

    @explained_by(PullConfig)
    def __init__(self, group: str, **options: Unpack[PullOptions]) -> None:
        """Make a consumer; nothing is sent before `start`.

        group: members of the same group share the queues of `topics`, see
            `message_queues_in_balance`. Topics that are only pulled need not be named.
        """
        self._config = configured(PullConfig, options, by="PullConsumer")
        super().__init__(group, self._config)

    def _new_session(self, instance: ClientInstance) -> PullSession:
        return PullSession(instance, self._group, self._config, self._subscriptions)

    def register_topic(self, topic: str) -> None:
        """Have a topic's queues shared among the group; before the start."""
        if self._session is not None:
            raise InvalidState("topics are registered before the consumer is started")
        self._subscriptions.add(topic, EVERYTHING, ambient_clock.get().now_ms())

    def on_assignment(self, listener: AssignmentListener) -> None:
        """Be told after the shared queues have changed; before the start."""
        if self._session is not None:
            raise InvalidState("the assignment listener is given before the start")
        self._config = replace(self._config, on_assignment=listener)

    # Pulling

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = EVERYTHING,
        max_messages: int = 32,
        timeout_s: float = _DEFAULT_TIMEOUT_S,
    ) -> PullResult:
        """Messages of a queue from an offset on; answers at once when there are none."""
        return await self._pull(queue, offset, expression, max_messages, 0, timeout_s)

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = EVERYTHING,
        max_messages: int = 32,
    ) -> PullResult:
        """The same, but the broker waits for a message to come (20 s)."""
        config = self._config
        timeout_s = config.suspend_timeout_ms / 1000
        return await self._pull(
            queue, offset, expression, max_messages, config.suspend_ms, timeout_s
        )

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: Expression,
        max_messages: int,
        suspend_ms: int,
        timeout_s: float,
    ) -> PullResult:
        if offset < 0:
            raise InvalidSettings(f"an offset is 0 or more, not {offset}")
        if max_messages <= 0:
            raise InvalidSettings(f"max_messages must be above 0, not {max_messages}")
        return await self._running().pull(
            self._wire(queue),
            offset,
            expression,
            max_messages,
            suspend_ms=suspend_ms,
            timeout_s=timeout_s,
        )

    async def send_message_back(
        self, message: MessageExt, *, delay_level: int = 0, broker_name: str | None = None
    ) -> None:
        """Have a message delivered again later, through the group's retry topic."""
        await self._running().send_back.give_back(message, delay_level, broker_name)

    # Queues

    def message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """This member's share of a registered topic's queues."""
        wire = wrap_namespace(self._namespace, topic)
        queues = self._running().in_balance.get(wire, [])
        return [self._bare(queue) for queue in queues]

    # Offsets

    async def consume_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """How far the group has come, from memory or (also) from where it is stored."""
        session = self._running()
        wire = self._wire(queue)
        offset = None if from_store else session.offsets.get(wire)
        return offset if offset is not None else await session.offsets.read(wire)

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Note how far the group has come; stored every few seconds and at the end."""
        self._running().offsets.update(self._wire(queue), offset)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset after the last message."""
        return await max_offset(self._running().instance, self._wire(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message there still is."""
        return await min_offset(self._running().instance, self._wire(queue))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time."""
        return await offset_at(self._running().instance, self._wire(queue), timestamp_ms)
