"""Between brokers and the controller, which says who is master.

The sign of life, 904, is in `namesrv`: NameServers take it too.
"""

from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyBrokerRoleChanged(RequestHeader):
    """A controller tells brokers who is master now; the sync-state set is in the body."""

    CODE: ClassVar = RequestCode.NOTIFY_BROKER_ROLE_CHANGED

    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    master_broker_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSyncStateSet(RequestHeader):
    """A master reports which replicas are in sync; they are in the body."""

    CODE: ClassVar = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET

    broker_name: str
    master_broker_id: int
    master_epoch: int
    invoke_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSyncStateSetResponse(ResponseHeader):
    """The number of the set now in force."""

    new_sync_state_set_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMaster(RequestHeader):
    """Asks for a master to be elected, perhaps a certain one."""

    CODE: ClassVar = RequestCode.CONTROLLER_ELECT_MASTER

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = -1
    designate_elect: bool = False
    invoke_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterResponse(ResponseHeader):
    """Who it is."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerToController(RequestHeader):
    """A broker makes itself known to the controller."""

    CODE: ClassVar = RequestCode.CONTROLLER_REGISTER_BROKER

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_address: str
    invoke_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerToControllerResponse(ResponseHeader):
    """Who is master."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaInfo(RequestHeader):
    """Asks for the master and the replicas of a broker name."""

    CODE: ClassVar = RequestCode.CONTROLLER_GET_REPLICA_INFO

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaInfoResponse(ResponseHeader):
    """The master; the replicas are in the body."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMetadataInfoResponse(ResponseHeader):
    """The controllers themselves."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanBrokerData(RequestHeader):
    """Forgets brokers that are gone."""

    CODE: ClassVar = RequestCode.CLEAN_BROKER_DATA

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNextBrokerId(RequestHeader):
    """Asks for a free broker id."""

    CODE: ClassVar = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNextBrokerIdResponse(ResponseHeader):
    """The id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBrokerId(RequestHeader):
    """Claims a broker id."""

    CODE: ClassVar = RequestCode.CONTROLLER_APPLY_BROKER_ID

    cluster_name: str
    broker_name: str
    applied_broker_id: int
    register_check_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBrokerIdResponse(ResponseHeader):
    """Granted."""

    cluster_name: str | None = None
    broker_name: str | None = None
