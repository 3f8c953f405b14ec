"""Limits for groups that read cold data.

Messages far behind the end of the log are no longer in memory, and reading them takes the
disk from those who write. An administrator may give a group its own limit, in bytes for
each window of five seconds; others have the broker's.
"""

from rocketq.broker.config import LiveConfig


class ColdReadLimits:
    """The limits by group. In memory only, as RocketMQ keeps them."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live
        self._by_group: dict[str, int] = {}

    def set(self, group: str, limit: int) -> None:
        self._by_group[group] = limit

    def remove(self, group: str) -> None:
        self._by_group.pop(group, None)

    def table(self) -> dict[str, object]:
        """As `getColdDataFlowCtrInfo` shows it."""
        return {
            "runtimeTable": {},
            "configTable": dict(self._by_group),
            "cgColdReadThreshold": self._live.broker.cg_cold_read_threshold,
            "globalColdReadThreshold": self._live.broker.global_cold_read_threshold,
            "globalAcc": 0,
        }
