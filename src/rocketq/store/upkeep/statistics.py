"""What a store counts: messages in and out, how long appends take, and rates over time.

The counters themselves are plain integers in the appender and the reader. Once a second they
are sampled, and the rates of the last 10 seconds, minute and 10 minutes follow from the samples.
"""

from collections import deque
from typing import Final, NamedTuple

from rocketq.store.log.append import LATENCY_BOUNDS_MS, Appender
from rocketq.store.queues.reader import QueueReader

_WINDOWS_S: Final = (10, 60, 600)
_LATENCY_NAMES: Final = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)


class Sample(NamedTuple):
    """The counters at one moment."""

    seconds: float
    put: int
    found: int
    missed: int
    transferred: int


class StoreStatistics:
    """Owned by the store."""

    def __init__(self, appender: Appender, reader: QueueReader) -> None:
        self._appender = appender
        self._reader = reader
        self._samples: deque[Sample] = deque(maxlen=_WINDOWS_S[-1] + 1)

    def sample(self, seconds: float) -> None:
        """Note the counters; called once a second."""
        self._samples.append(self._now(seconds))

    def _now(self, seconds: float) -> Sample:
        return Sample(
            seconds,
            self._appender.put_count,
            self._reader.found_count,
            self._reader.missed_count,
            self._reader.found_messages,
        )

    @property
    def put_count(self) -> int:
        """Messages stored since the start."""
        return self._appender.put_count

    @property
    def put_bytes(self) -> int:
        return self._appender.put_bytes

    @property
    def put_failed(self) -> int:
        return self._appender.put_failed

    @property
    def transferred_count(self) -> int:
        """Messages read since the start."""
        return self._reader.found_messages

    def rates(self, name: str) -> str:
        """Rates of a counter over the last 10 s, 1 min and 10 min, separated by blanks."""
        return " ".join(str(self._rate(name, window)) for window in _WINDOWS_S)

    def _rate(self, name: str, window_s: int) -> float:
        if not self._samples:
            return 0.0
        newest = self._samples[-1]
        oldest = self._samples[max(0, len(self._samples) - 1 - window_s)]
        elapsed = newest.seconds - oldest.seconds
        if elapsed <= 0:
            return 0.0
        grown: int = getattr(newest, name) - getattr(oldest, name)
        return grown / elapsed

    def total_rates(self) -> str:
        """Rates of all reads, whether they found something or not."""
        return " ".join(
            str(self._rate("found", window) + self._rate("missed", window)) for window in _WINDOWS_S
        )

    def put_latency(self, part: float) -> float:
        """The time in ms within which this part of all appends was done, as a bound."""
        counts = self._appender.take_latencies()
        wanted = sum(counts) * part
        reached = 0
        for bound, count in zip(LATENCY_BOUNDS_MS, counts, strict=False):
            reached += count
            if reached >= wanted:
                return float(bound)
        return float(LATENCY_BOUNDS_MS[-1])

    def runtime_info(self) -> dict[str, str]:
        """The store's part of a broker's runtime table, as text."""
        appender = self._appender
        average = appender.put_bytes / appender.put_count if appender.put_count else 0.0
        latencies = zip(_LATENCY_NAMES, appender.take_latencies(), strict=True)
        return {
            "putMessageTimesTotal": str(appender.put_count),
            "putMessageSizeTotal": str(appender.put_bytes),
            "putMessageFailedTimes": str(appender.put_failed),
            "putMessageAverageSize": str(average),
            "putMessageEntireTimeMax": str(appender.slowest_ns // 1_000_000),
            "putMessageDistributeTime": " ".join(f"{name}:{count}" for name, count in latencies),
            "putLatency99": str(self.put_latency(0.99)),
            "putLatency999": str(self.put_latency(0.999)),
            "getMessageEntireTimeMax": "0",
            # Of buffers and threads that do not exist here.
            "dispatchMaxBuffer": "0",
            "remainTransientStoreBufferNumbs": "0",
            "putTps": self.rates("put"),
            "getFoundTps": self.rates("found"),
            "getMissTps": self.rates("missed"),
            "getTotalTps": self.total_rates(),
            "getTransferredTps": self.rates("transferred"),
            "getTransferedTps": self.rates("transferred"),
        }


def readable_size(size: float) -> str:
    """Bytes as people write them."""
    if size < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
