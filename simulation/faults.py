"""Does to a cluster what a plan says, and mends it afterwards."""

import asyncio
from typing import Final

from simulation.cluster import Cluster
from simulation.history import Incident
from simulation.plan import Fault, FaultKind

_KILLS: Final = frozenset(
    {
        FaultKind.KILL,
        FaultKind.POWER,
        FaultKind.FLIPPED_BIT,
        FaultKind.KILL_NAMESRV,
        FaultKind.KILL_CLIENT,
        FaultKind.KILL_CONTROLLER,
        FaultKind.KILL_ETCD,
    }
)
_STOPS: Final = frozenset({FaultKind.STOP, FaultKind.STOP_CONTROLLER, FaultKind.STOP_ETCD})
_LOSE_POWER: Final = frozenset({FaultKind.POWER, FaultKind.FAILED_SYNC})


class Faults:
    """One run's faults."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._network = cluster.network

    async def run(self, faults: tuple[Fault, ...]) -> None:
        """All of them, each at its time; returns when the last one is over."""
        under_way = []
        for fault in faults:
            await asyncio.sleep(max(0.0, fault.at_s - self._cluster.loop.time()))
            under_way.append(asyncio.ensure_future(self._happen(fault)))
        for task in under_way:
            await task

    async def _happen(self, fault: Fault) -> None:
        kind = fault.kind
        incident = Incident(
            fault.at_s,
            str(fault),
            kind.value,
            fault.target,
            lost_power=fault.target if kind in _LOSE_POWER else "",
            clock_ms=abs(fault.amount) if kind is FaultKind.CLOCK_STEP else 0,
        )
        self._cluster.note(incident)
        if await self._done(fault):
            self._cluster.history.happened[kind.value] += 1
        incident.until_s = self._cluster.loop.time()

    async def _done(self, fault: Fault) -> bool:
        """Whether it could happen: nobody kills the dead."""
        cluster, target, kind = self._cluster, fault.target, fault.kind
        process = cluster.program(target)
        if kind in _KILLS:
            was_alive = process.is_alive
            cluster.kill(target, power=kind in _LOSE_POWER)
            if was_alive and kind is FaultKind.FLIPPED_BIT:
                cluster.flip_bit(target)
            await asyncio.sleep(fault.lasts_s)
            cluster.start_again(target)
            return was_alive
        if kind in _STOPS:
            process.stop()
            await asyncio.sleep(fault.lasts_s)
            process.go_on()
        elif kind is FaultKind.RESTART:
            return await self._restart(target, fault.lasts_s)
        elif fault.other:
            await self._disturb(fault)
        elif kind is FaultKind.SLOW_NETWORK:
            self._network.slow_s += 0.2
            await asyncio.sleep(fault.lasts_s)
            self._network.slow_s -= 0.2
        elif kind is FaultKind.SLOW_ETCD:
            cluster.etcd.slow_s += 0.4
            await asyncio.sleep(fault.lasts_s)
            cluster.etcd.slow_s -= 0.4
        elif kind is FaultKind.COMPACT_ETCD:
            cluster.etcd.compact()
        elif kind is FaultKind.CLOCK_STEP:
            cluster.host(target).clock.shift_ms += fault.amount
        else:
            await self._spoil_disk(fault)
        return process.is_alive

    async def _disturb(self, fault: Fault) -> None:
        """Something between two hosts."""
        first, second = (self._cluster.host(name).address for name in (fault.target, fault.other))
        if fault.kind is FaultKind.RESET:
            self._network.reset(first, second)
        elif fault.kind is FaultKind.HALF_OPEN:
            self._network.half_open(first, second)
        else:
            self._network.cut(first, second)
            if fault.kind is FaultKind.CUT:
                self._network.cut(second, first)
            await asyncio.sleep(fault.lasts_s)
            self._network.heal(first, second)
            if fault.kind is FaultKind.CUT:
                self._network.heal(second, first)

    async def _spoil_disk(self, fault: Fault) -> None:
        cluster, target = self._cluster, fault.target
        disk = cluster.disk(target)
        if fault.kind is FaultKind.SLOW_DISK:
            disk.slow_s += 0.5
            await asyncio.sleep(fault.lasts_s)
            disk.slow_s -= 0.5
        elif fault.kind is FaultKind.FULL_DISK:
            disk.is_full = True
            await asyncio.sleep(fault.lasts_s)
            disk.is_full = False
        elif fault.kind is FaultKind.FAILED_SYNC:
            disk.fails_sync = True
            await asyncio.sleep(min(fault.lasts_s, 3.0))
            # What a failed sync has left in memory may never reach the disk, so an
            # administrator starts the host anew.
            cluster.kill(target, power=True)
            disk.fails_sync = False
            await asyncio.sleep(1.0)
            cluster.start_again(target)

    async def _restart(self, name: str, pause_s: float) -> bool:
        """Stop a program as an administrator does, and start it again."""
        process = self._cluster.program(name)
        if not process.is_alive or process.is_stopped or not self._cluster.is_ready(name):
            return False
        await self._cluster.stop(name)
        await asyncio.sleep(pause_s)
        self._cluster.start_again(name)
        return True
