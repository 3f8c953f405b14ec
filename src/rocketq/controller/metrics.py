"""What a controller says about itself in figures, under RocketMQ's names where it has them."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rocketq.common.metrics.family import Histogram, Point, counter, gauge, histogram
from rocketq.controller.deciding import Deciding
from rocketq.controller.keeper.keeper import Keeper
from rocketq.controller.live_brokers import LiveBrokers
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.link.meter import RequestMeter, request_name
from rocketq.remoting.link.server import RemotingServer

# From a microsecond to ten seconds.
_LATENCY_US: Final = (
    *(digit * 10.0**power for power in range(7) for digit in (1, 3, 5)),
    1e7,
)
_NOBODY_LEADS, _FOLLOWER, _LEADER = 0, 2, 3

ROLE = gauge("role", "3: it leads, 2: another one does, 0: nobody is known to.")
ACTIVE_BROKERS = gauge("active_broker_num", "Brokers that are alive.", "cluster", "broker_set")
ELECTIONS = counter(
    "election_total", "Elections, by how they ended.", "cluster", "broker_set", "election_result"
)
SETS = gauge("rocketq_controller_broker_sets", "Broker names that are known.")
HEADLESS = gauge("rocketq_controller_broker_sets_without_master", "Those that have no master.")
CONNECTIONS = gauge("rocketq_controller_connections", "Open connections.")
REQUESTS = counter(
    "request_total",
    "Requests, by whether they were done or refused.",
    "request_type",
    "request_handle_status",
)
LATENCY = histogram(
    "request_latency_microseconds", "How long requests took.", _LATENCY_US, "request_type"
)

FAMILIES: Final = (
    ROLE,
    ACTIVE_BROKERS,
    ELECTIONS,
    REQUESTS,
    LATENCY,
    SETS,
    HEADLESS,
    CONNECTIONS,
)


def request_meter() -> RequestMeter:
    """Times requests as RocketMQ's controller does."""
    return RequestMeter(_LATENCY_US, units_per_second=1e6)


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
        for state in states:
            living = len(self._live.of_set(state))
            yield Point(ACTIVE_BROKERS, (state.cluster, state.name), living)
        for ended, count in self._deciding.elections.items():
            yield Point(ELECTIONS, ended, count)
        yield from self._requests()
        yield Point(SETS, (), len(states))
        yield Point(HEADLESS, (), sum(state.master_id is None for state in states))
        yield Point(CONNECTIONS, (), self._server.connection_count)

    def _requests(self) -> Iterator[Point]:
        counts: Counter[tuple[str, str]] = Counter()
        times: dict[str, Histogram] = {}
        for (code, response_code, _), observed in self._meter.series.items():
            name = request_name(code)
            is_done = response_code == ResponseCode.SUCCESS
            counts[name, "success" if is_done else "failed"] += observed.count
            times.setdefault(name, Histogram(_LATENCY_US)).add(observed)
        for labels, count in counts.items():
            yield Point(REQUESTS, labels, count)
        for name, of_all in times.items():
            yield Point(LATENCY, (name,), of_all)

    def _role(self) -> int:
        if self._keeper.leads:
            return _LEADER
        return _FOLLOWER if self._keeper.leader is not None else _NOBODY_LEADS

    def fault(self) -> str | None:
        """What is wrong, for those who ask after its health."""
        return None if self._role() != _NOBODY_LEADS else "no controller leads"
