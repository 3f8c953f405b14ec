"""What a broker counts: messages in and out, by topic, by group and in all.

Counting happens on the send and pull paths, so it is a look-up and three integer
additions, per queue and nothing else. Everything that can be derived is derived when one
timer samples the counters (every 10 s) or when somebody asks: a topic is the sum of its
queues, the broker is the sum of its topics.

RocketMQ's names for the figures, as `mqadmin` and the dashboard ask for them, and the form
of the key that goes with each:

    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE      topic
    QUEUE_PUT_NUMS, QUEUE_PUT_SIZE      topic@queueId
    GROUP_GET_NUMS, GROUP_GET_SIZE      topic@group
    QUEUE_GET_NUMS, QUEUE_GET_SIZE      topic@queueId@group
    BROKER_PUT_NUMS, BROKER_GET_NUMS, and both _WITHOUT_SYSTEM_TOPIC
                                        cluster name
    SNDBCK_PUT_NUMS, DLQ_PUT_NUMS       topic@group, counted one by one
    GROUP_CK_NUMS, GROUP_ACK_NUMS       topic@group: check points and acks of pop
    BROKER_CK_NUMS, BROKER_ACK_NUMS     cluster name
    POP_REVIVE_NUMS                     topic@group, ours
    CHANNEL_ACTIVITY                    CONNECT, CLOSE
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from rocketq.broker.config import LiveConfig
from rocketq.broker.stats.sampling import History, Rate, Reading, Window, Windows
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.loop.slices import Slices, at_once, in_slices
from rocketq.common.metrics.family import Histogram
from rocketq.common.numbers import parse_natural
from rocketq.message.names import is_system_topic

SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
DLQ_PUT_NUMS: Final = "DLQ_PUT_NUMS"
POP_REVIVE_NUMS: Final = "POP_REVIVE_NUMS"

_SAMPLE_PERIOD_S: Final = 10.0
_FLOWS_A_SLICE: Final = 500


class Flow:
    """Messages that took one way: into a queue, or out of it to a group."""

    __slots__ = ("by_message", "by_size", "messages", "requests", "size")

    def __init__(self, windows: Windows) -> None:
        self.messages = 0
        self.size = 0
        self.requests = 0
        self.by_message = History(windows)
        self.by_size = History(windows)

    def sample(self, due: list[Window]) -> None:
        self.by_message.take(due, self.messages, self.requests)
        self.by_size.take(due, self.size, self.requests)

    def become_sum_of(self, parts: Iterable["Flow"]) -> None:
        self.messages = self.size = self.requests = 0
        for part in parts:
            self.messages += part.messages
            self.size += part.size
            self.requests += part.requests


SIZE_BYTES: Final = tuple(float(kib * 1024) for kib in (1, 4, 512, 1024, 2048, 4096))
DELAY_SECONDS: Final = (60.0, 600.0, 3_600.0, 43_200.0, 86_400.0, 259_200.0)
CREATION_MS: Final = (10.0, 100.0, 1_000.0, 3_000.0, 5_000.0)
FINISH_SECONDS: Final = (5.0, 60.0, 600.0, 3_600.0, 43_200.0, 86_400.0)


class EndedTransactions:
    """What became of the half messages of one topic."""

    __slots__ = ("committed", "latency", "rolled_back")

    def __init__(self) -> None:
        self.committed = 0
        self.rolled_back = 0
        self.latency = Histogram(FINISH_SECONDS)


class Snapshot(NamedTuple):
    """One figure, as `viewBrokerStats` answers it."""

    minute: Rate
    hour: Rate
    day: Rate


class BrokerStats:
    """Counted by the processors, sampled by its own loop, read by the admin requests."""

    def __init__(self, live: LiveConfig, clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._windows = Windows()
        # topic -> queue id -> flow, and (topic, group) -> queue id -> flow
        self._puts: dict[str, dict[int, Flow]] = {}
        self._gets: dict[tuple[str, str], dict[int, Flow]] = {}
        self._topics: dict[str, Flow] = {}
        self._groups: dict[tuple[str, str], Flow] = {}
        self._broker = {
            name: Flow(self._windows)
            for name in (
                "BROKER_PUT_NUMS",
                "BROKER_GET_NUMS",
                "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC",
                "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC",
            )
        }
        self._counted: dict[tuple[str, str], Flow] = {}
        self.transactions: dict[str, EndedTransactions] = {}
        """By topic, how transactions ended."""
        self.sizes: dict[str, Histogram] | None = None
        """By topic, how large messages are; None while nobody wants to know."""
        self.delays: dict[str, Histogram] = {}
        """By topic, how long messages waited that were to come later."""
        self.topic_creations: dict[tuple[bool, bool], Histogram] = {}
        self.group_creations: dict[tuple[bool, bool], Histogram] = {}
        """How long it took to make them, by whether that succeeded and they are the system's."""
        # What deleted topics had counted, so that the totals never go back.
        self._past_puts = 0
        self._past_gets = 0
        self._day = self._local_day()
        self.put_until_yesterday_morning = 0
        self.put_until_this_morning = 0
        self.got_until_yesterday_morning = 0
        self.got_until_this_morning = 0

    # Counting

    def messages_put(
        self, topic: str, queue_id: int, count: int, size: int, requests: int = 1
    ) -> None:
        """Messages were stored, `size` bytes of them, with so many requests."""
        try:
            flow = self._puts[topic][queue_id]
        except KeyError:
            flow = self._puts.setdefault(topic, {})[queue_id] = Flow(self._windows)
            self._topics.setdefault(topic, Flow(self._windows))
        flow.messages += count
        flow.size += size
        flow.requests += requests

    def messages_put_before_deletion(self, topic: str, count: int) -> None:
        """The same, heard of when the topic has been deleted: it has no figures any more."""
        if not is_system_topic(topic):
            self._past_puts += count

    def messages_sized(self, topic: str, counts: Iterable[int], size: int) -> None:
        """How many messages were as large as each of `SIZE_BYTES`, and all of them together."""
        if self.sizes is None:
            return
        found = self.sizes.get(topic)
        if found is None:
            found = self.sizes[topic] = Histogram(SIZE_BYTES)
        found.counts = [a + b for a, b in zip(found.counts, counts, strict=True)]
        found.sum += size

    def batch_sized(self, topic: str, count: int, size: int) -> None:
        """The same of messages that came together: they count as equally large."""
        if self.sizes is not None:
            observed = Histogram(SIZE_BYTES)
            observed.observe(size / count, count)
            self.messages_sized(topic, observed.counts, size)

    def delivered_after(self, topic: str, waits_ms: Iterable[int]) -> None:
        """Messages that were to come later have come, so long after they were made."""
        found = self.delays.get(topic)
        if found is None:
            found = self.delays[topic] = Histogram(DELAY_SECONDS)
        for waited_ms in waits_ms:
            found.observe(max(waited_ms, 0) / 1000)

    @contextmanager
    def creating(
        self, kept: dict[tuple[bool, bool], Histogram], *, is_system: bool
    ) -> Iterator[None]:
        """Time how long it takes to make a topic or a group, and note whether it was made."""
        began, is_made = self._clock.monotonic(), False
        try:
            yield
            is_made = True
        finally:
            found = kept.setdefault((is_made, is_system), Histogram(CREATION_MS))
            found.observe((self._clock.monotonic() - began) * 1000)

    def messages_got(self, group: str, topic: str, queue_id: int, count: int, size: int) -> None:
        """Messages were handed to a consumer group."""
        key = (topic, group)
        try:
            flow = self._gets[key][queue_id]
        except KeyError:
            flow = self._gets.setdefault(key, {})[queue_id] = Flow(self._windows)
            self._groups.setdefault(key, Flow(self._windows))
        flow.messages += count
        flow.size += size
        flow.requests += 1

    def message_sent_back(self, group: str, topic: str) -> None:
        self._count(SNDBCK_PUT_NUMS, f"{topic}@{group}")

    def message_sent_to_dlq(self, group: str, topic: str) -> None:
        self._count(DLQ_PUT_NUMS, f"{topic}@{group}")

    def check_point(self, group: str, topic: str) -> None:
        """Messages were popped from one queue."""
        self._count("GROUP_CK_NUMS", f"{topic}@{group}")
        self._count("BROKER_CK_NUMS", self._live.broker.broker_cluster_name)

    def acknowledged(self, group: str, topic: str, count: int) -> None:
        """Messages that were popped are done."""
        self._count("GROUP_ACK_NUMS", f"{topic}@{group}", count)
        self._count("BROKER_ACK_NUMS", self._live.broker.broker_cluster_name, count)

    def message_revived(self, group: str, topic: str) -> None:
        """A message that was popped and not acknowledged was brought back."""
        self._count(POP_REVIVE_NUMS, f"{topic}@{group}")

    def channel_event(self, name: str) -> None:
        self._count("CHANNEL_ACTIVITY", name)

    def _count(self, name: str, key: str, count: int = 1) -> None:
        flow = self._counted.get((name, key))
        if flow is None:
            flow = self._counted[name, key] = Flow(self._windows)
        flow.messages += count
        flow.requests += 1

    def transaction_ended(self, topic: str, *, is_commit: bool, after_ms: int) -> None:
        """A half message was committed or rolled back, so long after it was made."""
        ended = self.transactions.get(topic)
        if ended is None:
            ended = self.transactions[topic] = EndedTransactions()
        if is_commit:
            ended.committed += 1
        else:
            ended.rolled_back += 1
        ended.latency.observe(after_ms / 1000)

    # Sampling

    async def run(self, stop: asyncio.Event) -> None:
        await in_slices(self.sampling())
        while not await asked_to_stop(stop, within_s=_SAMPLE_PERIOD_S):
            await in_slices(self.sampling())

    def sample(self) -> None:
        """Take a reading of every counter; called every 10 s."""
        at_once(self.sampling())

    def sampling(self) -> Slices[None]:
        """The same in slices: there may be a hundred thousand counters."""
        due = self._windows.advance(self._clock.now_ms())
        if not due:
            return
        yield from self.summing_up()
        for number, flow in enumerate(list(self._all_flows())):
            flow.sample(due)
            if number % _FLOWS_A_SLICE == 0:
                yield
        self._note_midnight()

    def _all_flows(self) -> Iterator[Flow]:
        for queues in (*self._puts.values(), *self._gets.values()):
            yield from queues.values()
        yield from self._topics.values()
        yield from self._groups.values()
        yield from self._broker.values()
        yield from self._counted.values()

    def is_sum(self, name: str) -> bool:
        """Whether a figure is that of the whole broker, and as old as the last `summing_up`."""
        return name in self._broker

    def summing_up(self) -> Slices[None]:
        """Bring what is derived up to date with what is counted."""
        for number, (topic, puts) in enumerate(list(self._puts.items())):
            if topic in self._topics:
                self._topics[topic].become_sum_of(puts.values())
            if number % _FLOWS_A_SLICE == 0:
                yield
        for number, (key, gets) in enumerate(list(self._gets.items())):
            if key in self._groups:
                self._groups[key].become_sum_of(gets.values())
            if number % _FLOWS_A_SLICE == 0:
                yield
        user_topics = [flow for topic, flow in self._topics.items() if not is_system_topic(topic)]
        user_groups = [
            flow for (topic, _), flow in self._groups.items() if not is_system_topic(topic)
        ]
        broker = self._broker
        broker["BROKER_PUT_NUMS"].become_sum_of(self._topics.values())
        broker["BROKER_GET_NUMS"].become_sum_of(self._groups.values())
        broker["BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"].become_sum_of(user_topics)
        broker["BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"].become_sum_of(user_groups)
        for name, flow in broker.items():
            flow.messages += self._past_puts if "_PUT_" in name else self._past_gets

    def _note_midnight(self) -> None:
        today = self._local_day()
        if today == self._day:
            return
        self._day = today
        self.put_until_yesterday_morning = self.put_until_this_morning
        self.got_until_yesterday_morning = self.got_until_this_morning
        self.put_until_this_morning = self.put_total
        self.got_until_this_morning = self.got_total

    def _local_day(self) -> tuple[int, int]:
        moment = time.localtime(self._clock.now_ms() / 1000)
        return moment.tm_year, moment.tm_yday

    # Reading

    @property
    def put_total(self) -> int:
        """Messages stored since start, those of system topics left out."""
        return self._past_puts + sum(
            flow.messages
            for topic, queues in self._puts.items()
            if not is_system_topic(topic)
            for flow in queues.values()
        )

    @property
    def got_total(self) -> int:
        """Messages handed out since start, those of system topics left out."""
        return self._past_gets + sum(
            flow.messages
            for (topic, _), queues in self._gets.items()
            if not is_system_topic(topic)
            for flow in queues.values()
        )

    def put_by_topic(self) -> Iterator[tuple[str, int, int]]:
        """Topic, messages and bytes stored since start."""
        for topic, queues in list(self._puts.items()):
            flows = queues.values()
            yield topic, sum(flow.messages for flow in flows), sum(flow.size for flow in flows)

    def got_by_group(self) -> Iterator[tuple[str, str, int, int]]:
        """Topic, group, messages and bytes handed out since start."""
        for (topic, group), queues in list(self._gets.items()):
            flows = queues.values()
            messages, size = sum(flow.messages for flow in flows), sum(flow.size for flow in flows)
            yield topic, group, messages, size

    def counted(self, name: str) -> Iterator[tuple[str, str, int]]:
        """Topic, group and count of what is counted one by one under a name."""
        for (counted_name, key), flow in list(self._counted.items()):
            topic, separator, group = key.partition("@")
            if counted_name == name and separator:
                yield topic, group, flow.messages

    def events(self, name: str) -> int:
        """How often something happened to connections."""
        flow = self._counted.get(("CHANNEL_ACTIVITY", name))
        return 0 if flow is None else flow.messages

    def topic_put_tps(self, topic: str) -> float:
        flow = self._topics.get(topic)
        return 0.0 if flow is None else flow.by_message.minute.tps

    def group_get_tps(self, group: str, topic: str) -> float:
        flow = self._groups.get((topic, group))
        return 0.0 if flow is None else flow.by_message.minute.tps

    def view(self, name: str, key: str) -> Snapshot | None:
        """One figure under RocketMQ's name for it, or None if nothing was counted under it."""
        flow = self._find(name, key)
        if flow is None:
            return None
        is_size = name.endswith("_SIZE")
        history = flow.by_size if is_size else flow.by_message
        counted = flow.size if is_size else flow.messages
        now = Reading(self._clock.now_ms(), counted, flow.requests)
        return Snapshot(history.minute, history.hour(now), history.day(now))

    def _find(self, name: str, key: str) -> Flow | None:
        """What is counted under a name, up to date."""
        if name in self._broker:
            is_ours = key == self._live.broker.broker_cluster_name
            return self._broker[name] if is_ours else None
        match name.removesuffix("_NUMS").removesuffix("_SIZE"), key.split("@"):
            case "TOPIC_PUT", [topic]:
                return _summed(self._topics.get(topic), self._puts.get(topic))
            case "GROUP_GET", [topic, group]:
                pair = (topic, group)
                return _summed(self._groups.get(pair), self._gets.get(pair))
            case "QUEUE_PUT", [topic, queue_id]:
                return self._puts.get(topic, {}).get(_queue_number(queue_id))
            case "QUEUE_GET", [topic, queue_id, group]:
                return self._gets.get((topic, group), {}).get(_queue_number(queue_id))
        return self._counted.get((name, key))

    # Forgetting

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: its figures go with it, the broker's totals stay."""
        if not is_system_topic(topic):
            self._past_puts += sum(flow.messages for flow in self._puts.get(topic, {}).values())
        self._puts.pop(topic, None)
        self._topics.pop(topic, None)
        for key in [key for key in self._gets if key[0] == topic]:
            self._forget_gets(key)
        self.transactions.pop(topic, None)
        self.delays.pop(topic, None)
        if self.sizes is not None:
            self.sizes.pop(topic, None)
        self._forget_named(lambda parts: len(parts) > 1 and topic in parts)

    def forget_group(self, group: str) -> None:
        """A consumer group was deleted."""
        for key in [key for key in self._gets if key[1] == group]:
            self._forget_gets(key)
        self._forget_named(lambda parts: len(parts) > 1 and parts[-1] == group)

    def _forget_gets(self, key: tuple[str, str]) -> None:
        if not is_system_topic(key[0]):
            self._past_gets += sum(flow.messages for flow in self._gets[key].values())
        del self._gets[key]
        del self._groups[key]

    def _forget_named(self, is_gone: Callable[[list[str]], bool]) -> None:
        for name, key in [key for key in self._counted if is_gone(key[1].split("@"))]:
            del self._counted[name, key]


def _queue_number(text: str) -> int:
    """The id of a queue; -1, which is no queue's, where the text is no number."""
    number = parse_natural(text)
    return -1 if number is None else number


def _summed(whole: Flow | None, parts: dict[int, Flow] | None) -> Flow | None:
    if whole is not None and parts is not None:
        whole.become_sum_of(parts.values())
    return whole
