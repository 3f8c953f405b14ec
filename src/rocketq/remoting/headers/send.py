"""Sending messages: the same header with long names and with one-letter names.

Java sends one-letter names (310, 320, 325), Go long ones (10, 324); the meaning is the same.
"""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage(RequestHeader):
    """One message, its body in the frame's; also 324 SEND_REPLY_MESSAGE."""

    CODE: ClassVar = RequestCode.SEND_MESSAGE

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    batch: bool | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageV2(RequestHeader):
    """The same with one-letter names; also 320 SEND_BATCH_MESSAGE and 325 SEND_REPLY_MESSAGE_V2."""

    CODE: ClassVar = RequestCode.SEND_MESSAGE_V2

    producer_group: str = field(metadata=wire("a"))
    topic: str = field(metadata=wire("b"))
    default_topic: str = field(metadata=wire("c"))
    default_topic_queue_nums: int = field(metadata=wire("d"))
    queue_id: int = field(metadata=wire("e"))
    sys_flag: int = field(metadata=wire("f"))
    born_timestamp: int = field(metadata=wire("g"))
    flag: int = field(metadata=wire("h"))
    properties: str | None = field(default=None, metadata=wire("i"))
    reconsume_times: int | None = field(default=None, metadata=wire("j"))
    unit_mode: bool | None = field(default=None, metadata=wire("k"))
    max_reconsume_times: int | None = field(default=None, metadata=wire("l"))
    batch: bool | None = field(default=None, metadata=wire("m"))
    broker_name: str | None = field(default=None, metadata=wire("n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageResponse(ResponseHeader):
    """Where the message was stored; comes with FLUSH_DISK_TIMEOUT and its like too."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = field(default=None, metadata=wire("MSG_REGION"))
    trace_on: str | None = field(default=None, metadata=wire("TRACE_ON"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBack(RequestHeader):
    """A consumer could not process a message and wants it again later."""

    CODE: ClassVar = RequestCode.CONSUMER_SEND_MSG_BACK

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessage(RequestHeader):
    """Takes back a message that waits for its delivery time."""

    CODE: ClassVar = RequestCode.RECALL_MESSAGE

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageResponse(ResponseHeader):
    """Which message was taken back."""

    msg_id: str
    region_id: str | None = field(default=None, metadata=wire("MSG_REGION"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMessage(RequestHeader):
    """A broker hands a reply to the client that asked."""

    CODE: ClassVar = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: int
