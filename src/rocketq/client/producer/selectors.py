"""Choosing the queue a message goes to.

A selector is any function `(queues, message, argument) -> queue`. Messages that must keep
their order go to one queue: `by_hash` sends equal arguments to the same queue, and does it
as Java's `SelectMessageQueueByHash` does, so that producers in both languages agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from rocketq.client.cluster.routes import PublishInfo
from rocketq.client.producer.latency_faults import LatencyFaults
from rocketq.message.hashing import java_hash
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]

QueueChoice: TypeAlias = Callable[[PublishInfo], MessageQueue]
"""How one message's queue is found once the topic's queues are known."""


def by_hash(queues: Sequence[MessageQueue], message: Message, argument: Hashable) -> MessageQueue:
    """Equal arguments, equal queue, as long as the number of queues stays."""
    return queues[abs(_java_hash_of(argument)) % len(queues)]


def by_random(queues: Sequence[MessageQueue], message: Message, argument: object) -> MessageQueue:
    """Any queue."""
    return random.choice(queues)


def by_sharding_key(
    queues: Sequence[MessageQueue], message: Message, argument: object
) -> MessageQueue:
    """The queue of the message's own sharding key (what `send` does when there is one)."""
    return by_hash(queues, message, message.sharding_key or "")


def _java_hash_of(value: Hashable) -> int:
    """`Object.hashCode` of what Java would have in this value's place."""
    if isinstance(value, str):
        return java_hash(value)
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return value
        # java.lang.Long: the halves, one over the other.
        folded = (value ^ ((value & (1 << 64) - 1) >> 32)) & 0xFFFFFFFF
        return folded - (1 << 32) if folded >= 1 << 31 else folded
    return java_hash(str(value))


class QueueRotation:
    """Round robin over all queues of a topic, for messages that may go anywhere.

    Owned by one producer. A retry leaves out the broker that has just failed, unless it is
    the only one; with `faults`, brokers known to be slow or gone are left out too.
    """

    def __init__(
        self, *, faults: LatencyFaults | None = None, chance: random.Random | None = None
    ) -> None:
        self._faults = faults
        self._turns: dict[str, int] = {}
        self._chance = chance or random.Random()

    def next_queue(
        self, topic: str, queues: Sequence[MessageQueue], *, avoid_broker: str | None = None
    ) -> MessageQueue:
        """The next queue in turn."""
        count = len(queues)
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._chance.randrange(count)
        self._turns[topic] = turn + 1
        if avoid_broker is None and self._faults is None:
            return queues[turn % count]
        return self._choose(queues, turn, avoid_broker)

    def turn_of(self, topic: str) -> int:
        """Whose turn it is, for those who go on counting themselves."""
        return self._turns.get(topic, 0)

    def _choose(
        self, queues: Sequence[MessageQueue], turn: int, avoid_broker: str | None
    ) -> MessageQueue:
        in_turn = [queues[(turn + step) % len(queues)] for step in range(len(queues))]
        others = [queue for queue in in_turn if queue.broker_name != avoid_broker]
        faults = self._faults
        if faults is not None:
            for acceptable in (faults.is_available, faults.is_reachable):
                for queue in others:
                    if acceptable(queue.broker_name):
                        return queue
        return (others or in_turn)[0]
