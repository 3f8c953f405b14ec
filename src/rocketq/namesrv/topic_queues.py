"""The queues that topics have on their brokers.

Fifty thousand topics look alike to a route: its text names brokers and queue counts, never the
topic. Topics with the same queues on the same brokers therefore share one `TopicQueues`, and
with it one encoded route.
"""

from weakref import WeakValueDictionary

from rocketq.remoting.bodies.route import QueueData


class TopicQueues:
    """The queues of a topic on all its brokers; one object for all topics that have the same.

    Never changed once made.
    """

    __slots__ = ("__weakref__", "_shared", "by_broker")

    def __init__(self, by_broker: dict[str, QueueData], shared: "SharedQueues") -> None:
        self.by_broker = by_broker
        self._shared = shared
        shared.entries += len(by_broker)

    def __del__(self) -> None:
        self._shared.entries -= len(self.by_broker)


class SharedQueues:
    """One `TopicQueues` for all topics that have the same queues, while one has them."""

    def __init__(self) -> None:
        self.entries = 0
        """How many entries all of them have together."""
        self._known: WeakValueDictionary[tuple[QueueData, ...], TopicQueues] = WeakValueDictionary()

    def shared(self, by_broker: dict[str, QueueData]) -> TopicQueues:
        """The one object for topics with these queues."""
        key = tuple(by_broker[name] for name in sorted(by_broker))
        queues = self._known.get(key)
        if queues is None:
            by_name = {queue.broker_name: queue for queue in key}
            queues = self._known[key] = TopicQueues(by_name, self)
        return queues


class QueueChanges:
    """Steps from one `TopicQueues` to another, each worked out once for all topics taking it."""

    def __init__(self, shared: SharedQueues) -> None:
        self.made = 0
        """How many entries had to be put together anew."""
        self._shared = shared
        self._with: dict[tuple[TopicQueues | None, QueueData], TopicQueues] = {}
        self._without: dict[TopicQueues, TopicQueues | None] = {}

    def with_queues(self, before: TopicQueues | None, queues: QueueData) -> TopicQueues:
        after = self._with.get((before, queues))
        if after is None:
            others = before.by_broker if before is not None else {}
            after = self._shared.shared({**others, queues.broker_name: queues})
            self.made += len(after.by_broker)
            self._with[before, queues] = after
        return after

    def without_brokers(self, before: TopicQueues, names: set[str]) -> TopicQueues | None:
        if before not in self._without:
            self.made += len(before.by_broker)
            left = {name: q for name, q in before.by_broker.items() if name not in names}
            self._without[before] = self._shared.shared(left) if left else None
        return self._without[before]
