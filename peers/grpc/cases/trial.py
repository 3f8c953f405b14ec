"""What the cases have in common: topics and groups of their own, clients that are closed."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc.aio
from tests.proxy.bare_client import Client, Received

from rocketq.admin import groups, topics
from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.proxy.protocol import messages as pb
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig

HEARTBEAT_S = 5.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class System:
    """What is tried."""

    kind: str
    target: str
    namesrv: str
    admin: BrokerApi

    @property
    def is_java(self) -> bool:
        """Whether the proxy is RocketMQ's."""
        return self.kind in ("java", "java-ours")

    @property
    def has_java_broker(self) -> bool:
        return self.kind in ("java", "proxy-java")

    @property
    def is_in_broker(self) -> bool:
        return self.kind == "rocketq"

    @property
    def port(self) -> int:
        return int(self.target.rpartition(":")[2])


class Consumer(Client):
    """A bare client that has said which group it is of, and that it still is."""

    group: str
    topic: str
    stream_of_commands: Any
    _beating: "asyncio.Task[None] | None" = None

    async def join(self, group: str, topic: str, client_type: int) -> Self:
        self.group, self.topic = group, topic
        settings = self.consumer_settings(group, topic, client_type=client_type)
        self.stream_of_commands = await self.introduce(settings)
        await self.beat()
        self._beating = asyncio.ensure_future(self._beat_on())
        return self

    async def beat(self) -> None:
        beat = pb.HeartbeatRequest(
            group=pb.Resource(name=self.group), client_type=pb.SIMPLE_CONSUMER
        )
        answer = await self.call("Heartbeat", beat)
        equal(answer.status.code, pb.OK)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.beat()

    def fall_silent(self) -> None:
        """As a process that was killed, but for its connection."""
        if self._beating is not None:
            self._beating.cancel()

    async def goodbye(self) -> int:
        self.fall_silent()
        request = pb.NotifyClientTerminationRequest(group=pb.Resource(name=self.group))
        answer = await self.call("NotifyClientTermination", request)
        return int(answer.status.code)

    async def pop(self, **more: Any) -> Received:
        """One receive; push consumers have what they hold renewed."""
        if more.get("auto_renew"):
            more.setdefault("invisible_s", None)
        more.setdefault("poll_s", 5)
        return await self.receive(self.topic, self.group, **more)

    async def found(self, count: int, within_s: float = 60.0, **more: Any) -> list[Any]:
        """So many messages, however many receives that takes."""
        found: list[Any] = []
        deadline = time.monotonic() + within_s
        while len(found) < count:
            check(time.monotonic() < deadline, f"only {len(found)} of {count} messages")
            received = await self.pop(**more)
            found += received.messages
            if received.code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
                await asyncio.sleep(0.5)  # a route that the proxy does not know yet
        equal(len(found), count)
        return found

    async def close(self) -> None:
        self.fall_silent()
        await super().close()


class Trial:
    """One case being tried; whatever it opened is closed at its end."""

    def __init__(self, system: System, name: str) -> None:
        self.system = system
        self._prefix = f"C{time.time_ns() // 1_000_000 & 0xFFFFFF:x}-{name}"
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

    def name(self) -> str:
        return f"{self._prefix}-{next(_numbers)}"

    def client(self, **metadata: str) -> Client:
        client = Client(self.system.target, **metadata)
        self._open.push_async_callback(client.close)
        return client

    async def opened(self, client: Any) -> Any:
        return await self._open.enter_async_context(client)

    async def consumer(
        self, topic: str, group: str | None = None, *, push: bool = False, begins: bool = True
    ) -> Consumer:
        """A consumer that is known; its group begins here, where the topic is still empty."""
        if group is None:
            group = await self.group()
        consumer = Consumer(self.system.target)
        self._open.push_async_callback(consumer.close)
        await consumer.join(group, topic, pb.PUSH_CONSUMER if push else pb.SIMPLE_CONSUMER)
        if begins:
            equal((await consumer.pop(auto_renew=push)).code, pb.MESSAGE_NOT_FOUND)
        return consumer

    async def topic(
        self, kind: str = "NORMAL", *, read: int = 4, write: int = 4, perm: int = 6
    ) -> str:
        name = self.name()
        config = TopicConfig(
            topic_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm
        )
        api = self.system.admin
        addresses = await brokers.masters(api, "DefaultCluster")
        attributes = f"+message.type={kind}" if kind else ""
        await topics.create(api, config, addresses, attributes=attributes)
        return name

    async def group(self, **config: Any) -> str:
        name = self.name()
        api = self.system.admin
        addresses = await brokers.masters(api, "DefaultCluster")
        await groups.create(api, SubscriptionGroupConfig(group_name=name, **config), addresses)
        return name

    def either(self, java: Any, ours: Any) -> Any:
        """What is wanted of RocketMQ's proxy, and of ours."""
        return java if self.system.is_java else ours


Case = Callable[[Trial], Awaitable[None]]


async def ending(client: Client, *settings: Any) -> tuple[list[Any], Any]:
    """A stream of commands with these settings: what comes, and how it ends."""
    stream = client.telemetry()
    for each in settings:
        await stream.write(pb.TelemetryCommand(settings=each))
    answers = []
    try:
        async with asyncio.timeout(20):
            while (answer := await stream.read()) is not grpc.aio.EOF:
                answers.append(answer)
    except grpc.aio.AioRpcError:
        pass
    return answers, await stream.code()


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def equal(actual: object, wanted: object) -> None:
    check(actual == wanted, f"wanted {wanted}, got {actual}")
