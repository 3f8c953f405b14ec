"""Clients making themselves known to a broker."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeat(RequestHeader):
    """A client's sign of life; everything is in the body."""

    CODE: ClassVar = RequestCode.HEART_BEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeatResponse(ResponseHeader):
    """Whether the short second form of heartbeats is understood, and whether it sufficed."""

    supports_heartbeat_v2: bool | None = field(
        default=None, metadata=wire("IS_SUPPORT_HEART_BEAT_V2")
    )
    subscription_changed: bool | None = field(default=None, metadata=wire("IS_SUB_CHANGE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClient(RequestHeader):
    """A client leaves a group."""

    CODE: ClassVar = RequestCode.UNREGISTER_CLIENT

    client_id: str = field(metadata=wire("clientID"))
    producer_group: str | None = None
    consumer_group: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerListByGroup(RequestHeader):
    """Asks for the client ids of a group, to share queues among them."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatch(RequestHeader):
    """Locks queues for ordered consumption; everything is in the body."""

    CODE: ClassVar = RequestCode.LOCK_BATCH_MQ


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockBatch(RequestHeader):
    """Unlocks queues; everything is in the body."""

    CODE: ClassVar = RequestCode.UNLOCK_BATCH_MQ
