"""Names of topics and groups: which are allowed, which are reserved, how they are derived.

A consumer group has a retry topic and a dead-letter topic, named by prefix:

    %RETRY%<group>     messages the group failed to consume, to be delivered again
    %DLQ%<group>       messages the group failed to consume too often

A namespace, where one is used, goes between such a prefix and the name:
`%RETRY%<namespace>%<group>`, `<namespace>%<topic>`.
"""

import re
from collections.abc import Collection
from typing import Final

from rocketq.common.errors import RocketqError

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
NAMESPACE_SEPARATOR: Final = "%"

TOPIC_MAX_LENGTH: Final = 127
DERIVED_TOPIC_MAX_LENGTH: Final = 255
"""What a broker allows retry and dead-letter topics, whose group may itself be 120 long."""
GROUP_MAX_LENGTH: Final = 120

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The template from which a broker creates a topic at the first message for it."""
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Where messages with a delay level wait, one queue for each level."""
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_MAX_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
REVIVE_LOG_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
"""Where check points and acknowledgements of pops wait; the cluster's name follows."""

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SELF_TEST_TOPIC,
        BENCHMARK_TOPIC,
        OFFSET_MOVED_TOPIC,
        SCHEDULE_TOPIC,
        TRACE_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        ROCKSDB_TRANSACTION_HALF_TOPIC,
        ROCKSDB_TRANSACTION_OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
    }
)
"""The topics nobody may send to: their messages are made by the broker itself."""

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
SCHEDULE_CONSUMER_GROUP: Final = "SCHEDULE_CONSUMER"
FILTER_SERVER_GROUP: Final = "FILTERSRV_CONSUMER"
MONITOR_CONSUMER_GROUP: Final = "__MONITOR_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
SELF_TEST_PRODUCER_GROUP: Final = "SELF_TEST_P_GROUP"
SELF_TEST_CONSUMER_GROUP: Final = "SELF_TEST_C_GROUP"
ONS_HTTP_PROXY_GROUP: Final = "CID_ONS-HTTP-PROXY"
ONS_PERMISSION_GROUP: Final = "CID_ONSAPI_PERMISSION"
ONS_OWNER_GROUP: Final = "CID_ONSAPI_OWNER"
ONS_PULL_GROUP: Final = "CID_ONSAPI_PULL"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"

SYSTEM_GROUPS: Final = frozenset(
    {
        DEFAULT_PRODUCER_GROUP,
        DEFAULT_CONSUMER_GROUP,
        TOOLS_CONSUMER_GROUP,
        SCHEDULE_CONSUMER_GROUP,
        FILTER_SERVER_GROUP,
        MONITOR_CONSUMER_GROUP,
        CLIENT_INNER_PRODUCER_GROUP,
        SELF_TEST_PRODUCER_GROUP,
        SELF_TEST_CONSUMER_GROUP,
        ONS_HTTP_PROXY_GROUP,
        ONS_PERMISSION_GROUP,
        ONS_OWNER_GROUP,
        ONS_PULL_GROUP,
        TRANSACTION_GROUP,
    }
)

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")


class InvalidName(RocketqError):
    """A topic or group name that no broker would accept."""


def validate_topic(topic: str, max_length: int = TOPIC_MAX_LENGTH) -> None:
    """Raise `InvalidName` unless this may be a topic. Reserved names pass."""
    _validate("topic", topic, max_length)


def validate_group(group: str, max_length: int = GROUP_MAX_LENGTH) -> None:
    """Raise `InvalidName` unless this may be a producer or consumer group."""
    _validate("group", group, max_length)


def _validate(kind: str, name: str, max_length: int) -> None:
    if not name or name.isspace():
        raise InvalidName(f"a {kind} needs a name, this one is blank")
    if len(name) > max_length:
        raise InvalidName(
            f"{kind} {name!r} has {len(name)} characters, at most {max_length} may be"
        )
    if _ALLOWED.fullmatch(name) is None:
        raise InvalidName(
            f"{kind} {name!r} has characters other than letters, digits, '%', '|', '-' and '_'"
        )


def retry_topic(group: str) -> str:
    """The topic from which a group gets again what it failed to consume."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic for what a group failed to consume too often."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic through which answers of request-reply travel in a cluster."""
    return cluster + "_REPLY_TOPIC"


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_system_topic(topic: str, also: Collection[str] = ()) -> bool:
    """Whether a topic belongs to the system; `also` names those a broker adds at start."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in also


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_forbidden_topic(topic: str) -> bool:
    """Whether nobody may send to this topic."""
    return topic in FORBIDDEN_TOPICS or topic.startswith(REVIVE_LOG_PREFIX)


def wrap_namespace(namespace: str, resource: str) -> str:
    """The name under which a namespace's topic or group is known to brokers.

    System names belong to no namespace, and wrapping twice changes nothing.

    >>> wrap_namespace("shop", "%RETRY%orders")
    '%RETRY%shop%orders'
    """
    if not namespace or not resource or _is_system_resource(resource):
        return resource
    prefix, name = _split_prefix(resource)
    if name.startswith(namespace + NAMESPACE_SEPARATOR):
        return resource
    return f"{prefix}{namespace}{NAMESPACE_SEPARATOR}{name}"


def unwrap_namespace(namespace: str, resource: str) -> str:
    """The name without this namespace, as its user wrote it.

    >>> unwrap_namespace("shop", "%RETRY%shop%orders")
    '%RETRY%orders'
    """
    if not namespace:
        return resource
    prefix, name = _split_prefix(resource)
    return prefix + name.removeprefix(namespace + NAMESPACE_SEPARATOR)


def namespace_of(resource: str) -> str:
    """The namespace a name is wrapped in, empty if in none."""
    if _is_system_resource(resource):
        return ""
    namespace, separator, _ = _split_prefix(resource)[1].partition(NAMESPACE_SEPARATOR)
    return namespace if separator else ""


def _is_system_resource(resource: str) -> bool:
    return is_system_topic(resource) or is_system_group(resource)


def _split_prefix(resource: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource[len(prefix) :]
    return "", resource
