"""Messages as text: a line, the body alone, JSON, or a layout of one's own."""

import base64
import string
import time
from collections.abc import Callable
from typing import Any, Final

import orjson

from rocketq.cli.failures import CannotStart
from rocketq.message.message import MessageExt

Text = Callable[[MessageExt], bytes]
"""How a message is printed, its end of line included."""


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
        "storeTimestamp": message.store_timestamp,
        "reconsumeTimes": message.reconsume_times,
        "properties": dict(message.properties),
    }
    try:
        data["body"] = message.body.decode()
    except UnicodeDecodeError:
        data["bodyBase64"] = base64.b64encode(message.body).decode()
    return data


def json_of(message: MessageExt) -> bytes:
    return orjson.dumps(data_of(message), option=orjson.OPT_APPEND_NEWLINE)


def raw_body(message: MessageExt) -> bytes:
    return message.body + b"\n"


def body_of(message: MessageExt) -> str:
    """The body as text; bytes that are not text are shown as `\\x..`."""
    return message.body.decode(errors="backslashreplace")


def text_of(message: MessageExt) -> str:
    """When it was stored, where, its tag and keys, and the body."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message.store_timestamp // 1000))
    place = f"{message.topic} {message.queue_id}@{message.queue_offset}"
    marks = " ".join(filter(None, [message.tags, *message.keys]))
    return f"{at} {place} [{marks}] {body_of(message)}"


def line_of(message: MessageExt) -> bytes:
    return _encoded(text_of(message) + "\n")


# A layout


class _Properties(dict[str, str]):
    """A property that a message does not have is empty."""

    def __missing__(self, name: str) -> str:
        return ""


_FIELDS: Final[dict[str, Callable[[MessageExt], object]]] = {
    "topic": lambda message: message.topic,
    "broker": lambda message: message.broker_name,
    "queue": lambda message: message.queue_id,
    "offset": lambda message: message.queue_offset,
    "id": lambda message: message.msg_id,
    "tag": lambda message: message.tags or "",
    "keys": lambda message: " ".join(message.keys),
    "body": body_of,
    "stored": lambda message: _time(message.store_timestamp),
    "born": lambda message: _time(message.born_timestamp),
    "retries": lambda message: message.reconsume_times,
    "properties": lambda message: _Properties(message.properties),
}


def template(layout: str) -> Text:
    """A layout like `{offset}\\t{body}` as a way to print messages."""
    layout = layout.replace("\\t", "\t").replace("\\n", "\n")
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(layout) if name is not None}
    except ValueError as error:
        raise CannotStart(f"--format {layout}: {error}") from None
    for name in used:
        plain = name.partition("[")[0]
        if plain not in _FIELDS or (plain != name and plain != "properties"):
            raise CannotStart(f"--format: there is no {{{name}}}; there is {', '.join(_FIELDS)}")
    getters = {name: _FIELDS[name] for name in {each.partition("[")[0] for each in used}}

    def text(message: MessageExt) -> bytes:
        values = {name: get(message) for name, get in getters.items()}
        return _encoded(layout.format_map(values) + "\n")

    return text


def _time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) + f".{rest:03d}"


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
