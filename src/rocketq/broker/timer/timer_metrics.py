"""How many timed messages wait, by topic: `config/timermetrics`.

    {"dataVersion":{...},"timingCount":{"orders":{"count":3,"timeStamp":1700000000000}}}

A count is a hint: what a crash places again or delivers again is counted again.
"""

from collections import Counter
from pathlib import Path

from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.registration import DataVersion


class TimerMetrics:
    """Changed by the one who places and delivers."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = TableFile(path, self.encode)
        self._version = VersionCounter(clock)
        self._counts: dict[str, tuple[int, int]] = {}
        self.placed: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        """Since the start, by topic."""

    def change(self, topic: str, change: int) -> None:
        count, _ = self._counts.get(topic, (0, 0))
        self._counts[topic] = (max(count + change, 0), self._clock.now_ms())
        if change > 0:
            self.placed[topic] += change
        else:
            self.delivered[topic] -= change
        self._file.touch()

    @property
    def counts(self) -> dict[str, int]:
        return {topic: count for topic, (count, _) in self._counts.items()}

    @property
    def total(self) -> int:
        return sum(count for count, _ in self._counts.values())

    def encode(self) -> bytes:
        """The file's content, which is also what a slave or a tool is given."""
        counts = {
            topic: {"count": count, "timeStamp": timestamp}
            for topic, (count, timestamp) in self._counts.items()
        }
        return json.dumps({"dataVersion": self._version.value, "timingCount": counts})

    def adopt(self, data: bytes) -> None:
        """Be the copy of the master's."""
        self._counts.clear()
        self._decode(data)
        self._file.touch()

    def load(self) -> None:
        self._file.load(self._decode)

    def _decode(self, data: bytes) -> None:
        stored = json.loads(data)
        version = stored.get("dataVersion")
        if isinstance(version, dict):
            self._version.load(DataVersion.from_json(version))
        for topic, entry in stored.get("timingCount", {}).items():
            self._counts[topic] = (int(entry.get("count", 0)), int(entry.get("timeStamp", 0)))

    def save_if_changed(self) -> None:
        if self._file.is_stale:
            self._version.advance()
            self._file.save()

    async def close(self) -> None:
        self.save_if_changed()
        await self._file.close()
