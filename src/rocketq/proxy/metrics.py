"""What a proxy says about itself in figures, and whether it is well.

RocketMQ's proxy exports one figure, that it is up; the others are ours. A proxy in a broker's
process is one more part of what that process says.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.metrics.family import Histogram, Point, gauge, histogram
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.remoting.link.meter import LATENCY_MS

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 1.0

UP = gauge("rocketmq_proxy_up", "1 while it runs.")
CONNECTIONS = gauge("rocketq_proxy_connections", "Open connections of gRPC clients.")
CLIENTS = gauge("rocketq_proxy_clients", "Clients that have said what they are.")
BROKERS = gauge("rocketq_proxy_brokers", "Masters that are known to it.")
CALLS = histogram(
    "rocketq_proxy_call_milliseconds",
    "How long calls took, those that wait for messages included.",
    LATENCY_MS,
    "rpc",
    "result",
)

FAMILIES: Final = (UP, CONNECTIONS, CLIENTS, BROKERS, CALLS)


class CallMeter:
    """How long calls take, by RPC and by whether they were answered or refused."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str], Histogram] = {}

    def observe(self, rpc: str, result: str, seconds: float) -> None:
        found = self.series.get((rpc, result))
        if found is None:
            found = self.series[rpc, result] = Histogram(LATENCY_MS)
        found.observe(seconds * 1000)


class ProxyFigures:
    """Reads what the parts of a proxy know."""

    def __init__(
        self,
        cluster: Cluster,
        connections: Callable[[], int],
        clients: Callable[[], int],
        meter: CallMeter,
    ) -> None:
        self._cluster = cluster
        self._connections = connections
        self._clients = clients
        self._meter = meter
        self._fault: str | None = None

    def add_to(self, monitoring: Monitoring, config: ProxyConfig) -> None:
        is_here = self._cluster.own is not None
        labels = {
            "cluster": config.proxy_cluster_name,
            "node_type": "proxy",
            "node_id": config.proxy_name,
            "proxy_mode": "local" if is_here else "cluster",
        }
        part = monitoring.part("proxy", labels)
        part.add(FAMILIES, self.collect)
        part.check("brokers", lambda: self._fault)

    def collect(self) -> Iterator[Point]:
        yield Point(UP, (), 1)
        yield Point(CONNECTIONS, (), self._connections())
        yield Point(CLIENTS, (), self._clients())
        yield Point(BROKERS, (), len(self._cluster.masters))
        for labels, times in self._meter.series.items():
            yield Point(CALLS, labels, times)

    async def watch(self, stop: asyncio.Event) -> None:
        """Find out again and again whether there is anything behind it."""
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._cluster.look_around()
                is_alone = self._cluster.own is None and not self._cluster.masters
                self._fault = "no broker is registered" if is_alone else None
            except (RocketqError, OSError) as error:  # a time-out is an OSError, too
                self._fault = f"no NameServer answers: {error}" if str(error) else "no NameServer"
            if await asked_to_stop(stop, within_s=_LOOK_EVERY_S):
                return
