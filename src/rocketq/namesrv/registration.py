"""What brokers tell a NameServer about themselves, and what it keeps of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import QueueData

MASTER_ID: Final = 0
DEFAULT_HEARTBEAT_TIMEOUT_MS: Final = 120_000


class BrokerAddress(NamedTuple):
    """What identifies a running broker process: names and ids may change hands."""

    cluster: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What one broker says about itself."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    zone: str | None = None
    # Absent from brokers that know nothing of acting masters.
    enable_acting_master: bool | None = None
    heartbeat_timeout_ms: int | None = None
    data_version: DataVersion
    topics: Mapping[str, QueueData]
    queue_mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)
    filter_servers: tuple[str, ...] = ()
    # Closing it takes the broker off the tables.
    connection: object = None


class Master(NamedTuple):
    """Where a slave finds its master."""

    address: str
    ha_address: str


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """The last sign of life of a broker."""

    updated_ms: int
    timeout_ms: int
    data_version: DataVersion
    connection: object
    ha_address: str
    broker_name: str = ""
    broker_id: int = 0

    def is_expired(self, now_ms: int) -> bool:
        return self.updated_ms + self.timeout_ms < now_ms


class MinimumIdChange(NamedTuple):
    """The lowest broker id of a group is another one than before."""

    broker_name: str
    members: Mapping[int, str]
    offline_address: str | None
    ha_address: str | None


class RegistrationRefused(Exception):
    """A registration that would leave the tables wrong, or larger than they may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much brokers may bring: whoever reaches the port can call itself one."""

    brokers: int = 10_000
    brokers_per_connection: int = 64
    topics: int = 200_000
    entries: int = 2_000_000
    """Queues of a topic on a broker, where topics that have the same count once."""


# Of names and addresses. The longest that RocketMQ makes are of retry topics: a group and a topic.
LONGEST_NAME: Final = 512
MOST_MEMBERS: Final = 128
"""Brokers of one name."""
MOST_FILTER_SERVERS: Final = 16


def why_refused(new: Registration) -> str | None:
    """What is wrong with a registration, whatever else there is."""
    names = (new.cluster, new.broker_name, new.address, new.ha_address, new.zone or "")
    if max(map(len, (*names, *new.filter_servers))) > LONGEST_NAME:
        return f"a name has more than {LONGEST_NAME} characters"
    if len(new.filter_servers) > MOST_FILTER_SERVERS:
        return f"it has more than {MOST_FILTER_SERVERS} filter servers"
    return None
