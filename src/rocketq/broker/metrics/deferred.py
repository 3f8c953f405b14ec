"""Figures about messages that come later: timed, delayed, popped, undecided."""

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.metrics import families
from rocketq.broker.metrics.storage import LOCAL
from rocketq.broker.pop import MergeBuffer, Revival, ReviveLog
from rocketq.broker.stats.stats import POP_REVIVE_NUMS, BrokerStats
from rocketq.broker.timer import TimerMessages
from rocketq.broker.transaction import TransactionalMessages
from rocketq.common.clock import Clock
from rocketq.common.metrics.family import Point

_BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
# Looking through a day of the wheel takes a tenth of a second: once a minute is enough.
_SNAPSHOT_EVERY_S: Final = 60.0
_HALF_READ: Final = 5_000
_HALF_A_TURN: Final = 50


class DeferredFigures:
    """Reads what the services know."""

    def __init__(
        self,
        live: LiveConfig,
        stats: BrokerStats,
        transactions: TransactionalMessages,
        timers: TimerMessages,
        scheduled: ScheduledMessages,
        revive_log: ReviveLog,
        revival: Revival,
        buffer: MergeBuffer,
        clock: Clock,
    ) -> None:
        self._live = live
        self._stats = stats
        self._transactions = transactions
        self._timers = timers
        self._scheduled = scheduled
        self._revive_log = revive_log
        self._revival = revival
        self._buffer = buffer
        self._clock = clock
        self._half: dict[int, str] = {}
        self._snapshot: list[int] = []
        self._snapshot_at = 0.0

    def transactions(self) -> Iterator[Point | None]:
        ended = list(self._stats.transactions.items())
        for topic, each in ended:
            yield Point(families.COMMITS, (topic,), each.committed)
        for topic, each in ended:
            yield Point(families.ROLLBACKS, (topic,), each.rolled_back)
        for topic, each in ended:
            yield Point(families.FINISH, (topic,), each.latency)
        topics = yield from self._half_topics()
        for topic, count in topics.items():
            yield Point(families.HALF_MESSAGES, (topic,), count)
        yield Point(families.OPEN_TRANSACTIONS, (), self._transactions.open_count)

    def _half_topics(self) -> Generator[None, None, Counter[str]]:
        """How many are open by topic; each is read once, and not too many of them at a time."""
        still_open = self._transactions.open_offsets
        known = {at: topic for at, topic in self._half.items() if at in still_open}
        unread = sorted(still_open - known.keys())[:_HALF_READ]
        for number, offset in enumerate(unread):
            if number % _HALF_A_TURN == 0:
                yield None
            known[offset] = self._transactions.topic_of(offset)
        self._half = known
        return Counter(known.values())

    def pop(self) -> Iterator[Point]:
        behind = [self._revival.behind(queue_id) for queue_id in range(self._revive_log.queues)]
        for queue_id, (lag, _) in enumerate(behind):
            yield Point(families.REVIVE_LAG, (str(queue_id),), lag)
        for queue_id, (_, late_ms) in enumerate(behind):
            yield Point(families.REVIVE_MS, (str(queue_id),), late_ms)
        yield Point(families.CHECK_POINT_BUFFER, (), self._revival.open_count + len(self._buffer))
        yield Point(families.OFFSET_BUFFER, (), self._buffer.queue_count)
        yield Point(families.BUFFER_SCAN, (), self._buffer.scans)
        for (group, topic, kind), count in list(self._revive_log.written.items()):
            yield Point(families.REVIVE_IN, (group, topic, kind, "put_ok"), count)
        for (group, topic, queue_id, kind), count in list(self._revival.read.items()):
            yield Point(families.REVIVE_OUT, (group, topic, str(queue_id), kind), count)
        for topic, group, count in self._stats.counted(POP_REVIVE_NUMS):
            yield Point(families.REVIVED, (group, topic, "put_ok"), count)

    def timer(self) -> Iterator[Point | None]:
        timers = self._timers
        yield Point(families.TIMER_UNPLACED, LOCAL, timers.unplaced)
        yield Point(families.TIMER_UNPLACED_MS, LOCAL, timers.unplaced_ms)
        yield Point(families.TIMER_LATE, LOCAL, timers.late)
        yield Point(families.TIMER_LATE_MS, LOCAL, timers.behind_ms)
        for topic, count in list(timers.metrics.counts.items()):
            yield Point(families.TIMING, (*LOCAL, topic), count)
        if not self._snapshot or self._clock.monotonic() >= self._snapshot_at + _SNAPSHOT_EVERY_S:
            self._snapshot_at = self._clock.monotonic()
            self._snapshot = yield from timers.due_within(_BOUNDS_S)
        for bound_s, count in zip(_BOUNDS_S, self._snapshot, strict=True):
            yield Point(families.TIMER_SNAPSHOT, (*LOCAL, str(bound_s)), count)
        for topic, count in list(timers.metrics.placed.items()):
            yield Point(families.TIMERS_PLACED, (*LOCAL, topic), count)
        for topic, count in list(timers.metrics.delivered.items()):
            yield Point(families.TIMERS_DELIVERED, (*LOCAL, topic), count)
        for topic, waited in list(self._stats.delays.items()):
            yield Point(families.DELAYS, (*LOCAL, topic), waited)
        for level, (offset, end_offset) in self._scheduled.progress().items():
            yield Point(families.DELAY_LAG, (str(level),), max(end_offset - offset, 0))
