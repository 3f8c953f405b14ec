"""The headers that come in thousands a second, read without a dictionary.

`scan_send_v2` and `scan_pull` pick the known fields out of a request's header into an
object with typed attributes. They return None where something is unusual (a number that is
none); the caller then takes the general way, `request.header(SendMessageV2)`.

Compiled (fast_headers.pxd gives the types) they read the frame itself; uncompiled the same
objects are filled from the ext fields.
"""

import cython

from rocketq.common.numbers import parse_int64

if cython.compiled:
    from cython.cimports.rocketq.remoting.wire.command import Command, address_of  # noqa: F401
    from cython.cimports.rocketq.remoting.wire.entry_values import (
        bool_value,
        name_is,
        number_value,
        raw_value,
        text_value,
    )

_INT32 = 2**31 - 1
_INT64 = 10**18  # as far as 18 digits go; longer numbers take the general way


class SendFields:
    """The header of a send with one-letter names (310, 320, 325).

    `properties` and `topic_bytes` are as they will be stored, in UTF-8. Absent are texts
    empty, `reconsume_times` 0 and `max_reconsume_times` -1.
    """

    @property
    def producer_group(self):
        if cython.compiled and self._producer_group is None:
            self._producer_group = text_value(self._command, self._producer_group_entry)
        return self._producer_group

    @property
    def default_topic(self):
        if cython.compiled and self._default_topic is None:
            self._default_topic = text_value(self._command, self._default_topic_entry)
        return self._default_topic

    @property
    def broker_name(self):
        """The broker the request is meant for; empty when it does not say."""
        if cython.compiled and self._broker_name is None:
            self._broker_name = text_value(self._command, self._broker_name_entry)
        return self._broker_name


def scan_send_v2(command):
    """The fields of a send, or None if it takes the general way."""
    if cython.compiled and command._entry_count >= 0:
        return _scan_send_v2(command)
    get = command.ext_fields.get
    fields = SendFields.__new__(SendFields)
    try:
        fields.default_topic_queue_nums = _number(get("d"), 0, _INT32)
        fields.queue_id = _number(get("e"), 0, _INT32)
        fields.sys_flag = _number(get("f"), 0, _INT32)
        fields.born_timestamp = _number(get("g"), 0, _INT64)
        fields.flag = _number(get("h"), 0, _INT32)
        fields.reconsume_times = _number(get("j"), 0, _INT32)
        fields.max_reconsume_times = _number(get("l"), -1, _INT32)
    except ValueError:
        return None
    fields.topic = get("b", "")
    fields.topic_bytes = fields.topic.encode("utf-8", "replace")
    fields.properties = get("i", "").encode("utf-8", "replace")
    fields.unit_mode = get("k", "").lower() == "true"
    fields.batch = get("m", "").lower() == "true"
    _set_texts(fields, get("a", ""), get("c", ""), get("n", ""))
    return fields


def _set_texts(fields, producer_group, default_topic, broker_name):
    fields._producer_group = producer_group
    fields._default_topic = default_topic
    fields._broker_name = broker_name


def _scan_send_v2(command):
    fields = SendFields.__new__(SendFields)
    fields._command = command
    fields._producer_group_entry = -1
    fields._default_topic_entry = -1
    fields._broker_name_entry = -1
    fields.max_reconsume_times = -1
    fields.topic = ""
    fields.topic_bytes = b""
    fields.properties = b""
    base = address_of(command._frame)
    for i in range(command._entry_count):
        if command._entries[i].name_size != 1:
            continue
        letter = base[command._entries[i].name_at]
        if letter == b"i":
            fields.properties = raw_value(command, base, i)
        elif letter == b"b":
            fields.topic_bytes = raw_value(command, base, i)
            fields.topic = fields.topic_bytes.decode("utf-8")
        elif letter == b"a":
            fields._producer_group_entry = i
        elif letter == b"c":
            fields._default_topic_entry = i
        elif letter == b"n":
            fields._broker_name_entry = i
        elif letter == b"k":
            fields.unit_mode = bool_value(command, base, i)
        elif letter == b"m":
            fields.batch = bool_value(command, base, i)
        elif b"d" <= letter <= b"l":
            number = -1 if letter == b"l" else 0
            limit = 10**18 if letter == b"g" else 0x7FFFFFFF
            if not number_value(command, base, i, limit, cython.address(number)):
                return None
            if letter == b"d":
                fields.default_topic_queue_nums = number
            elif letter == b"e":
                fields.queue_id = number
            elif letter == b"f":
                fields.sys_flag = number
            elif letter == b"g":
                fields.born_timestamp = number
            elif letter == b"h":
                fields.flag = number
            elif letter == b"j":
                fields.reconsume_times = number
            else:
                fields.max_reconsume_times = number
    return fields


class PullFields:
    """The header of a pull (11, 361); absent are texts None and `max_msg_bytes` -1."""


def scan_pull(command):
    """The fields of a pull, or None if it takes the general way."""
    if cython.compiled and command._entry_count >= 0:
        return _scan_pull(command)
    get = command.ext_fields.get
    fields = PullFields.__new__(PullFields)
    try:
        fields.queue_id = _number(get("queueId"), 0, _INT32)
        fields.queue_offset = _number(get("queueOffset"), 0, _INT64)
        fields.max_msg_nums = _number(get("maxMsgNums"), 0, _INT32)
        fields.sys_flag = _number(get("sysFlag"), 0, _INT32)
        fields.commit_offset = _number(get("commitOffset"), 0, _INT64)
        fields.suspend_timeout_millis = _number(get("suspendTimeoutMillis"), 0, _INT64)
        fields.sub_version = _number(get("subVersion"), 0, _INT64)
        fields.max_msg_bytes = _number(get("maxMsgBytes"), -1, _INT32)
    except ValueError:
        return None
    fields.consumer_group = get("consumerGroup", "")
    fields.topic = get("topic", "")
    fields.subscription = get("subscription")
    fields.expression_type = get("expressionType")
    fields.lite_topic = get("liteTopic")
    fields.broker_name = get("bname")
    return fields


def pull_fields(header):
    """The same of a header that was read the general way."""
    fields = PullFields.__new__(PullFields)
    fields.consumer_group = header.consumer_group
    fields.topic = header.topic
    fields.queue_id = header.queue_id
    fields.queue_offset = header.queue_offset
    fields.max_msg_nums = header.max_msg_nums
    fields.sys_flag = header.sys_flag
    fields.commit_offset = header.commit_offset
    fields.suspend_timeout_millis = header.suspend_timeout_millis
    fields.subscription = header.subscription
    fields.sub_version = header.sub_version
    fields.expression_type = header.expression_type
    fields.max_msg_bytes = -1 if header.max_msg_bytes is None else header.max_msg_bytes
    fields.lite_topic = header.lite_topic
    fields.broker_name = header.broker_name
    return fields


def _scan_pull(command):
    fields = PullFields.__new__(PullFields)
    fields.consumer_group = ""
    fields.topic = ""
    fields.max_msg_bytes = -1
    base = address_of(command._frame)
    for i in range(command._entry_count):
        if name_is(command, base, i, b"topic", 5):
            fields.topic = text_value(command, i)
        elif name_is(command, base, i, b"consumerGroup", 13):
            fields.consumer_group = text_value(command, i)
        elif name_is(command, base, i, b"subscription", 12):
            fields.subscription = text_value(command, i)
        elif name_is(command, base, i, b"expressionType", 14):
            fields.expression_type = text_value(command, i)
        elif name_is(command, base, i, b"bname", 5):
            fields.broker_name = text_value(command, i)
        elif name_is(command, base, i, b"liteTopic", 9):
            fields.lite_topic = text_value(command, i)
        elif _is_long(command, base, i):
            number = 0
            if not number_value(command, base, i, 10**18, cython.address(number)):
                return None
            if name_is(command, base, i, b"queueOffset", 11):
                fields.queue_offset = number
            elif name_is(command, base, i, b"commitOffset", 12):
                fields.commit_offset = number
            elif name_is(command, base, i, b"subVersion", 10):
                fields.sub_version = number
            else:
                fields.suspend_timeout_millis = number
        elif _is_int(command, base, i):
            number = -1 if name_is(command, base, i, b"maxMsgBytes", 11) else 0
            if not number_value(command, base, i, 0x7FFFFFFF, cython.address(number)):
                return None
            if name_is(command, base, i, b"queueId", 7):
                fields.queue_id = number
            elif name_is(command, base, i, b"maxMsgNums", 10):
                fields.max_msg_nums = number
            elif name_is(command, base, i, b"sysFlag", 7):
                fields.sys_flag = number
            else:
                fields.max_msg_bytes = number
    return fields


def _is_long(command, base, entry):
    return (
        name_is(command, base, entry, b"queueOffset", 11)
        or name_is(command, base, entry, b"commitOffset", 12)
        or name_is(command, base, entry, b"suspendTimeoutMillis", 20)
        or name_is(command, base, entry, b"subVersion", 10)
    )


def _is_int(command, base, entry):
    return (
        name_is(command, base, entry, b"queueId", 7)
        or name_is(command, base, entry, b"maxMsgNums", 10)
        or name_is(command, base, entry, b"sysFlag", 7)
        or name_is(command, base, entry, b"maxMsgBytes", 11)
    )


def _number(text, absent, limit):
    """A whole number as the scan reads it, or ValueError."""
    if not text:
        return absent
    number = parse_int64(text) if len(text) <= 19 else None
    if number is None or not -limit - 1 <= number <= limit:
        raise ValueError(text)
    return number
