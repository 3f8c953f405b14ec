"""What a broker asks of its clients.

307 and 309 come from an administrator first, who sends them to the broker; 39 is in
`transaction`, 326 in `send`.
"""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChanged(RequestHeader):
    """The members of a group have changed: share the queues anew."""

    CODE: ClassVar = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetConsumerClientOffset(RequestHeader):
    """Go on from other offsets; they are in the body."""

    CODE: ClassVar = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusFromClient(RequestHeader):
    """Say how far you have come."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerRunningInfo(RequestHeader):
    """Say what you are doing."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectly(RequestHeader):
    """Consume this message and say how it went."""

    CODE: ClassVar = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("brokerName", "bname"))
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
