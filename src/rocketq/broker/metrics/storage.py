"""Figures about the store, its disk and its copies."""

import asyncio
from collections.abc import Iterator
from typing import Final

from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.metrics import families
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.metrics.family import Point
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.files.disk import DiskUsage
from rocketq.store.replication.follower import LogFollower

LOCAL: Final = ("local", "disk")
_LOOK_EVERY_S: Final = 1.0


class DiskWatch:
    """Asks every second how full the disk is, in a thread: a sick disk may not answer.

    And has what little there is to flush flushed: a disk that has failed says so to those who
    wait for it only, and with ASYNC_FLUSH a few messages may wait ten seconds.
    """

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked_at = clock.monotonic()
        self._is_asking = False
        self.usage = DiskUsage(0, 0, 0)
        self.ratio = 0.0
        self.error: str | None = None

    @property
    def silent_s(self) -> float:
        """How long the disk has let the last question wait; 0 if it has answered."""
        return self._clock.monotonic() - self._asked_at if self._is_asking else 0.0

    async def run(self, stop: asyncio.Event) -> None:
        while True:
            self._asked_at = self._clock.monotonic()
            self._is_asking = True
            try:
                self.ratio, self.usage = await asyncio.to_thread(self._ask)
                self.error = None
            except OSError as error:
                self.error = str(error)
            finally:
                self._is_asking = False
            self._store.flush_soon()
            if await asked_to_stop(stop, within_s=_LOOK_EVERY_S):
                return

    def _ask(self) -> tuple[float, DiskUsage]:
        return self._store.disk_ratio(), self._store.disk.usage(self._store.config.root)


class StorageFigures:
    """Reads what the store knows."""

    def __init__(
        self,
        store: MessageStore,
        disk: DiskWatch,
        acknowledgements: Acknowledgements,
        follower: LogFollower,
        clock: Clock,
    ) -> None:
        self._store = store
        self._disk = disk
        self._acknowledgements = acknowledgements
        self._follower = follower
        self._clock = clock
        # The age of the oldest message is in its record, at the cold end of the log.
        self._oldest = (-1, -1)

    def storage(self) -> Iterator[Point]:
        store = self._store
        yield Point(families.STORAGE_SIZE, LOCAL, self._disk.usage.used)
        yield Point(families.FLUSH_BEHIND, LOCAL, store.unflushed_bytes)
        yield Point(families.DISPATCH_BEHIND, LOCAL, store.undispatched_bytes)
        yield Point(families.RESERVED_MS, LOCAL, self._oldest_age_ms())
        yield Point(families.DISK_RATIO, (), self._disk.ratio)
        yield Point(families.LOG_BYTES, (), store.max_physical_offset - store.min_physical_offset)
        yield Point(families.FLUSH_S, (), store.flush_times)
        yield Point(families.APPENDED, (), store.statistics.put_count)
        yield Point(families.APPENDED_BYTES, (), store.statistics.put_bytes)
        yield Point(families.REFUSED, (), store.statistics.put_failed)
        yield Point(families.UNACKNOWLEDGED, (), self._acknowledgements.waiting)

    def _oldest_age_ms(self) -> int:
        begin = self._store.min_physical_offset
        if begin != self._oldest[0] or self._oldest[1] < 0:
            self._oldest = (begin, self._store.earliest_time())
        stored_ms = self._oldest[1]
        return max(self._clock.now_ms() - stored_ms, 0) if stored_ms > 0 else 0

    def replication(self) -> Iterator[Point]:
        is_slave = self._store.role is BrokerRole.SLAVE
        yield Point(families.IS_MASTER, (), not is_slave)
        states = [] if is_slave else self._store.replicas.states()
        in_sync = sum(state.is_in_sync for state in states)
        yield Point(families.SLAVES, ("connected",), len(states))
        yield Point(families.SLAVES, ("in_sync",), in_sync)
        for state in states:
            yield Point(families.SLAVE_LAG, (state.address,), max(state.lag, 0))
        for state in states:
            yield Point(families.SLAVE_RATE, (state.address,), state.bytes_per_second)
        yield Point(families.SLAVE_DELAY, (), self._store.replicas.delays)
        if is_slave:
            yield Point(families.FOLLOWS, (), self._follower.is_connected)
