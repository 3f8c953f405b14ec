"""A message on one line, and as JSON."""

import base64
import time
from typing import Any

from rocketq.message.message import MessageExt


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


def body_of(message: MessageExt) -> str:
    """The body as text; bytes that are none are shown as such."""
    return message.body.decode(errors="backslashreplace")


def line_of(message: MessageExt) -> str:
    """When it was stored, where, its tag and keys, and the body."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message.store_timestamp // 1000))
    place = f"{message.topic} {message.queue_id}@{message.queue_offset}"
    marks = " ".join(filter(None, [message.tags, *message.keys]))
    return f"{at} {place} [{marks}] {body_of(message)}"
