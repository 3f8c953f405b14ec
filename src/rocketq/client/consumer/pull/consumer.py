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

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import MASTER_ID
from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.consumer.allocation import AllocationStrategy, Average
from rocketq.client.consumer.held_queues import AssignmentListener, tell_assignment
from rocketq.client.consumer.offset_store import LocalOffsetStore, OffsetStore, RemoteOffsetStore
from rocketq.client.consumer.pull_result import FilterHook, PullResult, pull_result
from rocketq.client.consumer.push.send_back import DEFAULT_MAX_RECONSUME_TIMES, SendBack
from rocketq.client.consumer.push.settings import (
    BROADCASTING,
    CLUSTERING,
    check_not_default,
    message_model_of,
)
from rocketq.client.consumer.rebalance import Rebalance, RebalanceTiming
from rocketq.client.consumer.running_info import running_info
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.consumer.statistics import ConsumerStatistics
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
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import unwrap_namespace, validate_group, wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo

logger = logging.getLogger(__name__)

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
_DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings:
    """How a pull consumer works; `PullConsumer` explains the options."""

    group: str
    message_model: str
    allocation: AllocationStrategy
    max_reconsume_times: int
    suspend_ms: int
    suspend_timeout_s: float
    filters: Sequence[FilterHook]
    rebalance: RebalanceTiming
    offset_folder: Path | None

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING


class PullSession:
    """A pull consumer from its start to its close. Belongs to one event loop."""

    def __init__(
        self,
        instance: ClientInstance,
        settings: PullConsumerSettings,
        subscriptions: Subscriptions,
        on_assignment: AssignmentListener | None,
    ) -> None:
        self.instance = instance
        self.settings = settings
        self.subscriptions = subscriptions
        self.group = wrap_namespace(instance.config.namespace, settings.group)
        self.statistics = ConsumerStatistics(instance.clock)
        self.started_ms = instance.clock.now_ms()
        self.offsets: OffsetStore
        if settings.is_broadcasting:
            self.offsets = LocalOffsetStore.of(
                settings.offset_folder, instance.client_id, self.group
            )
        else:
            self.offsets = RemoteOffsetStore(instance, self.group)
        self.send_back = SendBack(instance, self.group, settings.max_reconsume_times)
        self.in_balance: dict[str, list[MessageQueue]] = {}
        self.rebalance = Rebalance(
            self,
            instance,
            self.group,
            strategy=settings.allocation,
            is_broadcasting=settings.is_broadcasting,
            timing=settings.rebalance,
        )
        # Only these are shared out; topics that were merely pulled are not.
        self._registered_topics = list(subscriptions.topics())
        self._on_assignment = on_assignment
        self._suggested_ids: dict[MessageQueue, int] = {}
        self._is_registered = False

    async def start(self) -> None:
        await self.offsets.load()
        self.subscriptions.refresh(self.instance.clock.now_ms())
        self.instance.register_consumer(self)
        self._is_registered = True
        await self.instance.heartbeat()
        await self.rebalance.start()

    async def close(self) -> None:
        try:
            await self.rebalance.stop()
            await self.offsets.persist(list(self.offsets.snapshot()), acknowledged=True)
            if self._is_registered:
                await self.instance.unregister_consumer(self.group)
        finally:
            await self.instance.release()

    # ------------------------------------------------------------------------- pulling

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: Expression,
        max_messages: int,
        *,
        suspend_ms: int,
        timeout_s: float,
    ) -> PullResult:
        if queue.topic not in self.subscriptions:
            # Brokers get to know of the topic with the next heartbeat.
            self.subscriptions.add_derived(queue.topic, self.instance.clock.now_ms())
            self.instance.heartbeat_soon()
        now_ms = self.instance.clock.now_ms()
        subscription = Subscription(queue.topic, expression, now_ms)
        flags = PullFlag.SUBSCRIPTION
        if suspend_ms:
            flags |= PullFlag.SUSPEND
        broker_id = self._suggested_ids.get(queue, MASTER_ID)
        broker = await self.instance.routes.broker_of(queue, broker_id)
        response = await self.instance.api.pull(
            broker.address,
            group=self.group,
            queue=queue,
            offset=offset,
            max_messages=max_messages,
            flags=flags,
            suspend_ms=suspend_ms,
            subscription=subscription.expression,
            expression_type=subscription.expression_type,
            timeout_s=timeout_s,
        )
        self._suggested_ids[queue] = response.suggested_broker_id
        result = pull_result(
            response,
            queue,
            subscription,
            namespace=self.instance.config.namespace,
            filters=self.settings.filters,
        )
        elapsed_ms = self.instance.clock.now_ms() - now_ms
        self.statistics.pulled(queue.topic, len(result.messages), elapsed_ms)
        return result

    # ------------------------------------------------------------------ for the rebalance

    def subscribed_topics(self) -> Sequence[str]:
        return self._registered_topics

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        if self.in_balance.get(topic) != list(mine):
            self.in_balance[topic] = list(mine)
            logger.info("%s now has %d queues of %s", self.group, len(mine), topic)
            self.subscriptions.raise_version(topic, self.instance.clock.now_ms())
            self.instance.heartbeat_soon()
            namespace = self.instance.config.namespace
            tell_assignment(self._on_assignment, namespace, topic, everyones, mine)
        return True

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        return True

    # ------------------------------------------------------------ for the client instance

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_ACTIVELY,
            message_model=self.settings.message_model,
            consume_from_where=ConsumeFrom.LAST.value,
            subscription_data_set=[subscription.data() for subscription in self.subscriptions],
        )

    def topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    def routes_changed(self, topic: str) -> None:
        self.rebalance.soon()

    def rebalance_soon(self) -> None:
        self.rebalance.soon()

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self.offsets.snapshot()))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            self.offsets.update(queue, offset)
        await self.offsets.persist(list(offsets), acknowledged=True)

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.snapshot(topic)

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        return running_info(
            self.instance,
            settings=self.settings,
            consume_type=CONSUME_ACTIVELY,
            is_orderly=False,
            concurrency=0,
            started_ms=self.started_ms,
            subscriptions=self.subscriptions,
            process_queues=(),
            offsets=self.offsets,
            statistics=self.statistics,
            with_stacks=with_stacks,
        )

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        raise InvalidState(f"{self.group} pulls its messages: there is no listener to call")


class PullConsumer:
    """Pulls on request and remembers offsets. Belongs to the event loop that starts it."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics = (),
        message_model: Literal["clustering", "broadcasting"] | str = "clustering",
        allocation: AllocationStrategy | None = None,
        max_reconsume_times: int = DEFAULT_MAX_RECONSUME_TIMES,
        filters: Sequence[FilterHook] = (),
        on_assignment: AssignmentListener | None = None,
        offset_folder: str | Path | None = None,
        rebalance_interval_ms: int = 20_000,
        rebalance_min_interval_ms: int = 1000,
        suspend_ms: int = 20_000,
        suspend_timeout_ms: int = 30_000,
        **client: Unpack[ClientOptions],
    ) -> None:
        """Make a consumer; nothing is sent before `start`.

        topics: whose queues are shared among the group, see `message_queues_in_balance`. Topics
            that are only pulled need not be named.
        suspend_ms, suspend_timeout_ms: how long a broker holds a `pull_block_if_not_found`, and
            how long its answer is waited for.
        The other options are those of `PushConsumer`.
        """
        validate_group(group)
        check_not_default(group)
        model = message_model_of(message_model)
        if model not in (CLUSTERING, BROADCASTING):
            raise InvalidSettings(
                f"message_model is 'clustering' or 'broadcasting', not {message_model!r}"
            )
        if suspend_timeout_ms < suspend_ms:
            raise InvalidSettings(
                f"suspend_timeout_ms ({suspend_timeout_ms}) must not be below suspend_ms "
                f"({suspend_ms}): brokers hold requests that long"
            )
        self._config = ClientConfig(**client)
        self._subscriptions = Subscriptions(topics, namespace=self._config.namespace)
        self._settings = PullConsumerSettings(
            group=group,
            message_model=model,
            allocation=allocation or Average(),
            max_reconsume_times=max_reconsume_times,
            suspend_ms=suspend_ms,
            suspend_timeout_s=suspend_timeout_ms / 1000,
            filters=tuple(filters),
            rebalance=RebalanceTiming(
                interval_s=rebalance_interval_ms / 1000,
                min_interval_s=rebalance_min_interval_ms / 1000,
                retry_s=min(1.0, rebalance_interval_ms / 1000),
            ),
            offset_folder=None if offset_folder is None else Path(offset_folder),
        )
        self._on_assignment = on_assignment
        self._session: PullSession | None = None
        self._is_closed = False

    # -------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Register with the brokers."""
        if self._is_closed:
            raise ClientClosed(f"pull consumer {self.group!r}")
        if self._session is not None:
            raise InvalidState(f"pull consumer {self.group!r} is started already")
        instance = await ClientInstance.acquire(
            self._config, stream=True, unique_name=not self._settings.is_broadcasting
        )
        self._session = session = PullSession(
            instance, self._settings, self._subscriptions, self._on_assignment
        )
        try:
            await session.start()
        except BaseException:
            self._session = None
            await session.close()
            raise

    async def close(self) -> None:
        """Store the offsets, leave the group."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
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

    @property
    def group(self) -> str:
        return self._settings.group

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._running().instance.client_id

    def register_topic(self, topic: str) -> None:
        """Have a topic's queues shared among the group; before the start."""
        if self._session is not None:
            raise InvalidState("topics are registered before the consumer is started")
        self._subscriptions.add(topic, EVERYTHING, SYSTEM_CLOCK.now_ms())

    def on_assignment(self, listener: AssignmentListener) -> None:
        """Be told after the shared queues have changed; before the start."""
        if self._session is not None:
            raise InvalidState("the assignment listener is given before the start")
        self._on_assignment = listener

    # ----------------------------------------------------------------------- pulling

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
        settings = self._settings
        return await self._pull(
            queue, offset, expression, max_messages, settings.suspend_ms, settings.suspend_timeout_s
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

    # ------------------------------------------------------------------------ queues

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        session = self._running()
        wire = wrap_namespace(self._config.namespace, topic)
        queues = await session.instance.routes.subscribe_queues(wire, refresh=True)
        return [self._bare(queue) for queue in queues]

    def message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """This member's share of a registered topic's queues."""
        wire = wrap_namespace(self._config.namespace, topic)
        queues = self._running().in_balance.get(wire, [])
        return [self._bare(queue) for queue in queues]

    # ----------------------------------------------------------------------- offsets

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
        session = self._running()
        wire = self._wire(queue)
        address = (await session.instance.routes.broker_of(wire)).address
        return await session.instance.api.max_offset(address, wire)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message there still is."""
        session = self._running()
        wire = self._wire(queue)
        address = (await session.instance.routes.broker_of(wire)).address
        return await session.instance.api.min_offset(address, wire)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time."""
        session = self._running()
        wire = self._wire(queue)
        address = (await session.instance.routes.broker_of(wire)).address
        return await session.instance.api.search_offset(address, wire, timestamp_ms)

    # ----------------------------------------------------------------------- helpers

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=wrap_namespace(self._config.namespace, queue.topic))

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=unwrap_namespace(self._config.namespace, queue.topic))

    def _running(self) -> PullSession:
        if self._session is None:
            if self._is_closed:
                raise ClientClosed(f"pull consumer {self.group!r}")
            raise ClientNotStarted(f"pull consumer {self.group!r}")
        return self._session
