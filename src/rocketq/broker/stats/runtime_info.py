"""What a broker says about itself when asked how it is (code 28).

A flat table of texts under RocketMQ's names; `clusterList`, `brokerStatus` and the dashboard
print it. A broker here has no thread pools with queues before them, so their figures are
what they would be if nobody ever waited.
"""

from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.timer import TimerMessages
from rocketq.common.clock import Clock
from rocketq.remoting.codes import Version
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.durability.running_flags import Flag
from rocketq.store.replication.follower import LogFollower

_VERSION_NAME: Final = "V5_5_0"
assert Version.CURRENT == Version.V5_5_0

_QUEUES: Final = {
    "send": 10_000,
    "pull": 100_000,
    "litePull": 100_000,
    "query": 20_000,
    "ack": 100_000,
}
"""Pools of RocketMQ whose figures tools look at, and how many requests may wait before each."""
_END_TRANSACTION_CAPACITY: Final = 100_000


class RuntimeInfo:
    """Collects the table from those who know."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        stats: BrokerStats,
        scheduled: ScheduledMessages,
        timers: TimerMessages,
        clock: Clock,
        follower: LogFollower,
    ) -> None:
        self._live = live
        self._store = store
        self._stats = stats
        self._scheduled = scheduled
        self._timers = timers
        self._clock = clock
        self._follower = follower
        self._started_ms = clock.now_ms()

    def table(self) -> dict[str, str]:
        table = self._store.runtime_info()
        table |= self._identity()
        table |= self._traffic()
        table |= _idle_pools()
        table |= self._timers.runtime_info()
        if self._store.role is BrokerRole.SLAVE:
            table |= self._copying()
        if self._store.is_controlled:
            table |= self._election()
        for level, (offset, end) in self._scheduled.progress().items():
            table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return table

    def _identity(self) -> dict[str, str]:
        config = self._live.broker
        return {
            "brokerActive": "true",
            "brokerVersionDesc": _VERSION_NAME,
            "brokerVersion": str(Version.CURRENT),
            "bootTimestamp": str(self._started_ms),
            "runtime": _duration(self._clock.now_ms() - self._started_ms),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp),
        }

    def _copying(self) -> dict[str, str]:
        """Ours: how a slave stands to its master."""
        divergence = self._follower.divergence
        table = {"replicationState": self._follower.state.name}
        return table if divergence is None else {**table, "replicationFault": str(divergence)}

    def _election(self) -> dict[str, str]:
        """Ours: what the controller has made of this broker."""
        store = self._store
        reign = store.replicas.reign
        table = {
            "masterEpoch": str(store.epochs.last_number),
            "confirmOffset": str(store.confirm_offset),
            "isFenced": "true" if store.flags.has(Flag.FENCED) else "false",
        }
        if reign is not None:
            table["syncStateSet"] = ",".join(map(str, sorted(reign.members)))
            table["syncStateSetEpoch"] = str(reign.members_epoch)
        return table

    def _traffic(self) -> dict[str, str]:
        stats = self._stats
        return {
            "msgPutTotalYesterdayMorning": str(stats.put_until_yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_until_this_morning),
            "msgPutTotalTodayNow": str(stats.put_total),
            "msgGetTotalYesterdayMorning": str(stats.got_until_yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.got_until_this_morning),
            "msgGetTotalTodayNow": str(stats.got_total),
        }


def _idle_pools() -> dict[str, str]:
    table = {}
    for name, capacity in _QUEUES.items():
        table[f"{name}ThreadPoolQueueSize"] = "0"
        table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    table["EndTransactionQueueSize"] = "0"
    table["EndTransactionThreadPoolQueueCapacity"] = str(_END_TRANSACTION_CAPACITY)
    return table


def _duration(elapsed_ms: int) -> str:
    minutes, seconds = divmod(max(elapsed_ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
