"""What the tests of consumers share: somewhere to put what arrives, and ways to wait for it."""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypedDict, Unpack

from rocketq.client.consumer.options import PushOptions
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.consumer.push.listener import ListenerFunction
from rocketq.client.consumer.subscription import Topics
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message, MessageExt
from tests.waiting import eventually


class RebalanceTimers(TypedDict):
    rebalance_interval_ms: int
    rebalance_min_interval_ms: int


class Timers(RebalanceTimers):
    pull_error_delay_ms: int


# Timers of consumers, shortened so that tests need not wait for them.
QUICK_REBALANCE = RebalanceTimers(rebalance_interval_ms=500, rebalance_min_interval_ms=20)
QUICK = Timers(**QUICK_REBALANCE, pull_error_delay_ms=50)


class Broker(Protocol):
    """What tests need of the broker they run against (fixture `broker`)."""

    @property
    def namesrv(self) -> str: ...

    async def new_topic(self, queues: int = 4) -> str: ...

    def new_group(self) -> str: ...

    async def wait_for_messages(self, topic: str, count: int) -> list[MessageExt]: ...


class Received:
    """Messages in the order in which a listener got them; usable from threads too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.messages: list[MessageExt] = []

    def __call__(self, message: MessageExt) -> None:
        with self._lock:
            self.messages.append(message)

    def all(self, messages: Iterable[MessageExt]) -> None:
        with self._lock:
            self.messages.extend(messages)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def times(self, body: bytes) -> int:
        return Counter(self.bodies)[body]

    async def wait_for(self, bodies: Iterable[bytes]) -> None:
        """Wait until each of these has come at least once."""
        wanted = set(bodies)
        await eventually(
            lambda: wanted <= set(self.bodies),
            f"{len(wanted)} messages, {len(set(self.bodies))} came",
        )

    async def wait_for_count(self, count: int) -> None:
        await eventually(lambda: len(self) >= count, f"{count} messages, {len(self)} came")


def bodies(count: int, prefix: str = "message") -> list[bytes]:
    return [f"{prefix} {number}".encode() for number in range(count)]


async def send_all(producer: Producer, topic: str, payloads: Iterable[bytes]) -> None:
    for payload in payloads:
        await producer.send(Message(topic, payload))


def consuming(
    broker: Broker,
    topic: Topics,
    function: ListenerFunction,
    *,
    group: str | None = None,
    **options: Unpack[PushOptions],
) -> PushConsumer:
    """A push consumer of a topic from its beginning on, in a new group unless one is given."""
    options.setdefault("consume_from", "first")
    options["namesrv"] = broker.namesrv
    options["topics"] = topic
    options["listener"] = function
    return PushConsumer(group or broker.new_group(), **options)
