"""The blocking consumers: the asyncio ones, for programs without an event loop.

    with PushConsumer("billing", namesrv="127.0.0.1:9876", topics="orders", listener=charge):
        signal.pause()

Listeners that are plain functions run in the consumer's own threads, `async` ones on the
loop that all blocking clients share.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from rocketq.client.blocking.face import Face, arguments_of, blocking, on_loop
from rocketq.client.consumer.consumer import Consumer
from rocketq.client.consumer.lite import consumer as aio_lite_pull
from rocketq.client.consumer.pull import consumer as aio_pull
from rocketq.client.consumer.pull import schedule as aio_schedule
from rocketq.client.consumer.push import consumer as aio_push
from rocketq.client.consumer.push.listener import ListenerFunction
from rocketq.client.consumer.simple import consumer as aio_simple
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue

A = TypeVar("A", bound=Consumer[Any])
F = TypeVar("F", bound=ListenerFunction)
C = TypeVar("C", bound=aio_schedule.PullCallback)


class ConsumerFace(Face[A]):
    """What the blocking consumers have in common."""

    message_queues = blocking(Consumer.message_queues)

    @property
    def group(self) -> str:
        return self._twin.group

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._on_loop(lambda: self._twin.client_id)


class PushConsumer(ConsumerFace[aio_push.PushConsumer]):
    """Consumes topics as a member of a group; messages come to a function of yours."""

    @arguments_of(aio_push.PushConsumer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(aio_push.PushConsumer(*arguments, **options))

    def listener(self, function: F) -> F:
        """Decorator: the function that is called with messages."""
        return self._twin.listener(function)

    subscribe = blocking(aio_push.PushConsumer.subscribe)
    unsubscribe = on_loop(aio_push.PushConsumer.unsubscribe)
    suspend = on_loop(aio_push.PushConsumer.suspend)
    resume = on_loop(aio_push.PushConsumer.resume)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return self._on_loop(lambda: self._twin.assignment)

    @property
    def is_suspended(self) -> bool:
        return self._on_loop(lambda: self._twin.is_suspended)

    @property
    def concurrency(self) -> int:
        """How many listener calls may be under way at once. May be set at any time."""
        return self._twin.concurrency

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        def change() -> None:
            self._twin.concurrency = concurrency

        self._on_loop(change)


class LitePullConsumer(ConsumerFace[aio_lite_pull.LitePullConsumer]):
    """Hands out messages on request."""

    @arguments_of(aio_lite_pull.LitePullConsumer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(aio_lite_pull.LitePullConsumer(*arguments, **options))

    subscribe = blocking(aio_lite_pull.LitePullConsumer.subscribe)
    unsubscribe = on_loop(aio_lite_pull.LitePullConsumer.unsubscribe)
    assign = blocking(aio_lite_pull.LitePullConsumer.assign)
    poll = blocking(aio_lite_pull.LitePullConsumer.poll)
    commit = blocking(aio_lite_pull.LitePullConsumer.commit)
    committed = blocking(aio_lite_pull.LitePullConsumer.committed)
    seek = blocking(aio_lite_pull.LitePullConsumer.seek)
    seek_to_begin = blocking(aio_lite_pull.LitePullConsumer.seek_to_begin)
    seek_to_end = blocking(aio_lite_pull.LitePullConsumer.seek_to_end)
    seek_to_time = blocking(aio_lite_pull.LitePullConsumer.seek_to_time)
    offset_for_timestamp = blocking(aio_lite_pull.LitePullConsumer.offset_for_timestamp)
    pause = on_loop(aio_lite_pull.LitePullConsumer.pause)
    resume = on_loop(aio_lite_pull.LitePullConsumer.resume)

    def __iter__(self) -> Iterator[MessageExt]:
        """All messages, one by one, without end."""
        messages = self._on_loop(self._twin.__aiter__)
        while True:
            message = self._thread.run(_next_of(messages), what=self._name)
            if message is None:
                return
            yield message

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member has at the moment."""
        return self._on_loop(lambda: self._twin.assignment)


class PullConsumer(ConsumerFace[aio_pull.PullConsumer]):
    """Pulls on request and remembers offsets."""

    @arguments_of(aio_pull.PullConsumer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(aio_pull.PullConsumer(*arguments, **options))

    register_topic = on_loop(aio_pull.PullConsumer.register_topic)
    on_assignment = on_loop(aio_pull.PullConsumer.on_assignment)
    pull = blocking(aio_pull.PullConsumer.pull)
    pull_block_if_not_found = blocking(aio_pull.PullConsumer.pull_block_if_not_found)
    send_message_back = blocking(aio_pull.PullConsumer.send_message_back)
    message_queues_in_balance = on_loop(aio_pull.PullConsumer.message_queues_in_balance)
    consume_offset = blocking(aio_pull.PullConsumer.consume_offset)
    update_consume_offset = on_loop(aio_pull.PullConsumer.update_consume_offset)
    max_offset = blocking(aio_pull.PullConsumer.max_offset)
    min_offset = blocking(aio_pull.PullConsumer.min_offset)
    search_offset = blocking(aio_pull.PullConsumer.search_offset)


class SimpleConsumer(ConsumerFace[aio_simple.SimpleConsumer]):
    """Takes messages on request, one acknowledgement each."""

    @arguments_of(aio_simple.SimpleConsumer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(aio_simple.SimpleConsumer(*arguments, **options))

    subscribe = blocking(aio_simple.SimpleConsumer.subscribe)
    unsubscribe = on_loop(aio_simple.SimpleConsumer.unsubscribe)
    receive = blocking(aio_simple.SimpleConsumer.receive)
    ack = blocking(aio_simple.SimpleConsumer.ack)
    change_invisible = blocking(aio_simple.SimpleConsumer.change_invisible)


class PullSchedule(Face[aio_schedule.PullSchedule]):
    """Calls a function of yours for each queue, again and again."""

    def __init__(
        self, consumer: PullConsumer, *, concurrency: int = 20, delay_ms: int = 200
    ) -> None:
        """Make a schedule around a pull consumer that is not started."""
        super().__init__(
            aio_schedule.PullSchedule(
                consumer._twin, concurrency=concurrency, delay_ms=delay_ms, handed_out=consumer
            )
        )

    def callback(self, topic: str) -> Callable[[C], C]:
        """Decorate the function that pulls a topic's queues."""
        return self._twin.callback(topic)

    register = on_loop(aio_schedule.PullSchedule.register)


async def _next_of(messages: AsyncIterator[MessageExt]) -> MessageExt | None:
    return await anext(messages, None)
