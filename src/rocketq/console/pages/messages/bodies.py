"""A message's body in the forms that people read, and messages as files."""

import base64
from collections.abc import Iterable
from typing import Any, Final

import orjson

from rocketq.message.message import MessageExt

SHOWN_BYTES: Final = 64 * 1024
_ROW: Final = 16


def as_text(body: bytes) -> str:
    return body[:SHOWN_BYTES].decode(errors="backslashreplace")


def as_json(body: bytes) -> str | None:
    """Laid out, or None where it is no JSON; a cut one would not be any."""
    if len(body) > SHOWN_BYTES:
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def as_hex(body: bytes) -> str:
    """Offset, sixteen bytes, and what of them is text."""
    lines = []
    for at in range(0, min(len(body), SHOWN_BYTES), _ROW):
        row = body[at : at + _ROW]
        left, right = row[: _ROW // 2].hex(" "), row[_ROW // 2 :].hex(" ")
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {left:<23}  {right:<23}  {text}")
    return "\n".join(lines)


def excerpt(body: bytes, length: int = 160) -> str:
    """The beginning, in one line."""
    text = body[: length * 4].decode(errors="backslashreplace")
    return " ".join(text.split())[:length]


def data_of(message: MessageExt) -> dict[str, Any]:
    """A message as plain data; a body that is no text travels as base64."""
    data: dict[str, Any] = {
        "topic": message.topic,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "brokerName": message.broker_name or None,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "bornTimestamp": message.born_timestamp,
        "bornHost": ":".join(map(str, message.born_host)),
        "storeTimestamp": message.store_timestamp,
        "storeHost": ":".join(map(str, message.store_host)),
        "reconsumeTimes": message.reconsume_times,
        "bodyCRC": message.body_crc,
        "properties": dict(message.properties),
    }
    try:
        data["body"] = message.body.decode()
    except UnicodeDecodeError:
        data["bodyBase64"] = base64.b64encode(message.body).decode()
    return data


def exported(messages: Iterable[MessageExt]) -> bytes:
    """JSON, one object per line."""
    option = orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps(data_of(message), option=option) for message in messages)
