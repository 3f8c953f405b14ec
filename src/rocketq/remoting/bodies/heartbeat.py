"""Who is alive and what it subscribes to."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import Body, names, wire

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionData(Body):
    """What a consumer wants of one topic; `code_set` are the hashes of its tags."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[int] = field(default_factory=list)
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerData(Body):
    """A producer group of a client."""

    group_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData(Body):
    """A consumer group of a client."""

    group_name: str
    consume_type: str = field(default="CONSUME_PASSIVELY", metadata=names(*CONSUME_TYPES))
    message_model: str = field(default="CLUSTERING", metadata=names(*MESSAGE_MODELS))
    consume_from_where: str = field(
        default="CONSUME_FROM_LAST_OFFSET", metadata=names(*CONSUME_FROM_WHERE)
    )
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData(Body):
    """Everything a client is."""

    client_id: str = field(metadata=wire("clientID"))
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientRequest(Body):
    """Asks whether a broker can apply a subscription's filter."""

    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerIds(Body):
    """The client ids of a group."""

    consumer_id_list: list[str] = field(default_factory=list)
