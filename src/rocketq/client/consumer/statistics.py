"""What a consumer has pulled and consumed, topic by topic, as running info reports it.

Counts are kept in buckets of ten seconds for the last minute, and of ten minutes for the last
hour. A bucket is begun by the first count that falls into it, so nothing ticks while nothing
happens.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from rocketq.common.clock import Clock

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


class Meter:
    """A sum and a number of times over a sliding window."""

    __slots__ = ("_bucket_ms", "_buckets", "_current", "_window_ms")

    def __init__(self, window_ms: int = _MINUTE_MS) -> None:
        self._window_ms = window_ms
        self._bucket_ms = window_ms // 6
        # [begin of the bucket, sum, times]
        self._buckets: deque[list[float]] = deque(maxlen=7)
        self._current: list[float] = [float("-inf"), 0.0, 0.0]

    def add(self, now_ms: int, value: float, times: int = 1) -> None:
        bucket = self._current
        if now_ms >= bucket[0] + self._bucket_ms:
            bucket = self._current = [now_ms - now_ms % self._bucket_ms, 0.0, 0.0]
            self._buckets.append(bucket)
        bucket[1] += value
        bucket[2] += times

    def total(self, now_ms: int) -> float:
        return sum(bucket[1] for bucket in self._recent(now_ms))

    def per_second(self, now_ms: int) -> float:
        """The rate since the window's oldest count."""
        recent = list(self._recent(now_ms))
        if not recent:
            return 0.0
        elapsed_ms = max(now_ms - recent[0][0], 1000)
        return sum(bucket[1] for bucket in recent) * 1000 / elapsed_ms

    def average(self, now_ms: int) -> float:
        recent = list(self._recent(now_ms))
        times = sum(bucket[2] for bucket in recent)
        return sum(bucket[1] for bucket in recent) / times if times else 0.0

    def _recent(self, now_ms: int) -> Iterator[list[float]]:
        return (bucket for bucket in self._buckets if bucket[0] > now_ms - self._window_ms)


class TopicStatistics:
    """One topic of one consumer. Times are in milliseconds."""

    __slots__ = ("consume_rt", "consumed", "failed", "failed_hour", "pull_rt", "pulled")

    def __init__(self) -> None:
        self.pull_rt = Meter()
        self.pulled = Meter()
        self.consume_rt = Meter()
        self.consumed = Meter()
        self.failed = Meter()
        self.failed_hour = Meter(_HOUR_MS)


class ConsumerStatistics:
    """All topics of one consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicStatistics] = {}

    def topic(self, topic: str) -> TopicStatistics:
        statistics = self._topics.get(topic)
        if statistics is None:
            statistics = self._topics[topic] = TopicStatistics()
        return statistics

    def pulled(self, topic: str, count: int, elapsed_ms: float) -> None:
        now_ms = self._clock.now_ms()
        statistics = self.topic(topic)
        statistics.pull_rt.add(now_ms, elapsed_ms)
        statistics.pulled.add(now_ms, count)

    def consumed(self, topic: str, count: int, failed: int, elapsed_ms: float, now_ms: int) -> None:
        statistics = self.topic(topic)
        statistics.consume_rt.add(now_ms, elapsed_ms, count)
        if count > failed:
            statistics.consumed.add(now_ms, count - failed)
        if failed:
            statistics.failed.add(now_ms, failed)
            statistics.failed_hour.add(now_ms, failed)
