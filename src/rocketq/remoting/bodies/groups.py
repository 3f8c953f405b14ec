"""Consumer groups as brokers keep them."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import Body, names
from rocketq.remoting.bodies.heartbeat import SubscriptionData
from rocketq.remoting.bodies.registration import DataVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialRetryPolicy(Body):
    """Delays that grow by a factor, in ms."""

    initial: int = 5000
    max: int = 7_200_000
    multiplier: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomizedRetryPolicy(Body):
    """Delays by attempt, in ms."""

    next: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRetryPolicy(Body):
    """How long to wait before a message is tried again."""

    type: str = field(default="CUSTOMIZED", metadata=names("EXPONENTIAL", "CUSTOMIZED"))
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleSubscriptionData(Body):
    """What a group may subscribe to, where that is prescribed."""

    topic: str
    expression_type: str = "TAG"
    expression: str = "*"
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupConfig(Body):
    """One consumer group on one broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupList(Body):
    """Many groups, for 225."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupWrapper(Body):
    """All groups of a broker; `forbidden_table` is group -> topic -> bits."""

    data_version: DataVersion = field(default_factory=DataVersion)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForbidden(Body):
    """Whether a group may read a topic; answers 353."""

    group: str
    topic: str
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList(Body):
    """Names of groups; answers 300."""

    group_list: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSubscription(Body):
    """What a group subscribed to; answers 345."""

    group: str
    topic: str | None = None
    subscription_data: SubscriptionData | None = None
