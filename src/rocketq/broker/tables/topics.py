"""The topics of this broker: how many queues each has and what may be done with them.

Kept in memory and in `config/topics.json`, which is written at every change. Topics the
system itself needs are made at start; what the file says about one of them wins.

A topic nobody has created is made by the first message sent to it, after the default topic
the sender names (normally `TBW102`), provided that one passes its properties on.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.table import Table
from rocketq.broker.unasked import Unasked
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.message import names
from rocketq.message.flags import Permission
from rocketq.remoting import Connection, RequestRejected, ResponseCode
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigWrapper

logger = logging.getLogger(__name__)

READ_WRITE: Final = Permission.READ | Permission.WRITE
INHERITED: Final = READ_WRITE | Permission.INHERIT

_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_BENCHMARK_QUEUES: Final = 1_024
_CLUSTER_TOPIC_QUEUES: Final = 16

TopicListener = Callable[[list[TopicConfig]], None]


def topic(
    name: str, queue_count: int = 1, perm: int = READ_WRITE, sys_flag: int = 0
) -> TopicConfig:
    """A topic with as many queues to read as to write."""
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=perm,
        topic_sys_flag=sys_flag,
    )


class Topics(Table[TopicConfig]):
    """The table of topics. Changed by processors in the loop; listeners hear of each change."""

    def __init__(self, live: LiveConfig, path: Path, clock: Clock) -> None:
        self._live = live
        self._unasked = Unasked(live)
        own = {config.topic_name: config for config in self._own_topics()}
        super().__init__(path, clock, own)
        self._listeners: list[TopicListener] = []
        self._made_listeners: list[Callable[[TopicConfig], None]] = []
        self._announcements: list[Callable[[], Awaitable[None]]] = []
        self._system_topics = frozenset(own) | names.SYSTEM_TOPICS

    def _own_topics(self) -> Iterable[TopicConfig]:
        """What the system needs before anybody has created anything."""
        config = self._live.broker
        cluster, broker = config.broker_cluster_name, config.broker_name
        levels = len(self._live.store.message_delay_level.split())
        if config.auto_create_topic_enable:
            yield topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, INHERITED)
        yield topic(names.SELF_TEST_TOPIC)
        yield topic(names.BENCHMARK_TOPIC, _BENCHMARK_QUEUES)
        yield topic(
            cluster,
            _CLUSTER_TOPIC_QUEUES,
            INHERITED if config.cluster_topic_enable else Permission.INHERIT,
        )
        yield topic(broker, 1, INHERITED if config.broker_topic_enable else Permission.INHERIT)
        yield topic(names.OFFSET_MOVED_TOPIC)
        yield topic(names.SCHEDULE_TOPIC, levels)
        if config.trace_topic_enable:
            yield topic(config.msg_trace_topic_name)
        yield topic(config.reply_topic)
        yield topic(f"rmq_sys_REVIVE_LOG_{cluster}", config.revive_queue_num)
        yield topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, Permission.INHERIT)
        yield topic(names.TRANSACTION_HALF_TOPIC)
        yield topic(names.TRANSACTION_OP_TOPIC)
        yield topic(names.ROCKSDB_TRANSACTION_HALF_TOPIC)
        yield topic(names.ROCKSDB_TRANSACTION_OP_TOPIC)
        yield topic(names.TIMER_TOPIC)

    # Looking

    @property
    def system_topics(self) -> frozenset[str]:
        return self._system_topics

    def is_system(self, name: str) -> bool:
        return names.is_system_topic(name, self._system_topics)

    # Changing

    def put(self, config: TopicConfig) -> None:
        """Create a topic or replace it."""
        self.put_all([config])

    def put_all(self, configs: Iterable[TopicConfig]) -> None:
        """Create or replace several: one new version, one write, one announcement."""
        changed = list(configs)
        for config in changed:
            if self._table.get(config.topic_name) is None:
                logger.info("topic %s created: %s", config.topic_name, describe(config))
            else:
                logger.info("topic %s changed: %s", config.topic_name, describe(config))
            self._table[config.topic_name] = config
        self._changed()
        self._tell(changed)

    def delete(self, name: str) -> bool:
        """Forget a topic; its messages and offsets are others' to remove."""
        if self._table.pop(name, None) is None:
            return False
        logger.info("topic %s deleted", name)
        self._changed()
        self._tell([])
        return True

    def begin_epoch(self, epoch: int) -> None:
        """Another master was elected: what is said of topics from now on is newer."""
        self._version.advance(epoch)
        self._file.save()

    def adopt(self, copied: TopicConfigWrapper) -> None:
        """Be the copy of the master's table; topics of our own system that it lacks stay."""
        if copied.data_version == self._version.value:
            return
        own = {each.topic_name: each for each in self._own_topics()}
        before, self._table = self._table, own | dict(copied.topic_config_table)
        self._version.load(copied.data_version)
        self._file.save()
        self._tell([each for name, each in self._table.items() if before.get(name) != each])

    def create_on_send(
        self,
        name: str,
        default_topic: str,
        queue_count: int,
        *,
        sys_flag: int = 0,
        maker: Connection | None = None,
    ) -> TopicConfig | None:
        """Make the topic of a message that nobody has made one for; None if it may not be made."""
        known = self._table.get(name)
        if known is not None:
            return known
        default = self._table.get(default_topic)
        if default is None or not default.perm & Permission.INHERIT:
            logger.warning("topic %s cannot be made after %s", name, default_topic)
            return None
        if (
            default_topic == names.AUTO_CREATE_TOPIC
            and not self._live.broker.auto_create_topic_enable
        ):
            return None
        if not self._unasked.may_make_topic(name, len(self._table), maker):
            return None
        most = min(default.write_queue_nums, self._live.broker.max_queue_nums)
        count = max(min(queue_count, most), 0)
        config = replace(
            topic(name, count, default.perm & ~Permission.INHERIT, sys_flag),
            topic_filter_type=default.topic_filter_type,
        )
        self.put(config)
        for listener in self._made_listeners:
            listener(config)
        return config

    def ensure(
        self, name: str, queue_count: int, perm: int = READ_WRITE, *, sys_flag: int = 0
    ) -> TopicConfig:
        """Find a topic the broker needs for its own ends, or make it."""
        config = self._table.get(name)
        if config is None:
            config = topic(name, queue_count, perm, sys_flag)
            self.put(config)
        return config

    def ensure_for(
        self, maker: Connection, name: str, queue_count: int, *, sys_flag: int = 0
    ) -> TopicConfig:
        """Find a topic that a client needs, such as its retry topic, or make it if it may be."""
        config = self._table.get(name)
        if config is None and not self._unasked.may_make_topic(name, len(self._table), maker):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"topic[{name}] is not made: clients have made too many, ask an administrator",
            )
        return config or self.ensure(
            name, min(queue_count, self._live.broker.max_queue_nums), sys_flag=sys_flag
        )

    def set_ordered(self, ordered: Mapping[str, str]) -> None:
        """Mark the topics the NameServer knows as ordered, and unmark all others."""
        changed = [
            replace(config, order=name in ordered)
            for name, config in self._table.items()
            if config.order != (name in ordered)
        ]
        if changed:
            for config in changed:
                self._table[config.topic_name] = config
            self._changed()
            self._tell([])  # nothing to announce: it came from there

    def on_change(self, listener: TopicListener) -> None:
        """Have a function called at every change, with the topics there are to announce."""
        self._listeners.append(listener)

    def on_made_by_message(self, listener: Callable[[TopicConfig], None]) -> None:
        """Have a function called with every topic that a message made."""
        self._made_listeners.append(listener)

    def _tell(self, changed: list[TopicConfig]) -> None:
        for listener in self._listeners:
            listener(changed)

    # Keeping

    async def published(self) -> None:
        """Wait until every change made so far is on the disk and known to others."""
        await self.saved()
        for announced in self._announcements:
            await announced()

    def publish_with(self, announced: Callable[[], Awaitable[None]]) -> None:
        """Have something else waited for in `published`."""
        self._announcements.append(announced)

    def _encode(self) -> Callable[[], Iterator[bytes]]:
        plain = {"dataVersion": self._version.value, "topicConfigTable": self.snapshot()}
        return lambda: json.pretty_pieces(plain)

    def _decode(self, data: bytes) -> None:
        stored = TopicConfigWrapper.decode(data)
        self._version.load(stored.data_version)
        self._table.update(stored.topic_config_table)

    def body(self) -> TopicConfigWrapper:
        """All topics, as slaves and administrators ask for them."""
        return TopicConfigWrapper(
            data_version=self._version.value, topic_config_table=self.snapshot()
        )


def queue_count(config: TopicConfig) -> int:
    """How many queues a topic has, whether they are read, written or both."""
    return max(config.read_queue_nums, config.write_queue_nums)


def describe(config: TopicConfig) -> str:
    """A topic in one line, in the form in which RocketMQ shows it."""
    attributes = ", ".join(f"{key}={value}" for key, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, "
        f"readQueueNums={config.read_queue_nums}, writeQueueNums={config.write_queue_nums}, "
        f"perm={Permission.text(config.perm)}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={str(config.order).lower()}, "
        f"attributes={{{attributes}}}]"
    )


def check_topic_name(topic: str) -> None:
    """Refuse a name that no topic can have."""
    if not topic or topic.isspace():
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if _ALLOWED.fullmatch(topic) is None:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic: {topic}, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    longest = names.TOPIC_MAX_LENGTH
    if names.is_retry_topic(topic) or names.is_dlq_topic(topic):
        longest = names.DERIVED_TOPIC_MAX_LENGTH
    if len(topic) > longest:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic is longer than topic max length {longest}.",
        )
