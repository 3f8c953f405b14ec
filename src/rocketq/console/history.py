"""Figures of the last hours, kept in memory for charts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SAMPLE_EVERY_S: Final = 10.0
_KEPT: Final = int(6 * 3600 / SAMPLE_EVERY_S)
_GROUP_KEPT: Final = 360
_GROUPS: Final = 2_000
_SHOWN: Final = 360
_RECENT_S: Final = 120.0
_READS_KEPT: Final = 12


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """One broker at one moment: messages per second, and how full its disk is (0 to 1)."""

    into: float
    out: float
    disk: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one moment; `lag` is None where it was not asked for."""

    time_s: float
    brokers: Mapping[str, BrokerFigures]
    lag: int | None

    @property
    def into(self) -> float:
        return sum(each.into for each in self.brokers.values())

    @property
    def out(self) -> float:
        return sum(each.out for each in self.brokers.values())


class History:
    """Samples of six hours, and the lag of each group that has any."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._lags: dict[str, deque[tuple[float, int]]] = {}
        self._reads: dict[str, deque[tuple[float, int]]] = {}

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def add_lags(self, time_s: float, lags: Mapping[str, int]) -> None:
        for group, lag in lags.items():
            known = self._lags.get(group)
            if known is None:
                if lag == 0 or len(self._lags) >= _GROUPS:
                    continue
                known = self._lags[group] = deque(maxlen=_GROUP_KEPT)
            known.append((time_s, lag))
        for gone in self._lags.keys() - lags.keys():
            del self._lags[gone]

    def add_reads(self, time_s: float, reads: Mapping[str, int]) -> None:
        """How much each group has read so far; only of the last minutes."""
        self._reads = {
            group: self._reads.get(group) or deque(maxlen=_READS_KEPT)
            for group, read in reads.items()
            if read > 0
        }
        for group, known in self._reads.items():
            known.append((time_s, reads[group]))

    def read_rate(self, group: str, now_s: float) -> float:
        """Messages per second that a group has read lately, by its offsets."""
        known = self._reads.get(group, ())
        recent = [each for each in known if each[0] >= now_s - _RECENT_S]
        if len(recent) < 2:
            return 0.0
        (began_s, first), (ended_s, last) = recent[0], recent[-1]
        return max(last - first, 0) / max(ended_s - began_s, 1e-3)

    @property
    def last(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def since(self, time_s: float) -> list[Sample]:
        """Samples from a moment on, thinned out to as many as a chart can show."""
        wanted = [each for each in self._samples if each.time_s >= time_s]
        return thinned(wanted, _SHOWN)

    def lag_of(self, group: str) -> list[tuple[float, int]]:
        return list(self._lags.get(group, ()))


def thinned(samples: Sequence[Sample], count: int) -> list[Sample]:
    """About that many of them, evenly spaced; the last one always."""
    step = max(1, -(-len(samples) // count))
    return [each for at, each in enumerate(samples) if (len(samples) - 1 - at) % step == 0]
