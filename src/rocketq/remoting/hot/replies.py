"""The replies that go out in thousands a second, made as one piece of bytes.

They are still Commands: whoever looks at their ext fields gets them. In another form than
JSON, and uncompiled, they are made in the general way.
"""

import cython

from rocketq.remoting.codes import LanguageCode, Version
from rocketq.remoting.headers.pull import PullMessageResponse
from rocketq.remoting.headers.send import SendMessageResponse

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.rocketq.remoting.wire.command import Command, address_of
    from cython.cimports.rocketq.remoting.wire.json_head import (
        json_head,
        put,
        put_hex,
        put_number,
        put_word,
        scratch,
    )

_PYTHON = int(LanguageCode.PYTHON)
_CURRENT = int(Version.CURRENT)


class SendReplies:
    """Makes the replies to sends; one object for each region and trace switch."""

    def __init__(self, region="DefaultRegion", trace_on=True):
        self.region = region
        self.trace_on = trace_on
        self._tail = None  # None: the general way
        if cython.compiled and _is_plain(region.encode()):
            trace = "true" if trace_on else "false"
            self._tail = f'","MSG_REGION":"{region}","TRACE_ON":"{trace}"}}'.encode()

    def reply(
        self, request, code, store_host, physical_offset, queue_id, queue_offset, transaction_id
    ):
        """The reply to a send, in the form of the request.

        It takes what the store says: the host as it is stored (address and 4 bytes of
        port) and the physical offset, which together are the message's id, and the queue
        offset. `transaction_id` is the message's unique key, or None.
        """
        if (
            cython.compiled
            and request.serialize_type == 0
            and self._tail is not None
            and (transaction_id is None or _is_plain(transaction_id))
        ):
            ext_json = self._ext_json(
                store_host, physical_offset, queue_id, queue_offset, transaction_id
            )
            return _encoded(request, code, ext_json, None, b"")
        message_id = store_host + (physical_offset & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        return request.reply(
            SendMessageResponse(
                msg_id=message_id.hex().upper(),
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

    def batch_reply(
        self, request, store_host, physical_offsets, queue_id, queue_offset, transaction_id
    ):
        """The reply to a batch: the ids of all its messages, the queue offset of the first."""
        ids = message_ids(store_host, physical_offsets)
        if (
            cython.compiled
            and request.serialize_type == 0
            and self._tail is not None
            and (transaction_id is None or _is_plain(transaction_id))
        ):
            ext_json = b'{"msgId":"%b","queueId":"%d","queueOffset":"%d' % (
                ids,
                queue_id,
                queue_offset,
            )
            if transaction_id is not None:
                ext_json += b'","transactionId":"' + transaction_id
            return _encoded(request, 0, ext_json + self._tail, None, b"")
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
            )
        )

    def _ext_json(self, store_host, physical_offset, queue_id, queue_offset, transaction_id):
        out = scratch()
        at = put(out, 0, b'{"msgId":"')
        at = put_hex(out, at, address_of(store_host), len(store_host))
        put_word(out, 8000, physical_offset >> 32)
        put_word(out, 8004, cython.cast("unsigned int", physical_offset))
        at = put_hex(out, at, out + 8000, 8)
        at = put(out, at, b'","queueId":"')
        at = put_number(out, at, queue_id)
        at = put(out, at, b'","queueOffset":"')
        at = put_number(out, at, queue_offset)
        if transaction_id is not None:
            at = put(out, at, b'","transactionId":"')
            at = put(out, at, transaction_id)
        at = put(out, at, self._tail)
        return PyBytes_FromStringAndSize(cython.cast("const char *", out), at)


def message_ids(store_host, physical_offsets):
    """The ids of messages, joined by commas: host and position in hexadecimal."""
    if cython.compiled:
        size = 2 * len(store_host) + 17
        ids = PyBytes_FromStringAndSize(cython.NULL, size * len(physical_offsets))
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(ids))
        position = scratch()
        at = 0
        for offset in physical_offsets:
            at = put_hex(out, at, address_of(store_host), len(store_host))
            put_word(position, 0, offset >> 32)
            put_word(position, 4, cython.cast("unsigned int", offset))
            at = put_hex(out, at, position, 8)
            out[at] = 0x2C
            at += 1
        return ids[: len(ids) - 1]
    ids = b"".join([store_host + offset.to_bytes(8, "big") for offset in physical_offsets])
    return ids.hex(",", -(len(store_host) + 8)).upper().encode()


def reply_to_pull(
    request,
    code,
    remark,
    suggest_which_broker_id,
    next_begin_offset,
    min_offset,
    max_offset,
    topic_sys_flag=0,
    group_sys_flag=0,
    body=b"",
):
    """The reply to a pull; `remark` is the status in plain ASCII, `body` a buffer or a list."""
    if cython.compiled and request.serialize_type == 0:
        ext_json = _pull_ext_json(
            suggest_which_broker_id,
            next_begin_offset,
            min_offset,
            max_offset,
            topic_sys_flag,
            group_sys_flag,
        )
        remark_json = None if remark is None else b'"' + remark + b'"'
        return _encoded(request, code, ext_json, remark_json, body)
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


def _pull_ext_json(
    suggest_which_broker_id,
    next_begin_offset,
    min_offset,
    max_offset,
    topic_sys_flag,
    group_sys_flag,
):
    out = scratch()
    at = put(out, 0, b'{"suggestWhichBrokerId":"')
    at = put_number(out, at, suggest_which_broker_id)
    at = put(out, at, b'","nextBeginOffset":"')
    at = put_number(out, at, next_begin_offset)
    at = put(out, at, b'","minOffset":"')
    at = put_number(out, at, min_offset)
    at = put(out, at, b'","maxOffset":"')
    at = put_number(out, at, max_offset)
    at = put(out, at, b'","topicSysFlag":"')
    at = put_number(out, at, topic_sys_flag)
    at = put(out, at, b'","groupSysFlag":"')
    at = put_number(out, at, group_sys_flag)
    at = put(out, at, b'"}')
    return PyBytes_FromStringAndSize(cython.cast("const char *", out), at)


def _encoded(request, code, ext_json, remark_json, body):
    """A reply whose head is made already."""
    if isinstance(body, list):
        body_size = 0
        for part in body:
            body_size += len(part)
    else:
        body_size = len(body)
    head = json_head(code, ext_json, 1, b"PYTHON", request.opaque, remark_json, _CURRENT, body_size)
    reply = Command.__new__(Command)
    reply.code = code
    reply.flag = 1
    reply.opaque = request.opaque
    reply.language = _PYTHON
    reply.version = _CURRENT
    reply.serialize_type = 0
    reply._frame = head
    reply._header_at = 8
    reply._header_end = len(head)
    reply._body_end = len(head)
    reply._body = body
    reply._is_encoded = True
    reply._has_ext_fields = True
    reply._entry_count = -1
    return reply


def _is_plain(text):
    """Whether a text is the same inside a JSON string, and not too long for the buffer."""
    if len(text) > 1024:
        return False
    for i in range(len(text)):
        if text[i] < 0x20 or text[i] >= 0x7F or text[i] == 0x22 or text[i] == 0x5C:
            return False
    return True
