"""Which brokers to leave alone for a while, judged by how long their last answers took.

RocketMQ's `sendLatencyFaultEnable`. A send that took at least so long keeps its broker out
of the choice for so long:

    took at least, ms     50  100   550  1800  3000   5000  15000
    avoided for, ms        0    0  2000  5000  6000  10000  30000

A failed send counts as one of 10 s. An avoidance is only ever extended, and when every broker
is avoided the choice falls back to any of them: a slow broker is better than none.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from rocketq.common.clock import SYSTEM_CLOCK, Clock

_LATENCIES_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
_AVOIDED_MS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)
_FAILED_COUNTS_AS_MS: Final = 10_000


class LatencyFaults:
    """Owned by one producer."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._avoided_until: dict[str, float] = {}
        self._unreachable: set[str] = set()

    def answered(self, broker_name: str, latency_ms: float) -> None:
        """Note how long a broker took to answer."""
        self._unreachable.discard(broker_name)
        step = bisect_right(_LATENCIES_MS, latency_ms) - 1
        if step >= 0 and _AVOIDED_MS[step]:
            self._avoid(broker_name, _AVOIDED_MS[step])

    def failed(self, broker_name: str, *, reachable: bool) -> None:
        """Note a send that came to nothing, and whether the broker answered at all."""
        if not reachable:
            self._unreachable.add(broker_name)
        step = bisect_right(_LATENCIES_MS, _FAILED_COUNTS_AS_MS) - 1
        self._avoid(broker_name, _AVOIDED_MS[step])

    def is_available(self, broker_name: str) -> bool:
        """Whether nothing speaks against sending there now."""
        until = self._avoided_until.get(broker_name)
        if until is None:
            return True
        if self._clock.monotonic() < until:
            return False
        del self._avoided_until[broker_name]
        return True

    def is_reachable(self, broker_name: str) -> bool:
        """Whether it answered when it was last asked, slow or not."""
        return broker_name not in self._unreachable

    def _avoid(self, broker_name: str, for_ms: int) -> None:
        until = self._clock.monotonic() + for_ms / 1000
        if until > self._avoided_until.get(broker_name, 0.0):
            self._avoided_until[broker_name] = until
