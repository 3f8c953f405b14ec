"""The simple consumer: take messages, and say which are done.

    async with SimpleConsumer("billing", namesrv="127.0.0.1:9876", topics="orders") as consumer:
        while True:
            for message in await consumer.receive(max_messages=16, invisible_s=30):
                await charge(message.body)
                await consumer.ack(message)

Nothing is shared out among the members of a group: whoever asks gets the next messages, of any
queue. They stay invisible to the others for a time; what is not acknowledged by then comes again.
There is no offset to keep, and a slow message holds up no other. Needs brokers of RocketMQ 5, or
rocketq's.
"""

from collections.abc import Iterable
from typing import Final, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.consumer import Consumer
from rocketq.client.consumer.options import SimpleConfig, SimpleOptions
from rocketq.client.consumer.simple.session import SimpleSession
from rocketq.client.consumer.subscription import EVERYTHING, Expression
from rocketq.client.errors import InvalidSettings
from rocketq.client.options import configured, explained_by
from rocketq.common.clock import ambient_clock
from rocketq.message.message import MessageExt

_MOST_MESSAGES: Final = 10_000
_LONGEST_INVISIBLE_S: Final = 7 * 24 * 3600


class SimpleConsumer(Consumer[SimpleSession]):
    """Takes messages on request, one acknowledgement each. Belongs to the loop that starts it."""

    _KIND = "simple consumer"
    _IS_STREAM = False

    @explained_by(SimpleConfig)
    def __init__(self, group: str, **options: Unpack[SimpleOptions]) -> None:
        """Make a consumer; nothing is sent before `start`.

        group: members of the same group share the messages.
        """
        self._config = configured(SimpleConfig, options, by="SimpleConsumer")
        super().__init__(group, self._config)

    def _check_ready(self) -> None:
        if not len(self._subscriptions):
            raise InvalidSettings(
                f"{self} subscribes to nothing: pass topics='orders', or call subscribe('orders')"
            )

    def _new_session(self, instance: ClientInstance) -> SimpleSession:
        return SimpleSession(instance, self._group, self._config, self._subscriptions)

    async def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Consume a topic as well, or something else of it; before or after the start."""
        subscription = self._subscriptions.add(topic, expression, ambient_clock.get().now_ms())
        if self._session is not None:
            await self._session.find_route(subscription.topic)
            await self._session.instance.heartbeat()

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer; what was received of it may still be acknowledged."""
        if self._subscriptions.remove(topic) and self._session is not None:
            self._session.instance.heartbeat_soon()

    # Messages

    async def receive(
        self,
        max_messages: int = 32,
        invisible_s: float | None = None,
        wait_s: float | None = None,
    ) -> list[MessageExt]:
        """Take up to `max_messages`; an empty list when none has come within the wait.

        invisible_s: how long others do not get them; `invisible_s` of the options unless given.
        wait_s: how long to wait for the first; `wait_s` of the options unless given, 0: not at all.
        """
        if not 1 <= max_messages <= _MOST_MESSAGES:
            raise InvalidSettings(
                f"max_messages must be within 1 and {_MOST_MESSAGES}, not {max_messages}"
            )
        if wait_s is not None and not wait_s >= 0:
            raise InvalidSettings(f"wait_s must be at least 0, not {wait_s}")
        invisible_s = self._config.invisible_s if invisible_s is None else invisible_s
        wait_s = self._config.wait_s if wait_s is None else wait_s
        invisible_ms = _time_ms(invisible_s)
        return await self._running().receive(max_messages, invisible_ms, wait_s)

    async def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """One message is done, or many: they do not come again."""
        await self._running().requests.ack(_listed(messages))

    async def change_invisible(
        self, messages: MessageExt | Iterable[MessageExt], seconds: float
    ) -> None:
        """Hide these messages for this long from now on, instead of as long as was said first.

        More time for slow work, or less for work that failed. The message's receipt changes with
        it: acknowledge the same object, not a copy of before.
        """
        await self._running().requests.change_invisible(_listed(messages), _time_ms(seconds))


def _listed(messages: MessageExt | Iterable[MessageExt]) -> list[MessageExt]:
    return [messages] if isinstance(messages, MessageExt) else list(messages)


def _time_ms(seconds: float) -> int:
    if not 0 < seconds <= _LONGEST_INVISIBLE_S:
        raise InvalidSettings(
            f"an invisible time is above 0 and at most {_LONGEST_INVISIBLE_S} s, not {seconds}"
        )
    return max(round(seconds * 1000), 1)
