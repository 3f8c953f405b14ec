"""Offsets of many queues, as they stand in Spark's checkpoint and are shared out.

    {"orders": {"broker-a": {"0": 120, "1": 118}, "broker-b": {"0": 97}}}

Plain JSON: topic, broker, queue, the next offset to read.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rocketq.message.queue import MessageQueue

Offsets: TypeAlias = dict[MessageQueue, int]


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """For the checkpoint."""
    out: dict[str, Any] = {}
    for queue in sorted(offsets):
        brokers = out.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return out


def from_json(given: Mapping[str, Any]) -> Offsets:
    """From the checkpoint."""
    return {
        MessageQueue(topic, broker, int(queue)): int(offset)
        for topic, brokers in given.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }


def behind(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> Offsets:
    """How many messages each queue has from `start` to `end`; queues without any left out."""
    return {
        queue: until - start.get(queue, until)
        for queue, until in end.items()
        if until > start.get(queue, until)
    }


def limited(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], count: int
) -> Offsets:
    """An end at most `count` messages after `start`, shared out in proportion to the backlog.

    Every queue with a backlog gets at least one while there are enough, so that a small
    queue beside a large one is never starved.
    """
    lag = behind(start, end)
    total = sum(lag.values())
    if total <= count:
        return dict(end)
    shares = {queue: max(1, waiting * count // total) for queue, waiting in lag.items()}
    excess = sum(shares.values()) - count
    for queue in sorted(shares, key=lambda queue: -shares[queue]):
        if excess <= 0:
            break
        given_back = min(excess, shares[queue] - (0 if excess >= len(shares) else 1))
        shares[queue] -= given_back
        excess -= given_back
    left = count - sum(shares.values())
    for queue in sorted(lag, key=lambda queue: -lag[queue]):
        if left <= 0:
            break
        more = min(left, lag[queue] - shares[queue])
        shares[queue] += more
        left -= more
    return {
        queue: start[queue] + shares[queue] if queue in shares else until
        for queue, until in end.items()
    }
