"""Requests to a NameServer."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKvConfig(RequestHeader):
    """Sets one key of a namespace."""

    CODE: ClassVar = RequestCode.PUT_KV_CONFIG

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvConfig(RequestHeader):
    """Asks for one key of a namespace."""

    CODE: ClassVar = RequestCode.GET_KV_CONFIG

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvConfigResponse(ResponseHeader):
    """The value, if there is one."""

    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKvConfig(RequestHeader):
    """Removes one key of a namespace."""

    CODE: ClassVar = RequestCode.DELETE_KV_CONFIG

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvListByNamespace(RequestHeader):
    """Asks for all keys of a namespace."""

    CODE: ClassVar = RequestCode.GET_KVLIST_BY_NAMESPACE

    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker(RequestHeader):
    """A broker reports itself and its topics."""

    CODE: ClassVar = RequestCode.REGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = field(default=0, metadata=wire("bodyCrc32"))
    zone_name: str | None = field(default=None, metadata=wire("__ZONE_NAME"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse(ResponseHeader):
    """For a slave: where its master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker(RequestHeader):
    """A broker says goodbye."""

    CODE: ClassVar = RequestCode.UNREGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfo(RequestHeader):
    """Asks which brokers hold a topic's queues."""

    CODE: ClassVar = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = field(default=None, metadata=wire("__ZONE_NAME"))
    zone_mode: str | None = field(default=None, metadata=wire("__ZONE_MODE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePerm(RequestHeader):
    """Takes the write permission from all topics of a broker."""

    CODE: ClassVar = RequestCode.WIPE_WRITE_PERM_OF_BROKER

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermResponse(ResponseHeader):
    """How many topics were changed."""

    wipe_topic_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePerm(RequestHeader):
    """Gives the write permission back to all topics of a broker."""

    CODE: ClassVar = RequestCode.ADD_WRITE_PERM_OF_BROKER

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermResponse(ResponseHeader):
    """How many topics were changed."""

    add_topic_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInNamesrv(RequestHeader):
    """Forgets a topic, everywhere or on the brokers of one cluster."""

    CODE: ClassVar = RequestCode.DELETE_TOPIC_IN_NAMESRV

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTopicInNamesrv(RequestHeader):
    """Announces a topic; its queues are in the body."""

    CODE: ClassVar = RequestCode.REGISTER_TOPIC_IN_NAMESRV

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsByCluster(RequestHeader):
    """Asks for the topics of one cluster."""

    CODE: ClassVar = RequestCode.GET_TOPICS_BY_CLUSTER

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersion(RequestHeader):
    """A broker asks whether its registration is out of date; counts as a sign of life."""

    CODE: ClassVar = RequestCode.QUERY_DATA_VERSION

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionResponse(ResponseHeader):
    """Whether the broker should register again."""

    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroup(RequestHeader):
    """Asks for the brokers that share a name."""

    CODE: ClassVar = RequestCode.GET_BROKER_MEMBER_GROUP

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat(RequestHeader):
    """A broker's sign of life."""

    CODE: ClassVar = RequestCode.BROKER_HEARTBEAT

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: int | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMinBrokerIdChange(RequestHeader):
    """A NameServer tells brokers that another one now has the lowest id of their name."""

    CODE: ClassVar = RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
