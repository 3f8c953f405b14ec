"""Objects in, objects out: RocketMQ-Spring's template and listeners, for Python.

    rocketmq = Template("shop", namesrv="127.0.0.1:9876")

    @rocketmq.listener(topic="orders", group="billing", tag="paid")
    async def charge(order: Order) -> None:
        ...

    rocketmq.run()                               # until Ctrl-C or SIGTERM

    async with rocketmq:                         # or inside an application:
        await rocketmq.send("orders:paid", Order(id=42))

    app = FastAPI(lifespan=rocketmq.lifespan)    # or with one

A destination is `topic` or `topic:tag`. Payloads are bytes, text, pydantic models,
dataclasses, or anything JSON can say; a listener gets what the annotation of its parameter
asks for. What a listener returns is sent as the reply to a request.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import signal
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, TypeVar, Unpack

import orjson

from rocketq.client.blocking.loop_thread import run
from rocketq.client.config import ClientOptions
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.consumer.subscription import Sql
from rocketq.client.errors import InvalidState
from rocketq.client.producer.options import ProducerOptions
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.request_reply import reply_to
from rocketq.client.producer.result import SendResult
from rocketq.common.loop.service import AsyncLife
from rocketq.message.message import Message, MessageExt
from rocketq.message.properties.codec import PropertyName

CONTENT_TYPE: Final = "contentType"

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class SendOptions(TypedDict, total=False):
    """What may be said about a message besides its payload."""

    keys: str | list[str]
    headers: Mapping[str, str]
    delay_level: int
    delay: float | timedelta
    delay_ms: int
    deliver_at: datetime | int
    deliver_at_ms: int
    priority: int
    order_by: str
    """Messages with the same text keep their order (they share a queue)."""


class Template(AsyncLife):
    """One producer and any number of listeners, started and stopped together."""

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        """`group` names the producer; options are the producer's, and the listeners' too."""
        self._group = group
        self._options = options
        self._producer = Producer(group, **options)
        self._listeners: list[_ListenerSpec] = []
        self._running: AsyncExitStack | None = None

    # Life

    async def start(self) -> None:
        """Start the producer, then the listeners."""
        if self._running is not None:
            raise InvalidState("this template is started already")
        async with AsyncExitStack() as stack:
            self._producer = await stack.enter_async_context(Producer(self._group, **self._options))
            for spec in self._listeners:
                await stack.enter_async_context(self._consumer(spec))
            self._running = stack.pop_all()

    async def close(self) -> None:
        """Stop the listeners, then the producer. May be called twice."""
        running, self._running = self._running, None
        if running is not None:
            await running.aclose()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """For `FastAPI(lifespan=...)` and `Starlette(lifespan=...)`."""
        async with self:
            yield

    def run(self) -> None:
        """Serve the listeners until Ctrl-C or SIGTERM."""
        run(self._run())

    async def _run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with self:
            await stop.wait()

    # Sending

    async def send(
        self, destination: str, payload: Any, **options: Unpack[SendOptions]
    ) -> SendResult:
        """Send an object to `topic` or `topic:tag`, and wait for the receipt."""
        return await self._producer.send(message_of(destination, payload, **options))

    def send_soon(
        self, destination: str, payload: Any, **options: Unpack[SendOptions]
    ) -> asyncio.Future[SendResult]:
        """Send an object; the future gets the receipt."""
        return self._producer.send_soon(message_of(destination, payload, **options))

    async def send_oneway(
        self, destination: str, payload: Any, **options: Unpack[SendOptions]
    ) -> None:
        """Send an object without a receipt."""
        await self._producer.send_oneway(message_of(destination, payload, **options))

    async def send_all(
        self, destination: str, payloads: typing.Iterable[Any], **options: Unpack[SendOptions]
    ) -> list[SendResult]:
        """Send many objects as batches."""
        return await self._producer.send_batch(
            [message_of(destination, payload, **options) for payload in payloads]
        )

    async def request(
        self,
        destination: str,
        payload: Any,
        reply_type: type[T],
        *,
        timeout_s: float | None = None,
        **options: Unpack[SendOptions],
    ) -> T:
        """Send an object and wait for the object that a listener returns for it."""
        message = message_of(destination, payload, **options)
        reply = await self._producer.request(message, timeout_s=timeout_s)
        return typing.cast(T, payload_of(reply, reply_type))

    # Listening

    def listener(
        self,
        *,
        topic: str,
        group: str,
        tag: str = "*",
        sql: str | None = None,
        orderly: bool = False,
        **consumer: Any,
    ) -> Callable[[F], F]:
        """Decorator: call a function with the payload of each message.

        Further options are those of `PushConsumer`. Raising means that the message is to
        come again later.
        """

        def register(function: F) -> F:
            expression: str | Sql = tag if sql is None else Sql(sql)
            options = {"topics": {topic: expression}, "orderly": orderly, **consumer}
            self._listeners.append(_ListenerSpec(function, group, options))
            return function

        return register

    def _consumer(self, spec: _ListenerSpec) -> PushConsumer:
        client = {
            name: value
            for name, value in self._options.items()
            if name in ClientOptions.__annotations__ and name != "instance_name"
        }
        return PushConsumer(
            spec.group, listener=self._adapted(spec.function), **{**client, **spec.options}
        )

    def _adapted(self, function: Callable[..., Any]) -> Callable[[MessageExt], Any]:
        """The listener as a push consumer wants it: one message in, a status out."""
        target = _payload_type(function)

        async def call(message: MessageExt) -> None:
            await answer(message, await function(payload_of(message, target)))

        async def call_plain(message: MessageExt) -> None:
            payload = payload_of(message, target)
            await answer(message, await asyncio.to_thread(function, payload))

        async def answer(message: MessageExt, returned: Any) -> None:
            if message.get_property(PropertyName.REPLY_TO_CLIENT) and returned is not None:
                body, _ = encode_payload(returned)
                await self._producer.send(reply_to(message, body))

        return call if inspect.iscoroutinefunction(function) else call_plain


class _ListenerSpec(typing.NamedTuple):
    function: Callable[..., Any]
    group: str
    options: dict[str, Any]


# Converting


def message_of(destination: str, payload: Any, **options: Unpack[SendOptions]) -> Message:
    """The message for an object."""
    topic, _, tag = destination.partition(":")
    body, content_type = encode_payload(payload)
    return Message(
        topic,
        body,
        tags=tag or None,
        keys=options.get("keys", ()),
        properties={CONTENT_TYPE: content_type, **options.get("headers", {})},
        delay_level=options.get("delay_level", 0),
        delay=options.get("delay"),
        delay_ms=options.get("delay_ms"),
        deliver_at=options.get("deliver_at"),
        deliver_at_ms=options.get("deliver_at_ms"),
        priority=options.get("priority"),
        sharding_key=options.get("order_by"),
    )


def encode_payload(payload: Any) -> tuple[bytes, str]:
    """An object as bytes, and what kind of bytes they are."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), "application/octet-stream"
    if isinstance(payload, str):
        return payload.encode(), "text/plain;charset=UTF-8"
    if hasattr(payload, "model_dump_json"):  # pydantic, which need not be installed
        return payload.model_dump_json().encode(), "application/json"
    return orjson.dumps(payload), "application/json"


def payload_of(message: MessageExt, target: Any) -> Any:
    """A message's body as the wanted type."""
    if target is MessageExt:
        return message
    body = message.body
    if target is bytes:
        return body
    if target is str:
        return body.decode()
    if hasattr(target, "model_validate_json"):
        return target.model_validate_json(body)
    if dataclasses.is_dataclass(target) and isinstance(target, type):
        return target(**orjson.loads(body))
    return orjson.loads(body)


def _payload_type(function: Callable[..., Any]) -> Any:
    """What a listener wants: the annotation of its first parameter; none means the message."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InvalidState(f"{function.__qualname__} takes nothing: a listener takes the payload")
    hints = typing.get_type_hints(function)
    return hints.get(parameters[0].name, MessageExt)
