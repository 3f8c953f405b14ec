"""Masters, slaves and the controller."""

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
class EpochEntry(Body):
    """Where one master's reign begins and ends in the log."""

    epoch: int = 0
    start_offset: int = 0
    end_offset: int = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntryCache(Body):
    """All reigns; answers 1007."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = 0
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSet(Body):
    """The replicas that have everything."""

    sync_state_set: list[int] = field(default_factory=list)
    sync_state_set_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity(Body):
    """One replica."""

    broker_name: str = ""
    broker_id: int = 0
    broker_address: str = ""
    alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasInfo(Body):
    """The replicas of one broker name."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplicasInfo(Body):
    """The replicas of many; answers 1006."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetrics(Body):
    """Timed messages that wait, by topic; answers 61."""

    data_version: DataVersion = field(default_factory=DataVersion)
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)
