"""The push consumer: messages come to a function of yours.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876", topics={"orders": "paid"})

    @consumer.listener
    async def on_message(message: MessageExt) -> None:
        await charge(message.body)

    async with consumer:
        await asyncio.Event().wait()

What the function returns or raises decides what becomes of the message: see
`rocketq.client.consumer.push.listener`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.consumer.allocation import AllocationStrategy, Average
from rocketq.client.consumer.held_queues import AssignmentListener
from rocketq.client.consumer.pull_result import FilterHook
from rocketq.client.consumer.push.listener import Listener, ListenerFunction
from rocketq.client.consumer.push.session import PushSession
from rocketq.client.consumer.push.settings import MAX_BATCH_SIZE, PushSettings, message_model_of
from rocketq.client.consumer.rebalance import RebalanceTiming
from rocketq.client.consumer.start_offset import ConsumeFrom, timestamp_ms
from rocketq.client.consumer.subscription import EVERYTHING, Expression, Subscriptions, Topics
from rocketq.client.errors import (
    ClientClosed,
    ClientNotStarted,
    InvalidSettings,
    InvalidState,
    MissingListener,
)
from rocketq.client.hooks import ConsumeHook
from rocketq.client.producer.producer import Producer
from rocketq.client.trace.trace import CONSUME, Trace, trace_group
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.names import TRACE_TOPIC
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=ListenerFunction)

_HALF_AN_HOUR_MS = 30 * 60 * 1000


class PushConsumer:
    """Consumes topics as a member of a group. Belongs to the event loop that starts it."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics = (),
        listener: ListenerFunction | None = None,
        orderly: bool = False,
        message_model: Literal["clustering", "broadcasting"] | str = "clustering",
        consume_from: ConsumeFrom | Literal["last", "first", "timestamp"] | str = "last",
        consume_timestamp: int | float | str | datetime | None = None,
        allocation: AllocationStrategy | None = None,
        batch_size: int | None = None,
        concurrency: int = 20,
        pull_batch_size: int = 512,
        pull_batch_bytes: int = 256 << 10,
        pull_interval_ms: int = 0,
        max_span: int = 2000,
        pull_threshold: int = 1000,
        pull_threshold_mib: int = 100,
        pull_threshold_of_topic: int = -1,
        pull_threshold_mib_of_topic: int = -1,
        max_reconsume_times: int = -1,
        suspend_ms: int = 1000,
        consume_timeout_s: float = 900.0,
        post_subscription: bool = False,
        hooks: Sequence[ConsumeHook] = (),
        filters: Sequence[FilterHook] = (),
        trace: bool | str = False,
        on_assignment: AssignmentListener | None = None,
        offset_folder: str | Path | None = None,
        close_timeout_s: float = 10.0,
        rebalance_interval_ms: int = 20_000,
        rebalance_min_interval_ms: int = 1000,
        lock_interval_ms: int = 20_000,
        pull_error_delay_ms: int = 1000,
        pull_suspend_ms: int = 15_000,
        **client: Unpack[ClientOptions],
    ) -> None:
        """Make a consumer; nothing is sent before `start`.

        group: members of the same group share the messages.
        topics: one topic, several, or a mapping to what is wanted of each: `"*"`, tags as
            `"paid || sent"`, or `Sql("total > 100")`.
        listener: the function called with messages; or use the decorator `consumer.listener`.
        orderly: messages of a queue one after the other, in their order.
        message_model: "clustering" shares the messages among the group, "broadcasting" gives
            each member all of them (offsets are kept in a file, failures are not repeated).
        consume_from: where a group starts that has no offset stored: "last", "first", or
            "timestamp" with `consume_timestamp` (half an hour ago unless given).
        allocation: how queues are shared (see `rocketq.client.consumer.allocation`).
        batch_size: how many messages one call gets at most. 1 unless the listener takes a list.
        concurrency: how many calls may be under way at once; may be changed later.
        pull_batch_size, pull_batch_bytes: how much one pull asks for. RocketMQ's brokers give
            32 messages at most whatever is asked; rocketq's give what fits.
        pull_interval_ms: a pause between pulls.
        max_span, pull_threshold, pull_threshold_mib: pulling a queue pauses when cached offsets
            span more, or more messages or bytes are cached; the `_of_topic` limits are divided
            among the queues held.
        max_reconsume_times: how often a message comes again before it goes to the dead letters;
            -1 is 16 times, for orderly consumers without end.
        suspend_ms: how long an orderly queue pauses after a failure.
        consume_timeout_s: messages a listener keeps longer are sent back.
        post_subscription: send the expression with each pull instead of with heartbeats only.
        hooks, filters: see `rocketq.client.hooks` and `FilterHook`.
        trace: report to RocketMQ's message trace; a text names another trace topic.
        on_assignment: called as `(topic, all_queues, own_queues)` after queues have changed.
        offset_folder: where broadcasting keeps its offsets, `~/.rocketmq_offsets` by default.
        close_timeout_s: how long `close` waits for listeners.
        """
        self._config = ClientConfig(**client)
        self._listener = listener
        self._batch_size = batch_size
        self._on_assignment = on_assignment
        self._subscriptions = Subscriptions(topics, namespace=self._config.namespace)
        if consume_timestamp is None:
            consume_timestamp = SYSTEM_CLOCK.now_ms() - _HALF_AN_HOUR_MS
        if trace is True:
            trace = TRACE_TOPIC
        self._options = PushSettings(
            group=group,
            is_orderly=orderly,
            message_model=message_model_of(message_model),
            consume_from=ConsumeFrom.of(consume_from),
            consume_timestamp_ms=timestamp_ms(consume_timestamp),
            allocation=allocation or Average(),
            batch_size=batch_size or 1,
            concurrency=concurrency,
            pull_batch_size=pull_batch_size,
            pull_batch_bytes=pull_batch_bytes,
            pull_interval_ms=pull_interval_ms,
            max_span=max_span,
            pull_threshold=pull_threshold,
            pull_threshold_mib=pull_threshold_mib,
            pull_threshold_of_topic=pull_threshold_of_topic,
            pull_threshold_mib_of_topic=pull_threshold_mib_of_topic,
            max_reconsume_times=max_reconsume_times,
            suspend_ms=suspend_ms,
            consume_timeout_s=consume_timeout_s,
            post_subscription=post_subscription,
            hooks=tuple(hooks),
            filters=tuple(filters),
            trace_topic=trace or None,
            offset_folder=None if offset_folder is None else Path(offset_folder),
            close_timeout_s=close_timeout_s,
            rebalance=RebalanceTiming(
                interval_s=rebalance_interval_ms / 1000,
                min_interval_s=rebalance_min_interval_ms / 1000,
                retry_s=min(1.0, rebalance_interval_ms / 1000),
            ),
            lock_interval_s=lock_interval_ms / 1000,
            pull_error_delay_s=pull_error_delay_ms / 1000,
            pull_suspend_ms=pull_suspend_ms,
        )
        self._session: PushSession | None = None
        self._is_closed = False

    # ------------------------------------------------------------------ before the start

    def listener(self, function: F) -> F:
        """Decorate the function that gets the messages.

        >>> consumer = PushConsumer("billing", namesrv="127.0.0.1:9876", topics="orders")
        >>> @consumer.listener
        ... def on_message(message):
        ...     print(message.body)
        """
        if self._session is not None:
            raise InvalidState("the listener must be given before the consumer is started")
        Listener.of(function, self._batch_size)  # a wrong signature shows where it was written
        self._listener = function
        return function

    # ---------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Join the group and begin to consume.

        Returns when the queues are shared out, as far as brokers can be reached. A topic that
        does not exist yet, or a NameServer that is away, is waited for in the background.
        """
        if self._is_closed:
            raise ClientClosed(f"push consumer {self.group!r}")
        if self._session is not None:
            raise InvalidState(f"push consumer {self.group!r} is started already")
        if self._listener is None:
            raise MissingListener(
                f"push consumer {self.group!r} has no listener: pass listener=function, or "
                "decorate the function with @consumer.listener"
            )
        if not len(self._subscriptions):
            raise InvalidSettings(
                f"push consumer {self.group!r} subscribes to nothing: pass topics='orders', or "
                "call subscribe('orders')"
            )
        listener = Listener.of(self._listener, self._batch_size)
        settings = self._settings_for(listener)
        instance = await ClientInstance.acquire(
            self._config, unique_name=not settings.is_broadcasting
        )
        try:
            self._session = await self._new_session(instance, settings, listener)
        except BaseException:
            await instance.release()
            raise
        try:
            await self._session.start()
        except BaseException:
            session, self._session = self._session, None
            await session.close()
            raise

    def _settings_for(self, listener: Listener) -> PushSettings:
        if self._batch_size is None and listener.takes_list:
            # A listener for many gets as many as one pull brings.
            size = min(self._options.pull_batch_size, MAX_BATCH_SIZE)
            return replace(self._options, batch_size=size)
        return self._options

    async def _new_session(
        self, instance: ClientInstance, settings: PushSettings, listener: Listener
    ) -> PushSession:
        hooks = list(settings.hooks)
        trace = None
        if settings.trace_topic is not None:
            tracer = Producer.inner(instance, trace_group(settings.group, CONSUME))
            trace = Trace(instance, tracer, topic=settings.trace_topic)
            hooks.append(trace)
        return PushSession(
            instance,
            settings,
            self._subscriptions,
            listener,
            on_assignment=self._on_assignment,
            hooks=hooks,
            trace=trace,
        )

    async def close(self) -> None:
        """Finish what the listener has begun, store offsets, leave the group."""
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

    # ------------------------------------------------------------------ while it runs

    async def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Consume a topic as well, or something else of it; before or after the start."""
        subscription = self._subscriptions.add(topic, expression, SYSTEM_CLOCK.now_ms())
        if self._session is not None:
            await self._session.subscribe(subscription)

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer; what is cached of it is dropped."""
        if self._subscriptions.remove(topic) and self._session is not None:
            self._session.unsubscribed()

    def suspend(self) -> None:
        """Pull no more; what is cached is still consumed, and the queues stay ours."""
        self._running().suspend()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._running().resume()

    @property
    def group(self) -> str:
        return self._options.group

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._running().instance.client_id

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return sorted(self._running().assigned.queues())

    @property
    def is_suspended(self) -> bool:
        return self._running().is_suspended

    @property
    def concurrency(self) -> int:
        """How many listener calls may be under way at once. May be set at any time."""
        if self._session is None:
            return self._options.concurrency
        return self._session.consumption.runner.concurrency

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        self._options = replace(self._options, concurrency=concurrency)
        if self._session is not None:
            self._session.consumption.runner.concurrency = concurrency
            self._session.consumption.runner.wake()

    def _running(self) -> PushSession:
        if self._session is None:
            if self._is_closed:
                raise ClientClosed(f"push consumer {self.group!r}")
            raise ClientNotStarted(f"push consumer {self.group!r}")
        return self._session
