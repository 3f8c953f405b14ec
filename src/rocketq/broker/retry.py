"""What becomes of messages a group failed to consume: again later, or the dead-letter topic.

A message reaches `%RETRY%group` in two ways, and the limit differs by one comparison:

    sent back (code 36)       the broker reads it from its store and stores it once more;
                              to `%DLQ%group` when it was given back `max` times already
    sent by the consumer      an ordinary send, the fallback of clients whose send-back
                              failed; to `%DLQ%group` when it says more than `max` times,
                              or when the group consumes in order, because then only
                              messages that are past help are sent at all

Both topics are made when they are first needed.
"""

import random
from typing import Final

from rocketq.broker.queue_locks import QueueLocks
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.message.flags import Permission
from rocketq.message.names import RETRY_PREFIX, dlq_topic, retry_topic
from rocketq.message.properties.codec import PropertyName, get_property, set_property
from rocketq.remoting import Connection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.codes import ResponseCode, Version
from rocketq.remoting.errors import RequestRejected
from rocketq.store import MessageInner

DLQ_QUEUES: Final = 1

_DELAY: Final = PropertyName.DELAY.encode()
_RETRY_TOPIC: Final = PropertyName.RETRY_TOPIC.encode()
_SUBSCRIBED_BY_UNIT: Final = 0x2
"""Flag of a topic that serves consumers of another unit."""


class RetryTopics:
    """The rules above. Used by the processors that store messages."""

    def __init__(
        self,
        topics: Topics,
        groups: SubscriptionGroups,
        locks: QueueLocks,
        stats: BrokerStats,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._stats = stats

    def group(self, name: str, maker: Connection) -> SubscriptionGroupConfig:
        """A group's configuration, or the refusal that there is none."""
        config = self._groups.get_or_make(name, maker)
        if config is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}"
            )
        return config

    @staticmethod
    def limit(config: SubscriptionGroupConfig, version: int, asked: int | None) -> int:
        """How often a message may be given back; clients since 3.4.9 bring their own limit."""
        if asked is not None and version >= Version.V3_4_9:
            return asked
        return config.retry_max_times

    def retry_topic(
        self, config: SubscriptionGroupConfig, maker: Connection, *, unit_mode: bool
    ) -> TopicConfig:
        sys_flag = _SUBSCRIBED_BY_UNIT if unit_mode else 0
        topic = self._topics.ensure_for(
            maker, retry_topic(config.group_name), config.retry_queue_nums, sys_flag=sys_flag
        )
        if not topic.perm & Permission.WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.topic_name}] sending message is forbidden",
            )
        return topic

    def dlq_topic(self, group: str, maker: Connection) -> TopicConfig:
        return self._topics.ensure_for(maker, dlq_topic(group), DLQ_QUEUES)

    def divert_exhausted(
        self,
        message: MessageInner,
        maker: Connection,
        *,
        version: int,
        reconsume_times: int,
        max_reconsume_times: int | None,
    ) -> None:
        """Send what a consumer sent to its retry topic to the dead-letter topic if it must."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        config = self.group(name, maker)
        limit = self.limit(config, version, max_reconsume_times)
        if reconsume_times <= limit and not self._locks.any_held(name):
            return
        topic = self.dlq_topic(name, maker)
        original = get_property(message.properties, _RETRY_TOPIC)
        source = message.topic if original is None else original.decode("utf-8", "replace")
        self._stats.message_sent_to_dlq(name, source)
        message.properties = set_property(message.properties, _DELAY, b"-1")
        message.move_to(topic.topic_name, random.randrange(max(topic.write_queue_nums, 1)))
