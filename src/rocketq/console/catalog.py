"""What there is in a cluster: topics and groups, put together from all of its brokers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rocketq.message.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    is_dlq_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
)
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.stats import ConsumeStats

_MESSAGE_TYPE: Final = "message.type"


class Kind(Enum):
    """What a topic is for."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    UNSPECIFIED = "UNSPECIFIED"
    RETRY = "RETRY"
    DLQ = "DLQ"
    SYSTEM = "SYSTEM"


OWN_KINDS: Final = (
    Kind.NORMAL,
    Kind.FIFO,
    Kind.DELAY,
    Kind.TRANSACTION,
    Kind.UNSPECIFIED,
)
"""Those that people make."""


def kind_of(name: str, config: TopicConfig | None, own_names: Iterable[str] = ()) -> Kind:
    """`own_names` are those of clusters and brokers, which have topics of their own."""
    if is_retry_topic(name):
        return Kind.RETRY
    if is_dlq_topic(name):
        return Kind.DLQ
    if is_system_topic(name) or name in own_names or name.endswith("_REPLY_TOPIC"):
        return Kind.SYSTEM
    said = (config.attributes if config is not None else {}).get(_MESSAGE_TYPE, "")
    try:
        return Kind(said.upper())
    except ValueError:
        return Kind.FIFO if config is not None and config.order else Kind.UNSPECIFIED


@dataclass(slots=True, kw_only=True)
class TopicEntry:
    """One topic; `configs` by the name of the broker that has it."""

    name: str
    kind: Kind
    configs: dict[str, TopicConfig] = field(default_factory=dict)

    @property
    def write_queues(self) -> int:
        return sum(each.write_queue_nums for each in self.configs.values())

    @property
    def read_queues(self) -> int:
        return sum(each.read_queue_nums for each in self.configs.values())

    @property
    def permissions(self) -> set[int]:
        return {each.perm for each in self.configs.values()}


@dataclass(slots=True, kw_only=True)
class GroupEntry:
    """One consumer group; `configs` by broker name, progress added up over all brokers."""

    name: str
    is_system: bool
    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    behind: int = 0
    read: int = 0
    """The sum of its offsets: how much it has read, and what moves while it reads."""
    tps: float = 0.0
    topics: set[str] = field(default_factory=set)
    last_time: int = 0

    @property
    def is_orderly(self) -> bool:
        return any(each.consume_message_orderly for each in self.configs.values())

    @property
    def is_enabled(self) -> bool:
        return all(each.consume_enable for each in self.configs.values())


def topics_of(
    tables: Mapping[str, Mapping[str, TopicConfig]],
    names: Iterable[str],
    own_names: Iterable[str],
) -> dict[str, TopicEntry]:
    """All topics that NameServers or brokers know, by name; `tables` are brokers' own."""
    found: dict[str, TopicEntry] = {}
    own = set(own_names)
    for broker, table in tables.items():
        for name, config in table.items():
            entry = found.get(name)
            if entry is None:
                entry = found[name] = TopicEntry(name=name, kind=kind_of(name, config, own))
            entry.configs[broker] = config
    for name in names:
        if name not in found:
            found[name] = TopicEntry(name=name, kind=kind_of(name, None, own))
    return dict(sorted(found.items()))


def groups_of(
    tables: Mapping[str, Mapping[str, SubscriptionGroupConfig]],
    progress: Iterable[Mapping[str, list[ConsumeStats]]],
    topic_names: Iterable[str],
) -> dict[str, GroupEntry]:
    """All groups that brokers have settings or a retry topic for."""
    found: dict[str, GroupEntry] = {}

    def entry_of(name: str) -> GroupEntry:
        if name not in found:
            found[name] = GroupEntry(name=name, is_system=is_system_group(name))
        return found[name]

    for broker, table in tables.items():
        for name, config in table.items():
            entry_of(name).configs[broker] = config
    for topic in topic_names:
        if topic.startswith(RETRY_PREFIX):
            entry_of(topic.removeprefix(RETRY_PREFIX))
    for by_group in progress:
        for name, all_stats in by_group.items():
            entry = entry_of(name)
            for stats in all_stats:
                entry.tps += stats.consume_tps
                for queue, at in stats.offset_table.items():
                    entry.behind += at.broker_offset - at.consumer_offset
                    entry.read += at.consumer_offset
                    entry.topics.add(queue.topic)
                    entry.last_time = max(entry.last_time, at.last_timestamp)
    return dict(sorted(found.items()))


def subscribed(entry: GroupEntry) -> list[str]:
    """The topics of a group that people chose."""
    return sorted(
        topic for topic in entry.topics if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    )
