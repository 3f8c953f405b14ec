"""Texts that clients and tools know from RocketMQ and look for in replies."""

from typing import Final

_FAQ: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"

PRESET: Final = "not set any response code"
"""Left on some successful replies, as RocketMQ does; clients look at the code alone."""


def with_hint(text: str) -> str:
    """Add where to read more, as RocketMQ does."""
    return f"{text}\nSee {_FAQ} for further details."


def topic_missing(topic: str) -> str:
    return with_hint(f"topic[{topic}] not exist, apply first please!")


def system_busy(kind: str) -> str:
    """`OVERLOAD` and `REJECTREQUEST` come before a request is looked at."""
    return f"[{kind}]system busy, start flow control for a while"


def broker_busy(kind: str) -> str:
    """`PC_SYNCHRONIZED` and the like come from the store or the queue before it."""
    return f"[{kind}]broker busy, start flow control for a while"
