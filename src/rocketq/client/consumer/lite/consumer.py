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
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.consumer.allocation import AllocationStrategy, Average
from rocketq.client.consumer.held_queues import AssignmentListener
from rocketq.client.consumer.lite.session import LitePullSession, LitePullSettings
from rocketq.client.consumer.process_queue import FlowLimits
from rocketq.client.consumer.pull_loop import PullSettings
from rocketq.client.consumer.pull_result import FilterHook
from rocketq.client.consumer.push.settings import (
    BROADCASTING,
    CLUSTERING,
    MIB,
    check_not_default,
    check_range,
    message_model_of,
)
from rocketq.client.consumer.rebalance import RebalanceTiming
from rocketq.client.consumer.start_offset import ConsumeFrom, timestamp_ms
from rocketq.client.consumer.subscription import (
    EVERYTHING,
    Expression,
    Subscription,
    Subscriptions,
    Topics,
)
from rocketq.client.errors import (
    ClientClosed,
    ClientNotStarted,
    InvalidSettings,
    InvalidState,
)
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.message import MessageExt
from rocketq.message.names import unwrap_namespace, validate_group, wrap_namespace
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_HALF_AN_HOUR_MS = 30 * 60 * 1000
_MIN_AUTO_COMMIT_MS = 1000


class LitePullConsumer:
    """Hands out messages on request. Belongs to the event loop that starts it."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics = (),
        message_model: Literal["clustering", "broadcasting"] | str = "clustering",
        consume_from: ConsumeFrom | Literal["last", "first", "timestamp"] | str = "last",
        consume_timestamp: int | float | str | datetime | None = None,
        allocation: AllocationStrategy | None = None,
        auto_commit: bool = True,
        auto_commit_interval_ms: int = 5000,
        pull_batch_size: int = 512,
        pull_batch_bytes: int = 256 << 10,
        pull_threshold_for_all: int = 10_000,
        pull_threshold: int = 1000,
        pull_threshold_mib: int = 100,
        max_span: int = 2000,
        poll_timeout_s: float = 5.0,
        filters: Sequence[FilterHook] = (),
        on_assignment: AssignmentListener | None = None,
        offset_folder: str | Path | None = None,
        rebalance_interval_ms: int = 20_000,
        rebalance_min_interval_ms: int = 1000,
        pull_error_delay_ms: int = 1000,
        pull_suspend_ms: int = 20_000,
        pull_timeout_ms: int = 30_000,
        **client: Unpack[ClientOptions],
    ) -> None:
        """Make a consumer; nothing is sent before `start`.

        topics: what to subscribe to, as for a push consumer. Leave it out to `assign` queues.
        auto_commit, auto_commit_interval_ms: store finished offsets by itself, this often.
        pull_batch_size, pull_batch_bytes: how much one pull asks for, and one `poll` gives.
        pull_threshold_for_all: messages cached of all queues together before pulling pauses.
        The other options are those of `PushConsumer`.
        """
        validate_group(group)
        check_not_default(group)
        check_range("pull_batch_size", pull_batch_size, 1, 1024)
        if pull_timeout_ms < pull_suspend_ms:
            raise InvalidSettings(
                f"pull_timeout_ms ({pull_timeout_ms}) must not be below pull_suspend_ms "
                f"({pull_suspend_ms}): brokers hold requests that long"
            )
        model = message_model_of(message_model)
        if model not in (CLUSTERING, BROADCASTING):
            raise InvalidSettings(
                f"message_model is 'clustering' or 'broadcasting', not {message_model!r}"
            )
        self._config = ClientConfig(**client)
        self._subscriptions = Subscriptions(topics, namespace=self._config.namespace)
        self._assigned: list[MessageQueue] | None = None
        self._expressions: dict[str, Subscription] = {}
        self._on_assignment = on_assignment
        self._on_assignment_of: dict[str, AssignmentListener] = {}
        self._auto_commit = auto_commit
        self._auto_commit_s = max(auto_commit_interval_ms, _MIN_AUTO_COMMIT_MS) / 1000
        self._next_commit = 0.0
        self._poll_timeout_s = poll_timeout_s
        if consume_timestamp is None:
            consume_timestamp = SYSTEM_CLOCK.now_ms() - _HALF_AN_HOUR_MS
        self._settings = LitePullSettings(
            group=group,
            message_model=model,
            consume_from=ConsumeFrom.of(consume_from),
            consume_timestamp_ms=timestamp_ms(consume_timestamp),
            allocation=allocation or Average(),
            pull=PullSettings(
                batch_size=pull_batch_size,
                batch_bytes=pull_batch_bytes,
                suspend_ms=pull_suspend_ms,
                error_delay_s=pull_error_delay_ms / 1000,
                timeout_s=pull_timeout_ms / 1000,
                is_lite=True,
                commits=False,
                posts_subscription=True,
                filters=tuple(filters),
            ),
            limits=FlowLimits(count=pull_threshold, size=pull_threshold_mib * MIB, span=max_span),
            pull_threshold_for_all=pull_threshold_for_all,
            rebalance=RebalanceTiming(
                interval_s=rebalance_interval_ms / 1000,
                min_interval_s=rebalance_min_interval_ms / 1000,
                retry_s=min(1.0, rebalance_interval_ms / 1000),
            ),
            offset_folder=None if offset_folder is None else Path(offset_folder),
        )
        self._session: LitePullSession | None = None
        self._is_closed = False

    # ---------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Join the group and begin to fetch messages ahead."""
        if self._is_closed:
            raise ClientClosed(f"lite pull consumer {self.group!r}")
        if self._session is not None:
            raise InvalidState(f"lite pull consumer {self.group!r} is started already")
        settings = self._settings
        instance = await ClientInstance.acquire(
            self._config, stream=True, unique_name=not settings.is_broadcasting
        )
        self._session = session = LitePullSession(
            instance,
            settings,
            self._subscriptions,
            self._expressions,
            on_assignment=self._assignment_listener,
        )
        self._next_commit = asyncio.get_running_loop().time() + self._auto_commit_s
        try:
            await session.start(self._assigned)
        except BaseException:
            self._session = None
            await session.close()
            raise

    async def close(self) -> None:
        """Store what is committed, leave the group.

        With auto_commit, what was finished counts; the batch polled last does not, because
        nobody has said that it is finished.
        """
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            if self._auto_commit:
                session.commit(finished=True)
            await session.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --------------------------------------------------------------- what is consumed

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
        subscription = self._subscriptions.add(topic, expression, SYSTEM_CLOCK.now_ms())
        if on_assignment is not None:
            self._on_assignment_of[subscription.topic] = on_assignment
        if self._session is not None:
            await self._session.instance.heartbeat()
            self._session.rebalance.soon()

    def unsubscribe(self, topic: str) -> None:
        """Take part in a topic no longer."""
        if self._subscriptions.remove(topic) and self._session is not None:
            self._session.instance.heartbeat_soon()
            self._session.rebalance.soon()

    async def assign(
        self, queues: Iterable[MessageQueue], expression: Expression = EVERYTHING
    ) -> None:
        """Read exactly these queues, whatever the rest of the group does."""
        if len(self._subscriptions):
            raise InvalidState("subscribe and assign exclude each other: topics are subscribed to")
        self._assigned = [self._wire(queue) for queue in queues]
        now_ms = SYSTEM_CLOCK.now_ms()
        for topic in {queue.topic for queue in self._assigned}:
            self._expressions[topic] = Subscription(topic, expression, now_ms)
        if self._session is not None:
            await self._session.assign(self._assigned)

    @property
    def group(self) -> str:
        return self._settings.group

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._running().instance.client_id

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return sorted(self._bare(queue) for queue in self._running().queues())

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic, for `assign`."""
        session = self._running()
        wire = wrap_namespace(self._config.namespace, topic)
        queues = await session.instance.routes.subscribe_queues(wire, refresh=True)
        return [self._bare(queue) for queue in queues]

    # ------------------------------------------------------------------------ messages

    async def poll(self, timeout_s: float | None = None) -> list[MessageExt]:
        """Messages of one queue; an empty list when none came within the time (5 s)."""
        if timeout_s is None:
            timeout_s = self._poll_timeout_s
        if timeout_s < 0:
            raise InvalidSettings(f"timeout_s must not be negative, it is {timeout_s}")
        session = self._running()
        session.finish_all()
        self._commit_if_due(session)
        messages = await session.poll(self._settings.pull.batch_size, timeout_s)
        if messages:
            last = messages[-1]
            session.advance(self._queue_of(last), last.queue_offset + 1)
        return messages

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """All messages, one by one, without end."""
        while self._session is not None:
            session = self._session
            messages = await session.poll(self._settings.pull.batch_size, self._poll_timeout_s)
            for message in messages:
                queue = self._queue_of(message)
                session.advance(queue, message.queue_offset + 1)
                yield message
                # Asked for the next one: this one is done.
                session.finish(queue, message.queue_offset + 1)
                self._commit_if_due(session)
            self._commit_if_due(session)

    def _queue_of(self, message: MessageExt) -> MessageQueue:
        topic = wrap_namespace(self._config.namespace, message.topic)
        return MessageQueue(topic, message.broker_name, message.queue_id)

    # ------------------------------------------------------------------------- offsets

    def _commit_if_due(self, session: LitePullSession) -> None:
        if not self._auto_commit:
            return
        now = asyncio.get_running_loop().time()
        if now >= self._next_commit:
            self._next_commit = now + self._auto_commit_s
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

    async def seek_to_time(self, queue: MessageQueue, moment: int | float | str | datetime) -> None:
        """Read a queue from the first message stored at or after a moment."""
        await self.seek(queue, await self.offset_for_timestamp(queue, moment))

    async def offset_for_timestamp(
        self, queue: MessageQueue, moment: int | float | str | datetime
    ) -> int:
        """The offset of the first message stored at or after a moment."""
        session = self._running()
        wire = self._wire(queue)
        address = (await session.instance.routes.broker_of(wire)).address
        return await session.instance.api.search_offset(address, wire, timestamp_ms(moment))

    def pause(self, *queues: MessageQueue) -> None:
        """Fetch nothing more of these queues; what is cached is still handed out."""
        self._running().pause(self._wire(queue) for queue in queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on after `pause`."""
        self._running().resume(self._wire(queue) for queue in queues)

    # ------------------------------------------------------------------------- helpers

    def _check_assigned(self, session: LitePullSession, queue: MessageQueue) -> None:
        if queue in session.queues():
            return
        hint = " (the group may be rebalancing)" if self._assigned is None else ""
        raise InvalidState(f"{self._bare(queue)} is not assigned to this consumer{hint}")

    def _assignment_listener(self, topic: str) -> AssignmentListener | None:
        return self._on_assignment_of.get(topic, self._on_assignment)

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=wrap_namespace(self._config.namespace, queue.topic))

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=unwrap_namespace(self._config.namespace, queue.topic))

    def _running(self) -> LitePullSession:
        if self._session is None:
            if self._is_closed:
                raise ClientClosed(f"lite pull consumer {self.group!r}")
            raise ClientNotStarted(f"lite pull consumer {self.group!r}")
        return self._session
