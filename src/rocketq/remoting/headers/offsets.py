"""Offsets of consumers and of queues."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffset(RequestHeader):
    """Asks how far a consumer group has read one queue."""

    CODE: ClassVar = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffsetResponse(ResponseHeader):
    """How far."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffset(RequestHeader):
    """Tells the broker how far a consumer group has read one queue."""

    CODE: ClassVar = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffset(RequestHeader):
    """Asks for the offset the next message of a queue will get."""

    CODE: ClassVar = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: int
    committed: bool = True
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffsetResponse(ResponseHeader):
    """The offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffset(RequestHeader):
    """Asks for the offset of the oldest message of a queue."""

    CODE: ClassVar = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffsetResponse(ResponseHeader):
    """The offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffset(RequestHeader):
    """Asks for the offset of the message stored at a time."""

    CODE: ClassVar = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetResponse(ResponseHeader):
    """The offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretime(RequestHeader):
    """Asks when the oldest message of a queue was stored."""

    CODE: ClassVar = RequestCode.GET_EARLIEST_MSG_STORETIME

    topic: str
    queue_id: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretimeResponse(ResponseHeader):
    """When."""

    timestamp: int
