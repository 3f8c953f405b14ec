"""Messages as people and programs write them: lines, files, JSON objects."""

import asyncio
import base64
import binascii
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from rocketq.cli.failures import CannotStart
from rocketq.common import json
from rocketq.message.message import Message
from rocketq.message.properties.codec import SYSTEM_PROPERTIES

_READ_SIZE: Final = 1 << 16

_FIELDS: Final = ("body", "bodyBase64", "tags", "keys", "properties", "delayLevel")
# What `rocketq tail --json` adds: it says where a message was, not what it is.
_PLACES: Final = (
    "topic msgId offsetMsgId brokerName queueId queueOffset bornTimestamp storeTimestamp"
    " reconsumeTimes"
).split()


async def lines_of_stdin() -> AsyncIterator[bytes]:
    """Each line as soon as it is there; blank ones are no messages."""
    rest = b""
    while chunk := await _read(sys.stdin.fileno()):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest


async def _read(descriptor: int) -> bytes:
    """Wait for what comes next, in a thread that nobody waits for when the program ends.

    A terminal's line may never come, and a file cannot be waited for in any other way.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def resolve(chunk: bytes | OSError) -> None:
        if done.cancelled():
            return
        if isinstance(chunk, OSError):
            done.set_exception(chunk)
        else:
            done.set_result(chunk)

    def read() -> None:
        try:
            chunk: bytes | OSError = os.read(descriptor, _READ_SIZE)
        except OSError as error:
            chunk = error
        try:
            loop.call_soon_threadsafe(resolve, chunk)
        except RuntimeError:
            pass  # the loop is closed: nobody wants it any more

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return await done


def from_json(topic: str, line: bytes, *, number: int, delay_level: int = 0) -> Message:
    """A message out of a line such as `rocketq tail --json` prints."""
    try:
        data = json.loads(line)
    except ValueError as error:
        raise CannotStart(f"line {number} is not JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise CannotStart(f'line {number} is not a JSON object, like {{"body": "hello"}}')
    for name in data:
        if name not in _FIELDS and name not in _PLACES:
            raise CannotStart(f"line {number}: unknown field {name}; known: {', '.join(_FIELDS)}")
    try:
        return Message(
            topic,
            _body(data),
            tags=_text(data.get("tags"), "tags"),
            keys=_keys(data.get("keys")),
            properties=_properties(data.get("properties")),
            delay_level=int(data.get("delayLevel") or delay_level),
        )
    except (ValueError, TypeError) as error:
        raise CannotStart(f"line {number}: {error}") from None


def _body(data: Mapping[str, Any]) -> bytes:
    if "bodyBase64" in data:
        try:
            return base64.b64decode(data["bodyBase64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError("bodyBase64 is not base64") from None
    body = data.get("body")
    if isinstance(body, str):
        return body.encode()
    if body is None:
        raise ValueError("there is no body")
    return bytes(json.standard_dumps(body))  # an object is sent as the JSON it is


def _text(value: object, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{what} must be a text")


def _keys(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    raise ValueError("keys must be a text or a list of texts")


def _properties(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("properties must be an object")
    # Those of the system come from where the message was; it gets new ones.
    return {
        str(name): each if isinstance(each, str) else json.standard_dumps(each).decode()
        for name, each in value.items()
        if name not in SYSTEM_PROPERTIES
    }
