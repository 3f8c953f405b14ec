"""Between a master and its slaves, and to a process with many brokers."""

from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBrokerHaInfo(RequestHeader):
    """Empty: a slave asks its master. Filled: a master informs a slave."""

    CODE: ClassVar = RequestCode.EXCHANGE_BROKER_HA_INFO

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBrokerHaInfoResponse(ResponseHeader):
    """Where the master is."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterFlushOffset(RequestHeader):
    """Tells a slave how far its master has flushed."""

    CODE: ClassVar = RequestCode.RESET_MASTER_FLUSH_OFFSET

    master_flush_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBroker(RequestHeader):
    """Starts another broker in a container."""

    CODE: ClassVar = RequestCode.ADD_BROKER

    config_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBroker(RequestHeader):
    """Stops a broker of a container."""

    CODE: ClassVar = RequestCode.REMOVE_BROKER

    broker_name: str
    broker_cluster_name: str
    broker_id: int
