"""Consuming by pop. The codes do not fit binary headers; JSON only."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessage(RequestHeader):
    """Asks for messages that stay invisible to others until acknowledged or timed out."""

    CODE: ClassVar = RequestCode.POP_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: int
    poll_time: int
    born_time: int
    init_mode: int
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageResponse(ResponseHeader):
    """What is needed to acknowledge the messages; PEEK_MESSAGE fills `rest_num` only."""

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessage(RequestHeader):
    """Looks at messages without taking them."""

    CODE: ClassVar = RequestCode.PEEK_MESSAGE

    topic: str
    queue_id: int
    max_msg_nums: int
    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AckMessage(RequestHeader):
    """A popped message has been processed."""

    CODE: ClassVar = RequestCode.ACK_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    lite_topic: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTime(RequestHeader):
    """A popped message needs more time, or less."""

    CODE: ClassVar = RequestCode.CHANGE_MESSAGE_INVISIBLETIME

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int
    suspend: bool = False
    lite_topic: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeResponse(ResponseHeader):
    """What the new acknowledgement has to say."""

    pop_time: int
    invisible_time: int
    revive_qid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAckMessageResponse(ResponseHeader):
    """Ours: RocketMQ says nothing about single messages of a batch."""

    passed_over: int
    """Acknowledgements of messages that cannot have been popped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(RequestHeader):
    """Waits until there is something to pop."""

    CODE: ClassVar = RequestCode.NOTIFICATION

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResponse(ResponseHeader):
    """Whether there is."""

    has_msg: bool
    polling_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfo(RequestHeader):
    """Asks how many pops are waiting."""

    CODE: ClassVar = RequestCode.POLLING_INFO

    consumer_group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoResponse(ResponseHeader):
    """How many."""

    polling_num: int
