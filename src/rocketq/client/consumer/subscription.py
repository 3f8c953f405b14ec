"""What a consumer wants of a topic: everything, some tags, or what an SQL condition lets through.

Brokers filter by the subscription they know from heartbeats. Each carries a version (the time it
was made); a pull that names a newer version than the broker has heard of is refused until the
heartbeat has arrived, so that nothing is filtered by an old expression. After a change of the
assigned queues the version is raised as well, but there the filter stays the same, so pulls go
on with the version brokers are sure to know.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketq.client.errors import InvalidSettings
from rocketq.message.hashing import java_hash
from rocketq.message.message import MessageExt
from rocketq.message.names import unwrap_namespace, validate_topic, wrap_namespace
from rocketq.remoting.bodies.heartbeat import SubscriptionData

EVERYTHING: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 condition on a message's properties: `Sql("region = 'eu' AND total > 100")`."""

    condition: str


Expression = str | Sql
"""`"*"`, `"paid || sent"` (tags), or `Sql(...)`."""

Topics = str | Iterable[str] | Mapping[str, Expression]
"""One topic, several topics, or topics with an expression each."""


class Subscription:
    """One topic of one consumer."""

    __slots__ = (
        "expression",
        "expression_type",
        "pull_version",
        "retried",
        "tags",
        "topic",
        "version",
    )

    def __init__(
        self, topic: str, expression: Expression, version: int, *, retried: str | None = None
    ) -> None:
        self.topic = topic
        self.retried = retried
        """The topic whose messages come again in this one, where that is always the same."""
        self.version = version
        self.pull_version = version
        self.tags: frozenset[str] = frozenset()
        if isinstance(expression, Sql):
            self.expression = expression.condition
            self.expression_type = SQL92
        else:
            self.expression = expression.strip() or EVERYTHING
            self.expression_type = TAG
            if self.expression != EVERYTHING:
                self.tags = frozenset(filter(None, map(str.strip, self.expression.split("||"))))
                if not self.tags:
                    raise InvalidSettings(
                        f"the tags {expression!r} for topic {topic!r} name none: "
                        "write 'paid', 'paid || sent', or '*' for everything"
                    )

    def data(self) -> SubscriptionData:
        """As heartbeats carry it."""
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
            sub_version=self.version,
            expression_type=self.expression_type,
        )

    def wanted(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Leave out what has another tag: brokers compare only the tags' hashes."""
        tags = self.tags
        if not tags:
            return messages
        return [message for message in messages if message.tags in tags]


class Subscriptions:
    """All topics of one consumer, under the names they have on the wire."""

    def __init__(self, topics: Topics = (), *, namespace: str = "") -> None:
        self._namespace = namespace
        self._by_topic: dict[str, Subscription] = {}
        self._last_version = 0
        if isinstance(topics, str):
            topics = [topics]
        if isinstance(topics, Mapping):
            for topic, expression in topics.items():
                self.add(topic, expression)
        else:
            for topic in topics:
                self.add(topic, EVERYTHING)

    def add(self, topic: str, expression: Expression, now_ms: int = 0) -> Subscription:
        """Subscribe, or change what is wanted of a topic."""
        validate_topic(topic)
        wire = wrap_namespace(self._namespace, topic)
        subscription = Subscription(wire, expression, self._next_version(now_ms))
        self._by_topic[wire] = subscription
        return subscription

    def add_derived(self, wire_topic: str, now_ms: int, *, retried: str | None = None) -> None:
        """Subscribe to everything of a topic that is named on the wire already (retry topics)."""
        if wire_topic not in self._by_topic:
            version = self._next_version(now_ms)
            self._by_topic[wire_topic] = Subscription(
                wire_topic, EVERYTHING, version, retried=retried
            )

    def remove(self, topic: str) -> bool:
        return self._by_topic.pop(wrap_namespace(self._namespace, topic), None) is not None

    def remove_derived(self, wire_topic: str) -> None:
        """Take that back."""
        self._by_topic.pop(wire_topic, None)

    def get(self, wire_topic: str) -> Subscription | None:
        return self._by_topic.get(wire_topic)

    def refresh(self, now_ms: int) -> None:
        """Give all a version of this moment, when consumption starts."""
        for subscription in self._by_topic.values():
            subscription.version = subscription.pull_version = self._next_version(now_ms)

    def raise_version(self, wire_topic: str, now_ms: int) -> None:
        """The assigned queues have changed: brokers are told, pulls need not wait for it."""
        subscription = self._by_topic.get(wire_topic)
        if subscription is not None:
            subscription.version = self._next_version(now_ms)

    def _next_version(self, now_ms: int) -> int:
        # Two changes within a millisecond are two versions.
        self._last_version = max(now_ms, self._last_version + 1)
        return self._last_version

    def topics(self) -> Sequence[str]:
        return list(self._by_topic)

    def user_topics(self) -> Sequence[str]:
        """As the user wrote them."""
        return [unwrap_namespace(self._namespace, topic) for topic in self._by_topic]

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._by_topic.values()))

    def __len__(self) -> int:
        return len(self._by_topic)

    def __contains__(self, wire_topic: object) -> bool:
        return wire_topic in self._by_topic
