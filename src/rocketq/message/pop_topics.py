"""Where popped messages that nobody acknowledged come back: a retry topic per group and topic."""

from typing import Final

from rocketq.message.names import RETRY_PREFIX


class RetryKind:
    """Which topic of a group a popped message came from, as one character."""

    NORMAL: Final = "0"
    RETRY_V1: Final = "1"
    RETRY_V2: Final = "2"

    ALL: Final = (NORMAL, RETRY_V1, RETRY_V2)


def retry_topic_v1(group: str, topic: str) -> str:
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(group: str, topic: str) -> str:
    return f"{RETRY_PREFIX}{group}+{topic}"


def real_topic(group: str, topic: str, kind: str) -> str:
    """The topic that holds a message of a kind."""
    if kind == RetryKind.RETRY_V1:
        return retry_topic_v1(group, topic)
    return retry_topic_v2(group, topic) if kind == RetryKind.RETRY_V2 else topic
