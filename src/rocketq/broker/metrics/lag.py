"""How far consumer groups are behind: messages and time.

Counted from the committed offsets at the moment of a question. A queue whose files are closed is
not opened for it if its end is known, and of those whose end is not known only some are opened
each time. How old a message is stands in its record; what was read once is remembered for as
long as the group stays where it is, and only some records are read each time, for they may have
to come from the disk.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rocketq.broker.metrics import families
from rocketq.broker.metrics.traffic import truth
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.topics import Topics
from rocketq.common.clock import Clock
from rocketq.common.metrics.family import Point
from rocketq.message.names import RETRY_PREFIX, is_system_group
from rocketq.store import MessageStore

_READS_A_TIME: Final = 1_000
_OPENED_A_TIME: Final = 1_000
_PAIRS_A_TURN: Final = 16


class Lag(NamedTuple):
    """One group in one topic."""

    messages: int = 0
    in_flight: int = 0
    oldest_ms: int = 0
    oldest_unfetched_ms: int = 0


class LagFigures:
    """Remembers when the messages were stored that groups stand at."""

    def __init__(
        self, topics: Topics, offsets: ConsumerOffsets, store: MessageStore, clock: Clock
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._clock = clock
        self._known: dict[tuple[str, int, int], int] = {}
        self._seen: dict[tuple[str, int, int], int] = {}
        self._reads_left = 0
        self._opens_left = 0

    def collect(self) -> Iterator[Point | None]:
        self._known, self._seen = self._seen, {}
        self._reads_left, self._opens_left = _READS_A_TIME, _OPENED_A_TIME
        found: list[tuple[tuple[str, ...], Lag]] = []
        for number, (key, committed) in enumerate(self._offsets.all_committed()):
            if number % _PAIRS_A_TURN == 0:
                yield None
            topic, group = self._offsets.pair(key)
            lag = self._lag(topic, committed, self._offsets.pulled(key))
            if lag is not None:
                is_system = truth(self._topics.is_system(topic) or is_system_group(group))
                is_retry = truth(topic.startswith(RETRY_PREFIX))
                found.append(((group, topic, is_retry, is_system), lag))
        now_ms = self._clock.now_ms()
        for labels, lag in found:
            yield Point(families.LAG, labels, lag.messages)
        for labels, lag in found:
            yield Point(families.LAG_MS, labels, _age(now_ms, lag.oldest_ms))
        for labels, lag in found:
            yield Point(families.INFLIGHT, labels, lag.in_flight)
        for labels, lag in found:
            yield Point(families.QUEUEING_MS, labels, _age(now_ms, lag.oldest_unfetched_ms))
        for labels, lag in found:
            yield Point(families.READY, labels, max(lag.messages - lag.in_flight, 0))

    def _lag(
        self, topic: str, committed: Mapping[int, int], pulled: Mapping[int, int]
    ) -> Lag | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        messages = in_flight = oldest_ms = unfetched_ms = 0
        for queue_id, consumed in committed.items():
            end = self._end(topic, queue_id)
            if end is None or consumed >= end or queue_id >= config.read_queue_nums:
                continue
            fetched = min(max(pulled.get(queue_id, consumed), consumed), end)
            messages += end - consumed
            in_flight += fetched - consumed
            oldest_ms = _earlier(oldest_ms, self._stored_ms(topic, queue_id, consumed))
            if fetched < end:
                unfetched_ms = _earlier(unfetched_ms, self._stored_ms(topic, queue_id, fetched))
        return Lag(messages, in_flight, oldest_ms, unfetched_ms)

    def _end(self, topic: str, queue_id: int) -> int | None:
        end = self._store.known_end(topic, queue_id)
        if end is None and self._opens_left > 0 and self._store.is_available(topic, queue_id):
            self._opens_left -= 1
            end = self._store.max_offset(topic, queue_id)
        return end

    def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; 0 where that is not known yet."""
        key = (topic, queue_id, offset)
        stored_ms = self._seen.get(key) or self._known.get(key)
        if stored_ms is None:
            if self._reads_left <= 0 or not self._store.is_available(topic, queue_id):
                return 0
            self._reads_left -= 1
            stored_ms = self._store.store_time(topic, queue_id, offset)
        if stored_ms <= 0:
            return 0
        self._seen[key] = stored_ms
        return stored_ms


def _earlier(known_ms: int, stored_ms: int) -> int:
    if known_ms == 0 or stored_ms == 0:
        return known_ms or stored_ms
    return min(known_ms, stored_ms)


def _age(now_ms: int, stored_ms: int) -> int:
    return max(now_ms - stored_ms, 0) if stored_ms else 0
