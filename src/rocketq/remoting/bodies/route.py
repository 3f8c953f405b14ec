"""Where topics and brokers are."""

from dataclasses import field
from typing import Any

from rocketq.common import json
from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import Body, wire
from rocketq.remoting.bodies.registration import TopicQueueMappingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData(Body):
    """A topic's queues on the brokers of one name. `perm`: 4 read, 2 write, 1 inherit."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = field(default=0, metadata=wire("topicSysFlag", "topicSynFlag"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData(Body):
    """The brokers that share a name: addresses by id, 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    zone_name: str | None = None
    enable_acting_master: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRouteData(Body):
    """What the NameServer says about one topic."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def encode(self, *, standard: bool = False) -> bytes:
        """With raw keys, or as strict JSON for those who say that they read nothing else."""
        return json.standard_dumps(self.to_json()) if standard else json.dumps(self.to_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(Body):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList(Body):
    """Names of topics."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTable(Body):
    """Texts by name."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMemberGroup(Body):
    """The brokers of one name, as 901 answers; one level deeper than it looks."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps({"brokerMemberGroup": self.to_json()})

    @classmethod
    def from_json(cls, plain: Any) -> "BrokerMemberGroup":
        inner = plain.get("brokerMemberGroup", plain)
        return super(BrokerMemberGroup, cls).from_json(inner)  # noqa: UP008, slots
