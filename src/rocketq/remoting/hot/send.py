# cython: annotation_typing=False
"""All that the wire knows of a send (310, 320, 325): read it, answer it, write it.

The general way is `headers/send.py`; tests hold both against each other. What is read here
comes out of the frame where the scan found it, or out of the ext fields where there was no
scan; the answer and the request are put together from templates, field by field.

    read_send       the header of a request as SendFields, in a broker
    SendReplies     the answers to it
    SendTemplate    the head of a request, in a client

Compiled where possible (send.pxd gives the types).
"""

from typing import Final

import orjson

from rocketq.common import memory
from rocketq.common.memory import Buffer, WritableBuffer
from rocketq.common.numbers import INT32_MAX
from rocketq.remoting.codes import RequestCode, Version
from rocketq.remoting.headers.send import SendMessageResponse
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire import json_header, scan
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.scan import NOT_A_NUMBER, number_in

_INT32_MAX = INT32_MAX
# As far as 18 digits go; longer numbers take the general way.
_LONG_MAX = 10**18
_NOT_A_NUMBER = NOT_A_NUMBER

# What a template's head holds besides its own bytes and the properties.
_NUMBERS_SIZE = 128

# Texts that go into a reply as they are, without a look at their length.
_PLAIN_SIZE = 1024


# Reading


class SendFields:
    """The header of a send with one-letter names.

    `properties` and `topic_bytes` are as they will be stored, in UTF-8. Absent texts are
    empty, `reconsume_times` is 0 and `max_reconsume_times` -1 when absent.
    """

    topic: str
    topic_bytes: bytes
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: bytes
    reconsume_times: int
    unit_mode: bool
    max_reconsume_times: int
    batch: bool
    _command: Command
    _producer_group: str | None
    _default_topic: str | None
    _broker_name: str | None
    _producer_group_entry: int
    _default_topic_entry: int
    _broker_name_entry: int

    @property
    def producer_group(self) -> str:
        if self._producer_group is None:
            self._producer_group = scan.text_value(self._command, self._producer_group_entry)
        return self._producer_group

    @property
    def default_topic(self) -> str:
        if self._default_topic is None:
            self._default_topic = scan.text_value(self._command, self._default_topic_entry)
        return self._default_topic

    @property
    def broker_name(self) -> str:
        """The broker the request is meant for; empty when it does not say."""
        if self._broker_name is None:
            self._broker_name = scan.text_value(self._command, self._broker_name_entry)
        return self._broker_name


# Letter -> attribute, the value when absent, the limit.
_NUMBERS: Final = {
    "d": ("default_topic_queue_nums", 0, INT32_MAX),
    "e": ("queue_id", 0, INT32_MAX),
    "f": ("sys_flag", 0, INT32_MAX),
    "g": ("born_timestamp", 0, 10**18),
    "h": ("flag", 0, INT32_MAX),
    "j": ("reconsume_times", 0, INT32_MAX),
    "l": ("max_reconsume_times", -1, INT32_MAX),
}


def read_send(command: Command) -> SendFields | None:
    """The fields of a send; None if something is unusual and it takes the general way."""
    if command._entry_count < 0:
        return _from_ext_fields(command)
    fields = _blank(command)
    base = commands.address_of(command._frame)
    for i in range(command._entry_count):
        if command._entries[i].name_size != 1:
            continue
        letter = base[command._entries[i].name_at]
        if letter == 0x69:  # i
            fields.properties = scan.raw_value(command, base, i)
        elif letter == 0x62:  # b
            fields.topic_bytes = scan.raw_value(command, base, i)
            fields.topic = fields.topic_bytes.decode("utf-8")
        elif letter == 0x61:  # a
            fields._producer_group_entry = i
        elif letter == 0x63:  # c
            fields._default_topic_entry = i
        elif letter == 0x6E:  # n
            fields._broker_name_entry = i
        elif letter == 0x6B:  # k
            fields.unit_mode = scan.bool_value(command, base, i)
        elif letter == 0x6D:  # m
            fields.batch = scan.bool_value(command, base, i)
        elif 0x64 <= letter <= 0x6C:  # d to l
            number = scan.number_value(
                command,
                base,
                i,
                _LONG_MAX if letter == 0x67 else _INT32_MAX,
                -1 if letter == 0x6C else 0,
            )
            if number == _NOT_A_NUMBER:
                return None
            if letter == 0x64:
                fields.default_topic_queue_nums = number
            elif letter == 0x65:
                fields.queue_id = number
            elif letter == 0x66:
                fields.sys_flag = number
            elif letter == 0x67:
                fields.born_timestamp = number
            elif letter == 0x68:
                fields.flag = number
            elif letter == 0x6A:
                fields.reconsume_times = number
            else:
                fields.max_reconsume_times = number
    return fields


def _from_ext_fields(command: Command) -> SendFields | None:
    get = command.ext_fields.get
    fields = _blank(command)
    for letter, (name, absent, limit) in _NUMBERS.items():
        number = number_in(get(letter), absent, limit)
        if number == NOT_A_NUMBER:
            return None
        setattr(fields, name, number)
    fields.topic = get("b", "")
    fields.topic_bytes = fields.topic.encode("utf-8", "replace")
    fields.properties = get("i", "").encode("utf-8", "replace")
    fields.unit_mode = get("k", "").lower() == "true"
    fields.batch = get("m", "").lower() == "true"
    fields._producer_group = get("a", "")
    fields._default_topic = get("c", "")
    fields._broker_name = get("n", "")
    return fields


def _blank(command: Command) -> SendFields:
    """The fields of a header in which nothing stands."""
    fields = SendFields.__new__(SendFields)
    fields.topic = ""
    fields.topic_bytes = b""
    fields.default_topic_queue_nums = 0
    fields.queue_id = 0
    fields.sys_flag = 0
    fields.born_timestamp = 0
    fields.flag = 0
    fields.properties = b""
    fields.reconsume_times = 0
    fields.unit_mode = False
    fields.max_reconsume_times = -1
    fields.batch = False
    fields._command = command
    fields._producer_group = None
    fields._default_topic = None
    fields._broker_name = None
    fields._producer_group_entry = -1
    fields._default_topic_entry = -1
    fields._broker_name_entry = -1
    return fields


# Answering


class SendReplies:
    """Makes the replies to sends; one object for each region and trace switch.

    They are still Commands: whoever looks at their ext fields gets them. Where something is
    not plain, or the request came in another form than JSON, they are made the general way.
    """

    def __init__(self, region: str = "DefaultRegion", trace_on: bool = True) -> None:
        self.region = region
        self.trace_on = trace_on
        self._tail: bytes | None = None  # None: the general way
        if is_plain(region.encode()):
            trace = "true" if trace_on else "false"
            self._tail = f'","MSG_REGION":"{region}","TRACE_ON":"{trace}"}}'.encode()

    def reply(
        self,
        request: Command,
        code: int,
        store_host: bytes,
        physical_offset: int,
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> Command:
        """The reply to a send, in the form of the request.

        It takes what the store says: the host as it is stored (address and 4 bytes of
        port) and the physical offset, which together are the message's id, and the queue
        offset. `transaction_id` is the message's unique key, or None.
        """
        if not self._writes(request, transaction_id):
            ids = message_ids(store_host, [physical_offset])
            return self._general(request, code, ids, queue_id, queue_offset, transaction_id)
        out = memory.room(json_header.buffer_for(_PLAIN_SIZE))
        at = memory.put(out, 0, b'{"msgId":"')
        at = memory.put_hex(out, at, memory.address(store_host), 0, len(store_host))
        at = memory.put_hex_number(out, at, physical_offset, 16)
        at = self._put_rest(out, at, queue_id, queue_offset, transaction_id)
        return commands.encoded_reply(request, code, memory.bytes_at(out, 0, at), None, b"")

    def batch_reply(
        self,
        request: Command,
        store_host: bytes,
        physical_offsets: list[int],
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> Command:
        """The reply to a batch: the ids of all its messages, the queue offset of the first."""
        ids = message_ids(store_host, physical_offsets)
        if not self._writes(request, transaction_id):
            return self._general(request, 0, ids, queue_id, queue_offset, transaction_id)
        out = memory.room(json_header.buffer_for(_PLAIN_SIZE))
        at = self._put_rest(out, 0, queue_id, queue_offset, transaction_id)
        ext_json = b'{"msgId":"' + ids + memory.bytes_at(out, 0, at)
        return commands.encoded_reply(request, 0, ext_json, None, b"")

    def _writes(self, request: Command, transaction_id: bytes | None) -> bool:
        """Whether the reply is made here, and not the general way."""
        return (
            request.serialize_type == 0
            and self._tail is not None
            and (transaction_id is None or is_plain(transaction_id))
        )

    def _put_rest(
        self,
        out: WritableBuffer,
        at: int,
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> int:
        """What follows the message id, from its closing quote on."""
        assert self._tail is not None
        at = memory.put(out, at, b'","queueId":"')
        at = memory.put_number(out, at, queue_id)
        at = memory.put(out, at, b'","queueOffset":"')
        at = memory.put_number(out, at, queue_offset)
        if transaction_id is not None:
            at = memory.put(out, at, b'","transactionId":"')
            at = memory.put(out, at, transaction_id)
        return memory.put(out, at, self._tail)

    def _general(
        self,
        request: Command,
        code: int,
        ids: bytes,
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> Command:
        return request.reply(
            SendMessageResponse(
                msg_id=ids.decode(),
                queue_id=queue_id,
                queue_offset=queue_offset,
                transaction_id=(
                    None if transaction_id is None else transaction_id.decode("utf-8", "replace")
                ),
                region_id=self.region,
                trace_on="true" if self.trace_on else "false",
            ),
            code=code,
        )


def message_ids(store_host: bytes, physical_offsets: list[int]) -> bytes:
    """The ids of messages, joined by commas: host and position in hexadecimal."""
    buffer = memory.unfilled((2 * len(store_host) + 17) * len(physical_offsets))
    out = memory.room(buffer)
    at = 0
    for offset in physical_offsets:
        at = memory.put_hex(out, at, memory.address(store_host), 0, len(store_host))
        at = memory.put_hex_number(out, at, offset, 16)
        out[at] = 0x2C
        at += 1
    return memory.bytes_at(out, 0, at - 1)


def is_plain(text: bytes) -> bool:
    """Whether a text is the same inside a JSON string, and short."""
    size = len(text)
    if 4 * size > _PLAIN_SIZE:
        return False
    data = memory.address(text)
    for i in range(size):
        if data[i] < 0x20 or data[i] >= 0x7F or data[i] == 0x22 or data[i] == 0x5C:
            return False
    return True


# Writing


class SendTemplate:
    """The frame head of every send of a producer to one queue.

    Their headers are the same but for a few fields:

        {"code":310,"extFields":{"a":group,"b":topic,"c":template topic,"d":queues,
         "e":queue id,"f": sys flag *, "g": born timestamp *, "h": flag *, "i": properties *,
         "j":"0","k":"false","m":batch,"n":broker},"flag":0,"language":"PYTHON",
         "opaque": * ,"serializeTypeCurrentRPC":"JSON","version":479}

    Only what is marked * is written for each message; the rest is kept as bytes.
    """

    def __init__(
        self,
        code: int,
        group: str,
        topic: str,
        template_topic: str,
        template_queues: int,
        queue_id: int,
        broker_name: str,
    ) -> None:
        self._start = b"".join(
            (
                b'{"code":%d,"extFields":{"a":' % code,
                orjson.dumps(group),
                b',"b":',
                orjson.dumps(topic),
                b',"c":',
                orjson.dumps(template_topic),
                b',"d":"%d","e":"%d","f":"' % (template_queues, queue_id),
            )
        )
        batch = b"true" if code == RequestCode.SEND_BATCH_MESSAGE else b"false"
        self._middle = b"".join(
            (
                b'","j":"0","k":"false","m":"',
                batch,
                b'","n":',
                orjson.dumps(broker_name),
                b'},"flag":0,"language":"PYTHON","opaque":',
            )
        )
        self._end = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % Version.CURRENT

    def head(
        self,
        opaque: int,
        sys_flag: int,
        born_ms: int,
        flag: int,
        properties: bytes,
        body_size: int,
    ) -> bytes:
        """Length word, header word and header; the body follows."""
        size = len(self._start) + len(self._middle) + len(self._end) + _NUMBERS_SIZE
        buffer = json_header.buffer_for(size + 6 * len(properties))
        out = memory.room(buffer)
        at = memory.put(out, 8, self._start)
        at = memory.put_number(out, at, sys_flag)
        at = memory.put(out, at, b'","g":"')
        at = memory.put_number(out, at, born_ms)
        at = memory.put(out, at, b'","h":"')
        at = memory.put_number(out, at, flag)
        at = memory.put(out, at, b'","i":"')
        at = _put_escaped(out, at, properties)
        at = memory.put(out, at, self._middle)
        at = memory.put_number(out, at, opaque)
        at = memory.put(out, at, self._end)
        memory.put32(out, 0, at - 4 + body_size)
        memory.put32(out, 4, at - 8)
        return memory.bytes_at(out, 0, at)


def _put_escaped(out: WritableBuffer, at: int, properties: bytes) -> int:
    """Write encoded properties as the inside of a JSON string; where they end."""
    text: Buffer = memory.address(properties)
    for i in range(len(properties)):
        char = text[i]
        if char >= 0x20 and char != 0x22 and char != 0x5C:
            out[at] = char
            at += 1
        elif char >= 0x20:
            out[at] = 0x5C
            out[at + 1] = char
            at += 2
        else:
            at = memory.put(out, at, b"\\u00")
            out[at] = 0x30 + (char >> 4)
            char &= 15
            out[at + 1] = 0x30 + char if char < 10 else 0x57 + char
            at += 2
    return at
