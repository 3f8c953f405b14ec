"""Reads JSON and fastjson's dialect of it, within limits."""

import sys
from dataclasses import dataclass
from typing import Any, Final

import orjson

from rocketq.common.json.dialect import DialectParser, JsonError
from rocketq.common.json.references import has_references, resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a text is read before it is refused.

    Reading holds up everybody else whom the same loop serves, and what it costs depends on
    the number of values more than on the size.
    """

    size: int = sys.maxsize
    values: int = sys.maxsize
    """Counted by the commas and brackets, wherever they stand."""
    objects: int = sys.maxsize
    dialect_size: int = sys.maxsize
    """How long a text may be that only the slower reader understands."""
    references: bool = True
    """Whether `$ref` stands for what it points at."""


# What a stranger may send in the body of one request: some 10 ms of work. The largest that
# honest programs send are lists of a few thousand topics or queues.
REQUEST_LIMITS: Final = Limits(
    size=4 * 1024 * 1024, values=100_000, objects=8_000, dialect_size=128 * 1024
)
# A header's size is limited by whoever cut it out of its frame.
HEADER_LIMITS: Final = Limits(dialect_size=64 * 1024, references=False)
# For answers to our own requests, and for our own files.
TRUSTED: Final = Limits()


def loads(data: bytes | bytearray | memoryview | str, limits: Limits = TRUSTED) -> Any:
    """Read JSON or fastjson's dialect of it.

    Keys come out as strings, a raw `0` like a quoted one; object keys as `ObjectKey`.
    """
    if limits.values < sys.maxsize:
        data = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
        _check(data, limits)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        if len(data) > limits.dialect_size:
            raise JsonError(
                f"{len(data)} characters that are not plain JSON; "
                f"of other forms up to {limits.dialect_size} are read"
            ) from None
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        value = DialectParser(text).document()
    if not limits.references or not has_references(data):
        return value
    return resolved(value, limits.values)


def _check(data: bytes, limits: Limits) -> None:
    """Refuse what would take long; the counts are upper bounds, and cheap."""
    if len(data) > limits.size:
        raise JsonError(f"{len(data)} bytes of JSON, allowed are {limits.size}")
    objects = data.count(b"{")
    if objects > limits.objects:
        raise JsonError(f"JSON with {objects} objects, allowed are {limits.objects}")
    values = objects + data.count(b"[") + data.count(b",")
    if values > limits.values:
        raise JsonError(f"JSON with {values} values, allowed are {limits.values}")
