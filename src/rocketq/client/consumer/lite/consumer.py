"""The lite pull consumer: you ask for messages when you want them.

    async with LitePullConsumer("audit", namesrv="127.0.0.1:9876", topics="orders") as consumer:
        async for message in consumer:
            store(message.body)

Or, batch by batch:

        messages = await consumer.poll(timeout_s=1.0)

Queues are shared among the group (`topics`, `subscribe`), or chosen by you (`assign`). Messages
are fetched ahead in the background. With `auto_commit` what you have finished is committed every
few seconds: the messages of a `poll` count as finished when you poll again, a message of
`async for` when you ask for the next.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.consumer import Consumer
from rocketq.client.consumer.lite.session import LitePullSession
from rocketq.client.consumer.options import LitePullConfig, LitePullOptions, Moment
from rocketq.client.consumer.rebalance import AssignmentListener
from rocketq.client.consumer.start_offset import offset_at, timestamp_ms
from rocketq.client.consumer.subscription import EVERYTHING, Expression, Subscription
from rocketq.client.errors import InvalidSettings, InvalidState
from rocketq.client.options import configured, explained_by
from rocketq.common.clock import ambient_clock
from rocketq.message.message import MessageExt
from rocketq.message.names import wrap_namespace
from rocketq.message.queue import MessageQueue

_MIN_AUTO_COMMIT_MS: Final = 1000


class LitePullConsumer(Consumer[LitePullSession]):
    """Hands out messages on request. Belongs to the event loop that starts it."""

    _KIND = "lite pull consumer"

    @explained_by(LitePullConfig)
    def __init__(self, group: str, **options: Unpack[LitePullOptions]) -> None:
        """Make a consumer; nothing is sent before `start`.

        group: members of the same group share the messages. Leave `topics` out to `assign`
            queues yourself.
        """
        self._config = configured(LitePullConfig, options, by="LitePullConsumer")
        super().__init__(group, self._config)
        self._assigned: list[MessageQueue] | None = None
        self._expressions: dict[str, Subscription] = {}
        self._on_assignment_of: dict[str, AssignmentListener] = {}
        self._commit_every_s = max(self._config.auto_commit_interval_ms, _MIN_AUTO_COMMIT_MS) / 1000
        self._next_commit = 0.0

    # Life

    def _new_session(self, instance: ClientInstance) -> LitePullSession:
        self._next_commit = asyncio.get_running_loop().time() + self._commit_every_s
        return LitePullSession(
            instance,
            self._group,
            self._config,
            self._subscriptions,
            self._expressions,
            assigned=self._assigned,
            on_assignment=self._assignment_listener,
        )

    async def close(self) -> None:
        """Store what is committed, leave the group.

        With auto_commit, what was finished counts; the batch polled last does not, because
        nobody has said that it is finished.
        """
        await super().close()

    async def _close_session(self, session: LitePullSession) -> None:
        if self._config.auto_commit:
            session.commit(finished=True)
        await session.close()

    # What is consumed

    async def subscribe(
        self,
        topic: str,
        expression: Expression = EVERYTHING,
        *,
        on_assignment: AssignmentListener | None = None,
    ) -> None:
        """Take part in a topic; its queues are shared among the group."""
        if self._assigned is not None:
            raise InvalidState("subscribe and assign exclude each other: queues were assigned")
        subscription = self._subscriptions.add(topic, expression, ambient_clock.get().now_ms())
        if on_assignment is not None:
            self._on_assignment_of[subscription.topic] = on_assignment
        if self._session is not None:
            await self._session.find_route(subscription.topic)
            await self._session.instance.heartbeat()
            self._session.rebalance.soon()

    def unsubscribe(self, topic: str) -> None:
        """Take part in a topic no longer."""
        if self._subscriptions.remove(topic) and self._session is not None:
            self._session.subscriptions_changed()

    async def assign(
        self, queues: Iterable[MessageQueue], expression: Expression = EVERYTHING
    ) -> None:
        """Read exactly these queues, whatever the rest of the group does."""
        if len(self._subscriptions):
            raise InvalidState("subscribe and assign exclude each other: topics are subscribed to")
        self._assigned = [self._wire(queue) for queue in queues]
        now_ms = ambient_clock.get().now_ms()
        for topic in {queue.topic for queue in self._assigned}:
            self._expressions[topic] = Subscription(topic, expression, now_ms)
        if self._session is not None:
            await self._session.assign(self._assigned)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return sorted(self._bare(queue) for queue in self._running().held.queues())

    # Messages

    async def poll(self, timeout_s: float | None = None) -> list[MessageExt]:
        """Messages of one queue; an empty list when none came within the time (5 s)."""
        if timeout_s is None:
            timeout_s = self._config.poll_timeout_s
        if timeout_s < 0:
            raise InvalidSettings(f"timeout_s must not be negative, it is {timeout_s}")
        session = self._running()
        session.finish_all()
        self._commit_if_due(session)
        messages = await session.poll(self._config.pull_batch_size, timeout_s)
        if messages:
            last = messages[-1]
            session.advance(self._queue_of(last), last.queue_offset + 1)
        return messages

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """All messages, one by one, without end."""
        while self._session is not None:
            session = self._session
            messages = await session.poll(self._config.pull_batch_size, self._config.poll_timeout_s)
            for message in messages:
                queue = self._queue_of(message)
                session.advance(queue, message.queue_offset + 1)
                yield message
                # Asked for the next one: this one is done.
                session.finish(queue, message.queue_offset + 1)
                self._commit_if_due(session)
            self._commit_if_due(session)

    def _queue_of(self, message: MessageExt) -> MessageQueue:
        topic = wrap_namespace(self._namespace, message.topic)
        return MessageQueue(topic, message.broker_name, message.queue_id)

    # Offsets

    def _commit_if_due(self, session: LitePullSession) -> None:
        if not self._config.auto_commit:
            return
        now = asyncio.get_running_loop().time()
        if now >= self._next_commit:
            self._next_commit = now + self._commit_every_s
            session.commit(finished=True)

    async def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> None:
        """Count messages as consumed: all handed out, those of some queues, or given offsets.

        `persist=False` leaves sending the offsets to the timer (every few seconds).
        """
        session = self._running()
        if isinstance(offsets, Mapping):
            for queue, offset in offsets.items():
                if offset >= 0:
                    session.offsets.update(self._wire(queue), offset)
        else:
            session.commit(None if offsets is None else [self._wire(queue) for queue in offsets])
        if persist:
            await session.persist()

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset committed for a queue, None when there is none."""
        session = self._running()
        wire = self._wire(queue)
        offset = session.offsets.get(wire)
        return offset if offset is not None else await session.offsets.read(wire)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from this offset on."""
        session = self._running()
        wire = self._wire(queue)
        self._check_assigned(session, wire)
        first, end = await session.bounds(wire)
        if not first <= offset <= end:
            raise InvalidSettings(
                f"offset {offset} of {queue} is outside of {first} to {end}, where its messages are"
            )
        await session.seek(wire, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first message on."""
        session = self._running()
        wire = self._wire(queue)
        self._check_assigned(session, wire)
        first, _ = await session.bounds(wire)
        await session.seek(wire, first)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only what comes into a queue from now on."""
        session = self._running()
        wire = self._wire(queue)
        self._check_assigned(session, wire)
        _, end = await session.bounds(wire)
        await session.seek(wire, end)

    async def seek_to_time(self, queue: MessageQueue, moment: Moment) -> None:
        """Read a queue from the first message stored at or after a moment."""
        await self.seek(queue, await self.offset_for_timestamp(queue, moment))

    async def offset_for_timestamp(self, queue: MessageQueue, moment: Moment) -> int:
        """The offset of the first message stored at or after a moment."""
        return await offset_at(self._running().instance, self._wire(queue), timestamp_ms(moment))

    def pause(self, *queues: MessageQueue) -> None:
        """Fetch nothing more of these queues; what is cached is still handed out."""
        self._running().pause(self._wire(queue) for queue in queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on after `pause`."""
        self._running().resume(self._wire(queue) for queue in queues)

    # Helpers

    def _check_assigned(self, session: LitePullSession, queue: MessageQueue) -> None:
        if queue in session.held:
            return
        hint = " (the group may be rebalancing)" if self._assigned is None else ""
        raise InvalidState(f"{self._bare(queue)} is not assigned to this consumer{hint}")

    def _assignment_listener(self, topic: str) -> AssignmentListener | None:
        return self._on_assignment_of.get(topic, self._config.on_assignment)
