"""JSON as RocketMQ speaks it: fastjson's dialect, written and read.

What Java writes is not always JSON. A map key that is not a string goes out as it is, be
it a number or a whole object:

    {0:"10.0.0.1:10911"}
    {{"brokerName":"b","queueId":0,"topic":"t"}:12}

and what it accepts is wider still: single quotes, bare names, stray commas, references
to objects written before (`{"$ref":"$.a.b"}`).

Writing, in three forms:

    dumps           compact, raw keys        bodies between programs
    dumps_pretty    tabs, raw keys           the files in store/config, as 5.5.0 lays them out
    standard_dumps  compact, strict JSON     topic routes for clients that ask for it

Reading: `loads` takes all of these. Keys come out as strings, whichever way they were
written, except objects, which come out as `ObjectKey`. orjson does the work wherever the
text is plain JSON, which most of it is; the parser in `common.dialect` is for the rest.
What strangers send is read within limits: see `Limits`.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from rocketq.common.dialect import DEPTH_LIMIT, DialectParser, JsonError, ObjectKey
from rocketq.common.naming import camel_case

__all__ = [
    "HEADER_LIMITS",
    "REQUEST_LIMITS",
    "TRUSTED",
    "JsonError",
    "Limits",
    "ObjectKey",
    "dumps",
    "dumps_pretty",
    "loads",
    "standard_dumps",
]


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

# What references may make of a text whose reader has set no lower limit.
_EXPANDED_VALUES: Final = 1_000_000


# Writing


def dumps(value: Any) -> bytes:
    """Compact, with raw keys.

    Takes plain data and objects with a `to_json` method that turns them into such. Keys of
    maps may be str, int, ObjectKey and NamedTuple.
    """
    try:
        return orjson.dumps(value, _plain, orjson.OPT_PASSTHROUGH_DATACLASS)
    except (TypeError, orjson.JSONEncodeError):
        # Raw keys somewhere inside: write this level by hand, and offer orjson its parts.
        pass
    if isinstance(value, Mapping):
        return b"{%b}" % b",".join(
            [b"%b:%b" % (_dump_key(name), dumps(item)) for name, item in value.items()]
        )
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join([dumps(item) for item in value])
    if hasattr(value, "to_json"):
        return dumps(value.to_json())
    return _dump_scalar(value)


def _plain(value: Any) -> Any:
    """What orjson cannot write, as something it can."""
    if hasattr(value, "to_json"):
        return value.to_json()
    raise TypeError(value)


def dumps_pretty(value: Any) -> bytes:
    """One entry a line, indented with tabs, raw keys: the layout of 5.5.0's config files."""
    parts: list[bytes] = []
    _write_pretty(value, b"\n", parts)
    return b"".join(parts)


def _write_pretty(value: Any, line_end: bytes, parts: list[bytes]) -> None:
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, Mapping) and value:
        inner = line_end + b"\t"
        separator = b"{" + inner
        for name, item in value.items():
            parts.append(separator)
            parts.append(_dump_key(name) + b":")
            _write_pretty(item, inner, parts)
            separator = b"," + inner
        parts.append(line_end + b"}")
    elif isinstance(value, list | tuple) and value:
        inner = line_end + b"\t"
        separator = b"[" + inner
        for item in value:
            parts.append(separator)
            _write_pretty(item, inner, parts)
            separator = b"," + inner
        parts.append(line_end + b"]")
    else:
        parts.append(dumps(value))


def standard_dumps(value: Any) -> bytes:
    """Compact strict JSON: keys quoted and sorted, ASCII only, whole numbers beyond 2^53 quoted."""
    text = json.dumps(_standardised(value), separators=(",", ":"), allow_nan=False)
    return text.replace("/", "\\/").encode("ascii")


_BROWSER_SAFE = 2**53 - 1


def _standardised(value: Any) -> Any:
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, Mapping):
        # Numbers sort as numbers, before they become text.
        names = sorted(value, key=lambda name: (isinstance(name, str), name))
        return {_plain_key(name): _standardised(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_standardised(item) for item in value]
    if isinstance(value, int) and not -_BROWSER_SAFE <= value <= _BROWSER_SAFE:
        return str(value)
    return value


def _plain_key(name: Any) -> str:
    return name if isinstance(name, str) else _dump_key(name).decode()


def _dump_key(name: Any) -> bytes:
    if isinstance(name, str):
        return _dump_scalar(name)
    if isinstance(name, bool):
        return b"true" if name else b"false"
    if isinstance(name, int):
        return b"%d" % name
    if isinstance(name, ObjectKey):
        return dumps(dict(name))
    if isinstance(name, tuple) and hasattr(name, "_asdict"):
        fields = {camel_case(field): item for field, item in name._asdict().items()}
        return dumps(dict(sorted(fields.items())))
    raise TypeError(f"not a key: {name!r}")


def _dump_scalar(value: Any) -> bytes:
    """What orjson refuses to write: numbers beyond 64 bits, lone surrogates, numpy and such."""
    if isinstance(value, str):
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return orjson.dumps(text)
    if isinstance(value, int):
        return b"%d" % value
    raise TypeError(f"cannot be written as JSON: {value!r}")


# Reading


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
    if not limits.references or not _has_references(data):
        return value
    return _resolved(value, min(limits.values, _EXPANDED_VALUES))


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


# References


def _has_references(data: bytes | bytearray | memoryview | str) -> bool:
    return ('"$ref"' in data) if isinstance(data, str) else b'"$ref"' in bytes(data)


_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]")


def _resolved(root: Any, value_limit: int) -> Any:
    """Put the objects themselves where `{"$ref": path}` points at them.

    One object may then stand in many places, and a few lines may stand for billions of
    values: what they expand to is counted, and refused where it is too much or endless.
    """
    ancestors: list[Any] = []

    def visit(value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        if len(ancestors) == DEPTH_LIMIT:
            raise JsonError(f"references in what is nested more than {DEPTH_LIMIT} deep")
        ancestors.append(value)
        if isinstance(value, list):
            value[:] = [visit(item) for item in value]
        elif len(value) == 1 and isinstance(value.get("$ref"), str):
            ancestors.pop()
            return target(value["$ref"])
        else:
            for name, item in value.items():
                value[name] = visit(item)
        ancestors.pop()
        return value

    def target(path: str) -> Any:
        if path == "@":
            return ancestors[-1] if ancestors else None
        if path.startswith(".."):
            levels = path.count("..")
            return ancestors[-1 - levels] if levels < len(ancestors) else None
        if not path.startswith("$"):
            return None
        found = root
        for step in _STEP.finditer(path, 1):
            try:
                found = found[step[1]] if step[1] is not None else found[int(step[2])]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    root = visit(root)
    _Expansion(value_limit).measure(root)
    return root


class _Expansion:
    """Counts what a value expands to, and how deep it goes; each object once."""

    def __init__(self, value_limit: int) -> None:
        self._value_limit = value_limit
        self._measured: dict[int, tuple[int, int] | None] = {}  # None: under way

    def measure(self, value: Any, level: int = 0) -> tuple[int, int]:
        """How many values, and how many levels of them."""
        if not isinstance(value, dict | list):
            return 1, 0
        key = id(value)
        if key in self._measured:
            known = self._measured[key]
            if known is None:
                raise JsonError("a reference to an object around it")
            return known
        if level == DEPTH_LIMIT:
            raise JsonError(f"references nested more than {DEPTH_LIMIT} deep")
        self._measured[key] = None
        count, depth = 1, 0
        for item in value.values() if isinstance(value, dict) else value:
            item_count, item_depth = self.measure(item, level + 1)
            count += item_count
            depth = max(depth, item_depth)
        if count > self._value_limit:
            raise JsonError(f"references to more than {self._value_limit} values")
        if level + depth >= DEPTH_LIMIT:
            raise JsonError(f"references nested more than {DEPTH_LIMIT} deep")
        self._measured[key] = count, depth + 1
        return count, depth + 1
