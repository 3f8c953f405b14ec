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

from dataclasses import replace
from typing import TypeVar, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.consumer import Consumer
from rocketq.client.consumer.options import PushConfig, PushOptions
from rocketq.client.consumer.push.listener import Listener, ListenerFunction
from rocketq.client.consumer.push.session import PushSession
from rocketq.client.consumer.subscription import EVERYTHING, Expression
from rocketq.client.errors import InvalidSettings, InvalidState, MissingListener
from rocketq.client.options import configured, explained_by
from rocketq.client.producer.producer import Producer
from rocketq.client.trace.trace import CONSUME, Trace, trace_group
from rocketq.common.clock import ambient_clock
from rocketq.message.queue import MessageQueue

F = TypeVar("F", bound=ListenerFunction)


class PushConsumer(Consumer[PushSession]):
    """Consumes topics as a member of a group. Belongs to the event loop that starts it."""

    _KIND = "push consumer"
    _IS_STREAM = False

    @explained_by(PushConfig)
    def __init__(self, group: str, **options: Unpack[PushOptions]) -> None:
        """Make a consumer; nothing is sent before `start`.

        group: members of the same group share the messages.
        """
        self._config = configured(PushConfig, options, by="PushConsumer")
        super().__init__(group, self._config)
        if self._config.listener is not None:
            self._listener_of(self._config.listener)

    def listener(self, function: F) -> F:
        """Decorate the function that gets the messages.

        >>> consumer = PushConsumer("billing", namesrv="127.0.0.1:9876", topics="orders")
        >>> @consumer.listener
        ... def on_message(message):
        ...     print(message.body)
        """
        if self._session is not None:
            raise InvalidState("the listener must be given before the consumer is started")
        self._listener_of(function)
        self._config = replace(self._config, listener=function)
        return function

    def _listener_of(self, function: ListenerFunction) -> Listener:
        """A function with a wrong signature is refused where it is given."""
        return Listener.of(function, self._config.batch_size)

    # Life

    def _check_ready(self) -> None:
        if self._config.listener is None:
            raise MissingListener(
                f"{self} has no listener: pass listener=function, or decorate the function with "
                "@consumer.listener"
            )
        if not len(self._subscriptions):
            raise InvalidSettings(
                f"{self} subscribes to nothing: pass topics='orders', or call subscribe('orders')"
            )

    def _new_session(self, instance: ClientInstance) -> PushSession:
        config = self._config
        assert config.listener is not None
        listener = self._listener_of(config.listener)
        trace = None
        if config.trace_topic is not None:
            tracer = Producer.inner(instance, trace_group(self._group, CONSUME))
            trace = Trace(instance, tracer, topic=config.trace_topic)
        kind = PushSession
        if config.rebalance == "broker":
            # Loaded where it is asked for: few consumers pop.
            from rocketq.client.consumer.pop.push_session import PopPushSession

            kind = PopPushSession
        return kind(instance, self._group, config, self._subscriptions, listener, trace=trace)

    # While it runs

    async def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Consume a topic as well, or something else of it; before or after the start."""
        subscription = self._subscriptions.add(topic, expression, ambient_clock.get().now_ms())
        if self._session is not None:
            await self._session.subscribe(subscription)

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer; what is cached of it is dropped."""
        if self._subscriptions.remove(topic) and self._session is not None:
            self._session.subscriptions_changed()

    def suspend(self) -> None:
        """Pull no more; what is cached is still consumed, and the queues stay ours."""
        self._running().suspend()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._running().resume()

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return list(self._running().assignment)

    @property
    def is_suspended(self) -> bool:
        return self._running().is_suspended

    @property
    def concurrency(self) -> int:
        """How many listener calls may be under way at once. May be set at any time."""
        return self._config.concurrency if self._session is None else self._session.concurrency

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        self._config = replace(self._config, concurrency=concurrency)
        if self._session is not None:
            runner = self._session.consumption.runner
            runner.concurrency = concurrency
            runner.wake()
