# cython: annotation_typing=False
"""All that the wire knows of a pull (11, 361): read it, and write its answer.

The general way is `headers/pull.py`; tests hold both against each other.

Compiled where possible (pull.pxd gives the types).
"""

from collections.abc import Sequence
from typing import Final

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.common.numbers import INT32_MAX
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.pull import PullMessage, PullMessageResponse
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire import json_header, scan
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.scan import NOT_A_NUMBER, number_in

_INT32_MAX = INT32_MAX
# As far as 18 digits go; longer numbers take the general way.
_LONG_MAX = 10**18
_NOT_A_NUMBER = NOT_A_NUMBER

# Six names and six numbers.
_REPLY_SIZE = 512


# Reading


class PullFields:
    """The header of a pull; absent texts are None, and `max_msg_bytes` is -1 when absent."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None
    sub_version: int
    expression_type: str | None
    max_msg_bytes: int
    lite_topic: str | None
    broker_name: str | None


# Name on the wire -> attribute, the value when absent, the limit.
_NUMBERS: Final = {
    "queueId": ("queue_id", 0, INT32_MAX),
    "queueOffset": ("queue_offset", 0, 10**18),
    "maxMsgNums": ("max_msg_nums", 0, INT32_MAX),
    "sysFlag": ("sys_flag", 0, INT32_MAX),
    "commitOffset": ("commit_offset", 0, 10**18),
    "suspendTimeoutMillis": ("suspend_timeout_millis", 0, 10**18),
    "subVersion": ("sub_version", 0, 10**18),
    "maxMsgBytes": ("max_msg_bytes", -1, INT32_MAX),
}


def read_pull(command: Command) -> PullFields | None:
    """The fields of a pull; None if something is unusual and it takes the general way."""
    if command._entry_count < 0:
        return _from_ext_fields(command)
    fields = _blank()
    base = commands.address_of(command._frame)
    for i in range(command._entry_count):
        if scan.name_is(command, base, i, b"topic", 5):
            fields.topic = scan.text_value(command, i)
        elif scan.name_is(command, base, i, b"consumerGroup", 13):
            fields.consumer_group = scan.text_value(command, i)
        elif scan.name_is(command, base, i, b"subscription", 12):
            fields.subscription = scan.text_value(command, i)
        elif scan.name_is(command, base, i, b"expressionType", 14):
            fields.expression_type = scan.text_value(command, i)
        elif scan.name_is(command, base, i, b"bname", 5):
            fields.broker_name = scan.text_value(command, i)
        elif scan.name_is(command, base, i, b"liteTopic", 9):
            fields.lite_topic = scan.text_value(command, i)
        elif not _read_number(fields, command, base, i):
            return None
    return fields


def _read_number(fields: PullFields, command: Command, base: Buffer, entry: int) -> bool:
    """Take over a field if it is one of the numbers; False if it should be one and is not."""
    if scan.name_is(command, base, entry, b"queueOffset", 11):
        number = scan.number_value(command, base, entry, _LONG_MAX, 0)
        fields.queue_offset = number
    elif scan.name_is(command, base, entry, b"queueId", 7):
        number = scan.number_value(command, base, entry, _INT32_MAX, 0)
        fields.queue_id = number
    elif scan.name_is(command, base, entry, b"maxMsgNums", 10):
        number = scan.number_value(command, base, entry, _INT32_MAX, 0)
        fields.max_msg_nums = number
    elif scan.name_is(command, base, entry, b"sysFlag", 7):
        number = scan.number_value(command, base, entry, _INT32_MAX, 0)
        fields.sys_flag = number
    elif scan.name_is(command, base, entry, b"commitOffset", 12):
        number = scan.number_value(command, base, entry, _LONG_MAX, 0)
        fields.commit_offset = number
    elif scan.name_is(command, base, entry, b"suspendTimeoutMillis", 20):
        number = scan.number_value(command, base, entry, _LONG_MAX, 0)
        fields.suspend_timeout_millis = number
    elif scan.name_is(command, base, entry, b"subVersion", 10):
        number = scan.number_value(command, base, entry, _LONG_MAX, 0)
        fields.sub_version = number
    elif scan.name_is(command, base, entry, b"maxMsgBytes", 11):
        number = scan.number_value(command, base, entry, _INT32_MAX, -1)
        fields.max_msg_bytes = number
    else:
        return True
    return number != _NOT_A_NUMBER


def _from_ext_fields(command: Command) -> PullFields | None:
    get = command.ext_fields.get
    fields = _blank()
    for wire_name, (name, absent, limit) in _NUMBERS.items():
        number = number_in(get(wire_name), absent, limit)
        if number == NOT_A_NUMBER:
            return None
        setattr(fields, name, number)
    fields.consumer_group = get("consumerGroup", "")
    fields.topic = get("topic", "")
    fields.subscription = get("subscription")
    fields.expression_type = get("expressionType")
    fields.lite_topic = get("liteTopic")
    fields.broker_name = get("bname")
    return fields


def pull_fields(header: PullMessage) -> PullFields:
    """The same of a header that was read the general way. Raises `RequestRejected`."""
    fields = _blank()
    for wire_name, (name, _, limit) in _NUMBERS.items():
        value = getattr(header, name)
        if value is None:
            continue
        if limit == INT32_MAX and not -INT32_MAX - 1 <= value <= INT32_MAX:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, f"{wire_name}={value}")
        setattr(fields, name, value)
    fields.consumer_group = header.consumer_group
    fields.topic = header.topic
    fields.subscription = header.subscription
    fields.expression_type = header.expression_type
    fields.lite_topic = header.lite_topic
    fields.broker_name = header.broker_name
    return fields


def _blank() -> PullFields:
    """The fields of a header in which nothing stands."""
    fields = PullFields.__new__(PullFields)
    fields.consumer_group = ""
    fields.topic = ""
    fields.queue_id = 0
    fields.queue_offset = 0
    fields.max_msg_nums = 0
    fields.sys_flag = 0
    fields.commit_offset = 0
    fields.suspend_timeout_millis = 0
    fields.subscription = None
    fields.sub_version = 0
    fields.expression_type = None
    fields.max_msg_bytes = -1
    fields.lite_topic = None
    fields.broker_name = None
    return fields


# Answering


def reply_to_pull(
    request: Command,
    code: int,
    remark: bytes | None,
    suggest_which_broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    topic_sys_flag: int = 0,
    group_sys_flag: int = 0,
    body: Buffer | Sequence[Buffer] = b"",
) -> Command:
    """The reply to a pull; `remark` is the status in plain ASCII, `body` a buffer or a list.

    Where the request came in another form than JSON, it is made the general way.
    """
    if request.serialize_type != 0:
        return request.reply(
            PullMessageResponse(
                suggest_which_broker_id=suggest_which_broker_id,
                next_begin_offset=next_begin_offset,
                min_offset=min_offset,
                max_offset=max_offset,
                topic_sys_flag=topic_sys_flag,
                group_sys_flag=group_sys_flag,
            ),
            body,
            code=code,
            remark=None if remark is None else remark.decode(),
        )
    out = memory.room(json_header.buffer_for(_REPLY_SIZE))
    at = memory.put(out, 0, b'{"suggestWhichBrokerId":"')
    at = memory.put_number(out, at, suggest_which_broker_id)
    at = memory.put(out, at, b'","nextBeginOffset":"')
    at = memory.put_number(out, at, next_begin_offset)
    at = memory.put(out, at, b'","minOffset":"')
    at = memory.put_number(out, at, min_offset)
    at = memory.put(out, at, b'","maxOffset":"')
    at = memory.put_number(out, at, max_offset)
    at = memory.put(out, at, b'","topicSysFlag":"')
    at = memory.put_number(out, at, topic_sys_flag)
    at = memory.put(out, at, b'","groupSysFlag":"')
    at = memory.put_number(out, at, group_sys_flag)
    at = memory.put(out, at, b'"}')
    remark_json = None if remark is None else b'"' + remark + b'"'
    ext_json = memory.bytes_at(out, 0, at)
    return commands.encoded_reply(request, code, ext_json, remark_json, body)
