"""The frames of sends, written from a template.

All sends of a producer to one queue have the same header but for a few fields:

    {"code":310,"extFields":{"a":group,"b":topic,"c":template topic,"d":queues,"e":queue id,
     "f": sys flag *, "g": born timestamp *, "h": flag *, "i": properties *,
     "j":"0","k":"false","m":batch,"n":broker},"flag":0,"language":"PYTHON",
     "opaque": * ,"serializeTypeCurrentRPC":"JSON","version":479}

Only what is marked * is written for each message; the rest is kept as bytes. Compiled where
possible (send_frames.pxd gives the types).
"""

import struct

import cython
import orjson

from rocketq.remoting.codes import RequestCode, Version

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_AsASCIIString
    from cython.cimports.rocketq.remoting.wire.json_head import (
        SCRATCH_SIZE,
        put,
        put_number,
        put_word,
        scratch,
    )

    _hex_digits = cython.declare(cython.p_char, b"0123456789abcdef")

_WORDS = struct.Struct(">II")
_ITEM_HEAD = struct.Struct(">iiiii")
_ITEM_FIXED_SIZE = 22
_ID_NAME = b"UNIQ_KEY\x01"


class SendTemplate:
    """The frame head of every send to one queue."""

    def __init__(self, code, group, topic, template_topic, template_queues, queue_id, broker_name):
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

    def head(self, opaque, sys_flag, born_ms, flag, properties, body_size):
        """Length word, header word and header; the body follows."""
        if cython.compiled:
            size = len(self._start) + len(self._middle) + len(self._end) + 128
            if size + 6 * len(properties) <= SCRATCH_SIZE:
                out = scratch()
                at = put(out, 8, self._start)
                at = put_number(out, at, sys_flag)
                at = put(out, at, b'","g":"')
                at = put_number(out, at, born_ms)
                at = put(out, at, b'","h":"')
                at = put_number(out, at, flag)
                at = put(out, at, b'","i":"')
                at = put_escaped(out, at, properties)
                at = put(out, at, self._middle)
                at = put_number(out, at, opaque)
                at = put(out, at, self._end)
                put_word(out, 0, at - 4 + body_size)
                put_word(out, 4, at - 8)
                return PyBytes_FromStringAndSize(cython.cast("const char *", out), at)
        quoted = orjson.dumps(properties.decode())
        header = b'%b%d","g":"%d","h":"%d","i":%b%b%d%b' % (
            self._start,
            sys_flag,
            born_ms,
            flag,
            quoted[: len(quoted) - 1],  # its closing quote is the template's
            self._middle,
            opaque,
            self._end,
        )
        return _WORDS.pack(4 + len(header) + body_size, len(header)) + header


def put_escaped(out, at, properties):
    """Write encoded properties as the inside of a JSON string; where they end."""
    text = cython.cast("const unsigned char *", PyBytes_AS_STRING(properties))
    size = len(properties)
    for i in range(size):
        char = text[i]
        if char >= 0x20 and char != 0x22 and char != 0x5C:
            out[at] = char
            at += 1
        elif char >= 0x20:
            out[at] = 0x5C
            out[at + 1] = char
            at += 2
        else:
            out[at] = 0x5C
            out[at + 1] = 0x75
            out[at + 2] = 0x30
            out[at + 3] = 0x30
            out[at + 4] = _hex_digits[char >> 4]
            out[at + 5] = _hex_digits[char & 15]
            at += 6
    return at


def batch_item(flag, body, properties, new_id):
    """One message of a batch body: size, magic 0, CRC 0, flag, body, properties.

    `new_id` is added to the properties as their unique key, unless it is empty.
    """
    if cython.compiled:
        id_size = len(new_id)
        extra = len(_ID_NAME) + id_size + 1 if id_size else 0
        body_size = len(body)
        properties_size = len(properties) + extra
        size = _ITEM_FIXED_SIZE + body_size + properties_size
        item = PyBytes_FromStringAndSize(cython.NULL, size)
        out = cython.cast("unsigned char *", PyBytes_AS_STRING(item))
        put_word(out, 0, size)
        put_word(out, 4, 0)
        put_word(out, 8, 0)
        put_word(out, 12, flag)
        put_word(out, 16, body_size)
        at = put(out, 20, body)
        out[at] = (properties_size >> 8) & 255
        out[at + 1] = properties_size & 255
        at = put(out, at + 2, properties)
        if id_size:
            at = put(out, at, _ID_NAME)
            at = put(out, at, PyUnicode_AsASCIIString(new_id))
            out[at] = 2
        return item
    if new_id:
        properties = b"%b%b%b\x02" % (properties, _ID_NAME, new_id.encode())
    size = _ITEM_FIXED_SIZE + len(body) + len(properties)
    return b"%b%b%b%b" % (
        _ITEM_HEAD.pack(size, 0, 0, flag, len(body)),
        body,
        (len(properties) & 0xFFFF).to_bytes(2, "big"),  # too long is the caller's to refuse
        properties,
    )
