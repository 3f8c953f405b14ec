"""Does to a cluster what a plan says, and mends it afterwards."""

import asyncio

from simulation.cluster import Cluster
from simulation.plan import Fault, FaultKind


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
        cluster, target, kind = self._cluster, fault.target, fault.kind
        lost_power = target if kind is FaultKind.POWER else ""
        cluster.note(str(fault), lost_power)
        if kind in (FaultKind.KILL, FaultKind.POWER, FaultKind.KILL_NAMESRV, FaultKind.KILL_CLIENT):
            cluster.kill(target, power=kind is FaultKind.POWER)
            await asyncio.sleep(fault.lasts_s)
            cluster.start_again(target)
        elif kind is FaultKind.STOP:
            process = cluster.program(target)
            process.stop()
            await asyncio.sleep(fault.lasts_s)
            process.go_on()
        elif kind is FaultKind.RESTART:
            await self._restart(target, fault.lasts_s)
        elif kind in (FaultKind.CUT, FaultKind.CUT_ONE_WAY):
            first, second = (cluster.host(name).address for name in (target, fault.other))
            self._network.cut(first, second)
            if kind is FaultKind.CUT:
                self._network.cut(second, first)
            await asyncio.sleep(fault.lasts_s)
            self._network.heal(first, second)
            if kind is FaultKind.CUT:
                self._network.heal(second, first)
        elif kind is FaultKind.RESET:
            first, second = (cluster.host(name).address for name in (target, fault.other))
            self._network.reset(first, second)
        elif kind is FaultKind.SLOW_NETWORK:
            self._network.slow_s += 0.2
            await asyncio.sleep(fault.lasts_s)
            self._network.slow_s -= 0.2
        elif kind is FaultKind.SLOW_DISK:
            cluster.disk(target).slow_s += 0.5
            await asyncio.sleep(fault.lasts_s)
            cluster.disk(target).slow_s -= 0.5
        elif kind is FaultKind.FULL_DISK:
            cluster.disk(target).is_full = True
            await asyncio.sleep(fault.lasts_s)
            cluster.disk(target).is_full = False
        elif kind is FaultKind.CLOCK_STEP:
            cluster.host(target).clock.shift_ms += fault.amount

    async def _restart(self, name: str, pause_s: float) -> None:
        """Stop a program as an administrator does, and start it again."""
        process = self._cluster.program(name)
        if not process.is_alive or not self._cluster.is_ready(name):
            return
        await self._cluster.stop(name)
        await asyncio.sleep(pause_s)
        self._cluster.start_again(name)
