"""The frames of sends, written from a template.

All sends of a producer to one queue have the same header but for a few fields:

    {"code":310,"extFields":{"a":group,"b":topic,"c":template topic,"d":queues,"e":queue id,
     "f": sys flag *, "g": born timestamp *, "h": flag *, "i": properties *,
     "j":"0","k":"false","m":batch,"n":broker},"flag":0,"language":"PYTHON",
     "opaque": * ,"serializeTypeCurrentRPC":"JSON","version":479}

Only what is marked * is written for each message; the rest is kept as bytes.
"""

import struct

import orjson

from rocketq.remoting.codes import RequestCode, Version

_ITEM_HEAD = struct.Struct(">iiiii")
_ITEM_FIXED_SIZE = 22


def json_text(text: str) -> bytes:
    """A string as JSON, quotes included."""
    return orjson.dumps(text)


class SendTemplate:
    """The frame head of every send to one queue."""

    def __init__(
        self,
        code: int,
        group: str,
        topic: str,
        template_topic: str,
        template_queues: int,
        queue_id: int,
        broker_name: str,
        oneway: bool = False,
    ) -> None:
        self._start = b"".join(
            (
                b'{"code":%d,"extFields":{"a":' % code,
                json_text(group),
                b',"b":',
                json_text(topic),
                b',"c":',
                json_text(template_topic),
                b',"d":"%d","e":"%d","f":"' % (template_queues, queue_id),
            )
        )
        batch = b"true" if code == RequestCode.SEND_BATCH_MESSAGE else b"false"
        self._middle = b"".join(
            (
                b'","j":"0","k":"false","m":"',
                batch,
                b'","n":',
                json_text(broker_name),
                b'},"flag":%d,"language":"PYTHON","opaque":' % (2 if oneway else 0),
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
        header = b'%b%d","g":"%d","h":"%d","i":"%b%b%d%b' % (
            self._start,
            sys_flag,
            born_ms,
            flag,
            escaped(properties),
            self._middle,
            opaque,
            self._end,
        )
        size = len(header)
        return b"%b%b%b" % (
            (4 + size + body_size).to_bytes(4, "big"),
            size.to_bytes(4, "big"),
            header,
        )


def escaped(properties: bytes) -> bytes:
    """Encoded properties as the inside of a JSON string."""
    return orjson.dumps(properties.decode())[1:-1]


def batch_item(flag: int, body: bytes, properties: bytes) -> bytes:
    """One message of a batch body: size, magic 0, CRC 0, flag, body, properties."""
    size = _ITEM_FIXED_SIZE + len(body) + len(properties)
    return b"%b%b%b%b" % (
        _ITEM_HEAD.pack(size, 0, 0, flag, len(body)),
        body,
        len(properties).to_bytes(2, "big"),
        properties,
    )
