"""Who is master, who is in sync: what brokers and the controller tell each other."""

from dataclasses import field

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import BadBody, Body
from rocketq.remoting.bodies.route import BrokerMemberGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSet(Body):
    """The replicas that have everything."""

    sync_state_set: list[int] = field(default_factory=list)
    sync_state_set_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterResponseBody(Body):
    """How an election ended; answers 1002. Without the group, the old master stays (2011)."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[int] = field(default_factory=list)


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


def encode_broker_names(names: list[str]) -> bytes:
    """The array that asks 1006."""
    return json.dumps(names)


def decode_broker_names(data: Buffer) -> list[str]:
    """The array of a request, of which only text counts."""
    if len(data) == 0:
        return []
    try:
        value = json.loads(data, json.REQUEST_LIMITS)
    except json.JsonError as error:
        raise BadBody(f"not JSON: {error}") from None
    if not isinstance(value, list):
        raise BadBody("not a JSON array")
    return [item for item in value if isinstance(item, str)]
