"""Figures about topics, groups and clients."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.config import LiveConfig
from rocketq.broker.metrics import families
from rocketq.broker.stats.stats import DLQ_PUT_NUMS, SNDBCK_PUT_NUMS, BrokerStats
from rocketq.broker.tables.attributes import MESSAGE_TYPE
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.topics import Topics
from rocketq.common.metrics.family import Point
from rocketq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group
from rocketq.remoting.codes import LanguageCode
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.versions import version_name

# RocketMQ's pools of threads; here nobody waits for a thread.
_PROCESSORS: Final = (
    "send",
    "async_put",
    "pull",
    "ack",
    "query_message",
    "client_manager",
    "heartbeat",
    "lite_pull",
    "transaction",
    "consumer_manager",
    "admin",
    "reply",
)
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_CHANNELS_A_TURN: Final = 500

Count = Callable[[], int]


def truth(value: bool) -> str:
    """As labels have it."""
    return "true" if value else "false"


class TrafficFigures:
    """Reads what others count."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        groups: SubscriptionGroups,
        stats: BrokerStats,
        producers: ProducerTable,
        consumers: ConsumerTable,
        acknowledgements: Acknowledgements,
    ) -> None:
        self._live = live
        self._topics = topics
        self._groups = groups
        self._stats = stats
        self._producers = producers
        self._consumers = consumers
        self._acknowledgements = acknowledgements

    # What it is

    def node(self) -> Iterator[Point]:
        for name in _PROCESSORS:
            waiting = self._acknowledgements.waiting if name == "send" else 0
            yield Point(families.WATERMARK, (name,), waiting)
        yield Point(families.PERMISSION, (), self._live.broker.broker_permission)
        yield Point(families.TOPICS, (), len(self._topics))
        yield Point(families.GROUPS, (), len(self._groups))

    def creations(self) -> Iterator[Point]:
        for family, kept in (
            (families.TOPIC_CREATION, self._stats.topic_creations),
            (families.GROUP_CREATION, self._stats.group_creations),
        ):
            for (is_made, is_system), took in kept.items():
                status = "success" if is_made else "failure"
                yield Point(family, (status, truth(is_system)), took)

    # Messages

    def messages(self) -> Iterator[Point]:
        for topic, messages, _ in self._stats.put_by_topic():
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                yield Point(families.MESSAGES_IN, self._labels(topic), messages)
        for topic, _, size in self._stats.put_by_topic():
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                yield Point(families.BYTES_IN, self._labels(topic), size)
        for topic, group, messages, _ in self._stats.got_by_group():
            yield Point(families.MESSAGES_OUT, self._reader(topic, group), messages)
        for topic, group, _, size in self._stats.got_by_group():
            yield Point(families.BYTES_OUT, self._reader(topic, group), size)
        for topic, sizes in list((self._stats.sizes or {}).items()):
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                yield Point(families.SIZES, self._labels(topic), sizes)
        for topic, group, count in self._stats.counted(DLQ_PUT_NUMS):
            yield Point(families.TO_DLQ, (group, topic, self._is_system(topic, group)), count)
        for topic, group, count in self._stats.counted(SNDBCK_PUT_NUMS):
            yield Point(families.SENT_BACK, (group, topic), count)

    def _labels(self, topic: str) -> tuple[str, ...]:
        config = self._topics.get(topic)
        kind = "normal" if config is None else config.attributes.get(MESSAGE_TYPE, "normal")
        return topic, kind.lower(), truth(self._topics.is_system(topic))

    def _reader(self, topic: str, group: str) -> tuple[str, ...]:
        is_retry = truth(topic.startswith(RETRY_PREFIX))
        return topic, group, self._is_system(topic, group), is_retry

    def _is_system(self, topic: str, group: str) -> str:
        return truth(self._topics.is_system(topic) or is_system_group(group))

    # Clients

    def clients(
        self, ports: dict[str, Count], accepted: Count, held: dict[str, Count]
    ) -> Iterator[Point | None]:
        producers: Counter[tuple[str, ...]] = Counter()
        counted: set[ClientChannel] = set()
        for group in self._producers.groups():
            for channel in self._producers.channels(group):
                if channel not in counted:
                    counted.add(channel)
                    producers[_language(channel), _version(channel)] += 1
            yield None
        for (language, version), count in producers.items():
            yield Point(families.PRODUCERS, (language, version, "remoting"), count)
        for name in self._consumers.groups():
            yield from self._members(name)
        for port, count_of in ports.items():
            yield Point(families.CONNECTIONS, (port,), count_of())
        yield Point(families.ACCEPTED, (), accepted())
        for kind, count_of in held.items():
            yield Point(families.HELD, (kind,), count_of())

    def _members(self, name: str) -> Iterator[Point]:
        group = self._consumers.find(name)
        if group is None:
            return
        members = Counter(
            (_language(channel), _version(channel)) for channel in group.channels.values()
        )
        mode = _MODES.get(group.consume_type, "unknown")
        is_system = truth(is_system_group(name))
        for (language, version), count in members.items():
            labels = (name, language, version, mode, "remoting", is_system)
            yield Point(families.CONSUMERS, labels, count)


def latencies(meter: RequestMeter) -> Iterator[Point]:
    """How long requests took, under RocketMQ's names of their codes."""
    for (request, response, result), histogram in meter.labelled():
        labels = ("remoting", request, response, "false", result)
        yield Point(families.LATENCY, labels, histogram)


def _language(channel: ClientChannel) -> str:
    try:
        return LanguageCode(channel.language).name.lower()
    except ValueError:
        return "other"


def _version(channel: ClientChannel) -> str:
    return version_name(channel.version).lower()
