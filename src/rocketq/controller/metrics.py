"""What a controller says about itself in figures, under RocketMQ's names where it has them."""

from collections.abc import Iterator
from typing import Final

from rocketq.common.metrics.family import Point, counter, gauge, histogram
from rocketq.common.metrics.monitoring import ExporterKind, ExporterSettings, parse_labels
from rocketq.controller.config import ControllerConfig
from rocketq.controller.deciding import Deciding
from rocketq.controller.keeper.keeper import Keeper
from rocketq.controller.live_brokers import LiveBrokers
from rocketq.remoting.link.meter import LABELS, LATENCY_MS, RequestMeter
from rocketq.remoting.link.server import RemotingServer

_SHOWN_AS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_NOBODY_LEADS, _FOLLOWER, _LEADER = 0, 2, 3

ROLE = gauge("role", "3: it leads, 2: another one does, 0: nobody is known to.")
ACTIVE_BROKERS = gauge("active_broker_num", "Brokers that are alive.", "cluster", "broker_set")
ELECTIONS = counter(
    "election_total", "Elections, by how they ended.", "cluster", "broker_set", "election_result"
)
SETS = gauge("rocketq_controller_broker_sets", "Broker names that are known.")
HEADLESS = gauge("rocketq_controller_broker_sets_without_master", "Those that have no master.")
CONNECTIONS = gauge("rocketq_controller_connections", "Open connections.")
LATENCY = histogram(
    "rocketq_controller_request_milliseconds", "How long requests took.", LATENCY_MS, *LABELS
)

FAMILIES: Final = (ROLE, ACTIVE_BROKERS, ELECTIONS, SETS, HEADLESS, CONNECTIONS, LATENCY)


class ControllerFigures:
    """Reads what the parts of a controller know."""

    def __init__(
        self,
        keeper: Keeper,
        live: LiveBrokers,
        deciding: Deciding,
        server: RemotingServer,
        meter: RequestMeter,
    ) -> None:
        self._keeper = keeper
        self._live = live
        self._deciding = deciding
        self._server = server
        self._meter = meter

    def collect(self) -> Iterator[Point]:
        states = [kept.state for kept in self._keeper.sets.values() if kept.state.is_known]
        yield Point(ROLE, (), self._role())
        yield Point(SETS, (), len(states))
        yield Point(HEADLESS, (), sum(state.master_id is None for state in states))
        yield Point(CONNECTIONS, (), self._server.connection_count)
        for state in states:
            living = len(self._live.of_set(state))
            yield Point(ACTIVE_BROKERS, (state.cluster, state.name), living)
        for ended, count in self._deciding.elections.items():
            yield Point(ELECTIONS, ended, count)
        for labels, times in self._meter.labelled():
            yield Point(LATENCY, labels, times)

    def _role(self) -> int:
        if self._keeper.leads:
            return _LEADER
        return _FOLLOWER if self._keeper.leader is not None else _NOBODY_LEADS

    def fault(self) -> str | None:
        """What is wrong, for those who ask after its health."""
        return None if self._role() != _NOBODY_LEADS else "no controller leads"


def exporter_settings(config: ControllerConfig) -> ExporterSettings:
    """Where its settings say that figures are to be had."""
    host = config.metrics_prom_exporter_host or config.bind_address
    return ExporterSettings(
        kind=ExporterKind.parse(config.metrics_exporter_type),
        host=host,
        port=config.metrics_prom_exporter_port,
        shown_host=_SHOWN_AS.get(host, host),
        labels=parse_labels(config.metrics_label),
    )
