"""Whether a broker is well: its disk, its space, its copies, its NameServers."""

from typing import Final

from rocketq.broker.cluster.registration import Registration
from rocketq.broker.config import LiveConfig
from rocketq.broker.metrics.storage import DiskWatch
from rocketq.common.metrics.monitoring import Part
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.durability.running_flags import Flag
from rocketq.store.replication.follower import LogFollower

_SILENT_S: Final = 5.0
_DISK_FLAGS: Final = (Flag.NOT_WRITEABLE, Flag.LOGICS_QUEUE_ERROR, Flag.INDEX_FILE_ERROR)
_SPACE_FLAGS: Final = (Flag.DISK_FULL, Flag.LOGIC_DISK_FULL)


class BrokerHealth:
    """Says what is wrong, in a few words. `stage` is set by the broker as it starts and stops."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        disk: DiskWatch,
        follower: LogFollower,
        registration: Registration,
    ) -> None:
        self._live = live
        self._store = store
        self._disk = disk
        self._follower = follower
        self._registration = registration
        self.stage: str | None = "starting"
        """What the broker is doing instead of serving; None while it serves."""

    def add_to(self, part: Part) -> None:
        part.check("serving", lambda: self.stage)
        part.check("disk", self.disk)
        part.check("space", self.space)
        part.check("copies", self.copies)
        part.check("replication", self.replication, is_needed=False)
        part.check("name_servers", self.name_servers, is_needed=False)

    def disk(self) -> str | None:
        if self._disk.silent_s > _SILENT_S:
            return f"the disk has not answered for {self._disk.silent_s:.0f} s"
        return self._disk.error or self._store.flags.reason(*_DISK_FLAGS)

    def space(self) -> str | None:
        if self._store.is_too_full(self._disk.ratio):
            return f"the disk is {self._disk.ratio:.0%} full"
        if self._store.is_log_stuck:
            return "the log cannot grow"
        return self._store.flags.reason(*_SPACE_FLAGS)

    def copies(self) -> str | None:
        """Whether messages are refused because too few slaves are in sync."""
        if self._store.role is BrokerRole.SLAVE or self._store.replicas.are_enough:
            return None
        return "too few slaves are in sync: no message is taken"

    def replication(self) -> str | None:
        """Whether there are as many copies as there should be."""
        if self._store.role is BrokerRole.SLAVE:
            if self._follower.divergence is not None:
                return str(self._follower.divergence)
            return None if self._follower.is_connected else "the master is not followed"
        expected = self._live.store.total_replicas
        if self._store.role is BrokerRole.SYNC_MASTER:
            expected = max(expected, self._live.store.in_sync_replicas)
        copies = 1 + sum(state.is_in_sync for state in self._store.replicas.states())
        if copies >= expected:
            return None
        return f"{copies} of {expected} copies are in sync"

    def name_servers(self) -> str | None:
        missed = self._registration.missed
        if not missed:
            return None
        return f"not registered at {', '.join(missed)}"
