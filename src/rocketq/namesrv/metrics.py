"""What a NameServer says about itself in figures. RocketMQ's has none; these are ours."""

from collections.abc import Iterator
from typing import Final

from rocketq.common.metrics.family import Point, counter, gauge, histogram
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.remoting.link.meter import LABELS, LATENCY_MS, RequestMeter
from rocketq.remoting.link.server import RemotingServer

BROKERS = gauge("rocketq_namesrv_brokers", "Brokers registered here, slaves included.")
CLUSTERS = gauge("rocketq_namesrv_clusters", "Clusters they belong to.")
TOPICS = gauge("rocketq_namesrv_topics", "Topics they serve.")
CONNECTIONS = gauge("rocketq_namesrv_connections", "Open connections.")
ACCEPTED = counter("rocketq_namesrv_connections_accepted_total", "Connections accepted.")
LATENCY = histogram(
    "rocketq_namesrv_request_milliseconds", "How long requests took.", LATENCY_MS, *LABELS
)

FAMILIES: Final = (BROKERS, CLUSTERS, TOPICS, CONNECTIONS, ACCEPTED, LATENCY)


class NamesrvFigures:
    """Reads what the tables and the server know."""

    def __init__(
        self, registry: RouteRegistry, server: RemotingServer, meter: RequestMeter
    ) -> None:
        self._registry = registry
        self._server = server
        self._meter = meter

    def collect(self) -> Iterator[Point]:
        registry = self._registry
        yield Point(BROKERS, (), registry.live_count)
        yield Point(CLUSTERS, (), len(registry.clusters))
        yield Point(TOPICS, (), registry.topic_count)
        yield Point(CONNECTIONS, (), self._server.connection_count)
        yield Point(ACCEPTED, (), self._server.accepted_count)
        for labels, times in self._meter.labelled():
            yield Point(LATENCY, labels, times)
