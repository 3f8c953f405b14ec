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

    Every queue with a backlog gets at least one, so that a small queue beside a large one is
    not starved. Where there are more queues than messages, the longest backlogs come first.
    """
    lag = behind(start, end)
    total = sum(lag.values())
    if total <= count:
        return dict(end)
    by_lag = sorted(lag, key=lambda queue: (-lag[queue], queue))
    shares = dict.fromkeys(by_lag[:count], 1)
    left, beyond = count - len(shares), total - len(shares)
    if left:
        for queue in by_lag:
            shares[queue] += (lag[queue] - 1) * left // beyond
        # What rounding down has left over is less than one for each.
        over = count - sum(shares.values())
        for queue in [queue for queue in by_lag if shares[queue] < lag[queue]][:over]:
            shares[queue] += 1
    return {
        queue: start[queue] + shares.get(queue, 0) if queue in lag else until
        for queue, until in end.items()
    }
