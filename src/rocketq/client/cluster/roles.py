"""What a client instance asks of the producers and consumers that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketq.remoting.headers import CheckTransactionState


class ProducerRole(Protocol):
    """What the instance asks of a producer."""

    @property
    def group(self) -> str: ...

    def announced_topics(self) -> Iterable[str]:
        """Whose brokers are to know of the group before anything is sent to them."""
        ...

    def check_transaction(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        """Find out what became of a half message's transaction, and tell that broker (39)."""
        ...


class ConsumerRole(Protocol):
    """What the instance asks of a consumer."""

    @property
    def group(self) -> str: ...

    def consumer_data(self) -> ConsumerData:
        """The group and its subscriptions, for heartbeats."""
        ...

    def topics(self) -> Iterable[str]:
        """Whose routes are to be kept fresh."""
        ...

    def routes_changed(self, topic: str) -> None: ...

    def rebalance_soon(self) -> None:
        """The members of the group have changed (40), or a broker was reached anew."""
        ...

    async def persist_offsets(self) -> None: ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets (220)."""
        ...

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """The offsets consumed so far (221)."""
        ...

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """How the consumer is doing (307)."""
        ...

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        """Run the listener on this message; offsets stay as they are (309)."""
        ...
