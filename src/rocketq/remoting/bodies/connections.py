"""Who is connected."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import Body, names, wire
from rocketq.remoting.bodies.heartbeat import (
    CONSUME_FROM_WHERE,
    CONSUME_TYPES,
    MESSAGE_MODELS,
    SubscriptionData,
)
from rocketq.remoting.codes import LanguageCode

_LANGUAGES = tuple(language.name for language in LanguageCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection(Body):
    """One client; `client_addr` is `host:port`."""

    client_id: str
    client_addr: str
    language: str = field(default="OTHER", metadata=names(*_LANGUAGES))
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnection(Body):
    """The clients of a consumer group and what they have in common."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = field(default=None, metadata=names(*CONSUME_TYPES))
    message_model: str | None = field(default=None, metadata=names(*MESSAGE_MODELS))
    consume_from_where: str | None = field(default=None, metadata=names(*CONSUME_FROM_WHERE))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnection(Body):
    """The clients of a producer group."""

    connection_set: list[ClientConnection] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo(Body):
    """One producer; `remote_ip` is `/host:port`."""

    client_id: str
    remote_ip: str = field(metadata=wire("remoteIP"))
    language: str = field(default="OTHER", metadata=names(*_LANGUAGES))
    version: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTable(Body):
    """All producers of a broker by group; answers 328."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
