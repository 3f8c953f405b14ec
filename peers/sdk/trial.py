"""What the features have in common: names of their own, clients that are closed, waiting."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from rocketq.aio import Message, MessageExt, Producer, PushConsumer

WITHIN_S = 40.0
RUN = f"{time.time_ns() // 1_000_000 & 0xFFFFFF:x}"
_numbers = itertools.count(1)


class Trial:
    """One feature being tried; whatever it opened is closed at its end."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    def topic(self) -> str:
        return f"P{RUN}_{next(_numbers)}"

    def group(self) -> str:
        return f"Q{RUN}_{next(_numbers)}"

    async def opened(self, client: Any) -> Any:
        """Start a client that is closed when the feature is over."""
        return await self._open.enter_async_context(client)

    async def producer(self, **options: Any) -> Producer:
        # Machines under test are busy machines: the usual three seconds say nothing here.
        options.setdefault("send_timeout_s", 30)
        producer: Producer = await self.opened(
            Producer(self.group(), namesrv=self.namesrv, **options)
        )
        return producer

    async def fill(self, topic: str, count: int) -> None:
        producer = await self.producer()
        for number in range(count):
            await producer.send(Message(topic, b"m%d" % number))

    def consumer(self, group: str, listener: Callable[..., Any], **options: Any) -> PushConsumer:
        options.setdefault("consume_from", "first")
        return PushConsumer(group, listener=listener, namesrv=self.namesrv, **options)

    async def consume(self, topic: str, expression: Any, count: int) -> list[MessageExt]:
        """What a new group is given of a topic; it has to be exactly so many."""
        received: list[MessageExt] = []
        consumer = self.consumer(self.group(), collecting(received), topics={topic: expression})
        async with consumer:
            await until(lambda: len(received) >= count, f"{count} messages of {topic}")
        equal(len(received), count)
        return received


Feature = Callable[[Trial], Awaitable[None]]


def collecting(received: list[MessageExt]) -> Callable[[MessageExt], Awaitable[None]]:
    """A listener that keeps what it is given."""

    async def listener(message: MessageExt) -> None:
        received.append(message)

    return listener


async def until(
    holds: Callable[[], bool | Awaitable[bool]], what: str, within_s: float = WITHIN_S
) -> None:
    """Ask again and again until something is so; a failure to ask counts as not yet."""
    deadline = time.monotonic() + within_s
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
        except Exception as failure:
            last = failure
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {within_s} s: {what}" + (f" ({last})" if last else ""))


def bodies(messages: Iterable[MessageExt]) -> set[str]:
    return {bytes(message.body).decode() for message in messages}


def numbered(prefix: str, count: int) -> set[str]:
    return {f"{prefix}{number}" for number in range(count)}


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def equal(actual: object, wanted: object) -> None:
    check(actual == wanted, f"wanted {wanted}, got {actual}")
