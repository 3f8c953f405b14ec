"""Masters and slaves."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import Body
from rocketq.remoting.bodies.registration import DataVersion
from rocketq.remoting.bodies.stats import TimerMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class HAConnectionInfo(Body):
    """One slave, as its master sees it."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HAClientInfo(Body):
    """A slave, as it sees itself."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HARuntimeInfo(Body):
    """How replication goes; answers 907."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientInfo = field(default_factory=HAClientInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetrics(Body):
    """Timed messages that wait, by topic; answers 61."""

    data_version: DataVersion = field(default_factory=DataVersion)
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)
