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
text is plain JSON, which most of it is; the parser below is for the rest.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from rocketq.common.errors import RocketqError
from rocketq.common.naming import camel_case

_DEPTH_LIMIT = 64


class JsonError(RocketqError, ValueError):
    """Text that is not JSON, not even by fastjson's measure."""


class ObjectKey(Mapping[str, Any]):
    """An object used as a key of a map: immutable, equal by content."""

    __slots__ = ("_fields", "_hash")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)
        self._hash = hash(frozenset(self._fields.items()))

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._fields == other._fields

    def __repr__(self) -> str:
        return f"ObjectKey({self._fields!r})"


# -- writing ------------------------------------------------------------------------------


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


# -- reading ------------------------------------------------------------------------------


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Read JSON or fastjson's dialect of it.

    Keys come out as strings, a raw `0` like a quoted one; object keys as `ObjectKey`.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        parser = _Parser(text)
        value = parser.document()
        has_references = '"$ref"' in text
    else:
        has_references = ('"$ref"' in data) if isinstance(data, str) else b'"$ref"' in bytes(data)
    return _resolve(value) if has_references else value


_BLANKS = re.compile(r"[\s,]*")  # stray commas count as blanks between elements
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[LlSsBbFfDd]?")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN = {
    '"': re.compile(r'[^"\\]*'),
    "'": re.compile(r"[^'\\]*"),
}
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
}
_WORDS = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def document(self) -> Any:
        value = self._value()
        self._skip(_SPACE)
        if self._at != len(self._text):
            raise self._error("text after the end")
        return value

    def _value(self) -> Any:
        self._skip(_SPACE)
        start = self._peek()
        if start == "{":
            return self._nested(self._object)
        if start == "[":
            return self._nested(self._array)
        if start in ('"', "'"):
            return self._string()
        match = _NUMBER.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            return self._number(match)
        match = _NAME.match(self._text, self._at)
        if match is not None and match[0] in _WORDS:
            self._at = match.end()
            return _WORDS[match[0]]
        raise self._error("a value expected")

    def _nested(self, parse: Callable[[], Any]) -> Any:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise self._error(f"nested more than {_DEPTH_LIMIT} deep")
        value = parse()
        self._depth -= 1
        return value

    def _object(self) -> dict[Any, Any]:
        self._at += 1
        fields: dict[Any, Any] = {}
        while True:
            self._skip(_BLANKS)
            if self._peek() == "}":
                self._at += 1
                return fields
            name = self._key()
            self._skip(_SPACE)
            if self._peek() != ":":
                raise self._error("':' expected")
            self._at += 1
            fields[name] = self._value()
            self._separator("}")

    def _array(self) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while True:
            self._skip(_BLANKS)
            if self._peek() == "]":
                self._at += 1
                return items
            items.append(self._value())
            self._separator("]")

    def _separator(self, end: str) -> None:
        self._skip(_SPACE)
        if self._peek() not in (",", end):
            raise self._error(f"',' or '{end}' expected")

    def _key(self) -> Any:
        start = self._peek()
        if start in ('"', "'"):
            return self._string()
        if start == "{":
            fields = self._nested(self._object)
            try:
                return ObjectKey(fields)
            except TypeError:
                raise self._error("a key may not hold lists or objects") from None
        match = _NUMBER.match(self._text, self._at) or _NAME.match(self._text, self._at)
        if match is None:
            raise self._error("a key expected")
        self._at = match.end()
        return match[0]

    def _string(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        parts = []
        while True:
            match = _PLAIN[quote].match(self._text, self._at)
            assert match is not None  # matches the empty string
            parts.append(match[0])
            self._at = match.end()
            end = self._peek()
            self._at += 1
            if end == quote:
                break
            parts.append(self._escape())
        text = "".join(parts)
        if any("\ud800" <= char <= "\udfff" for char in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text

    def _escape(self) -> str:
        kind = self._peek()
        self._at += 1
        width = {"u": 4, "x": 2}.get(kind)
        if width is None:
            if kind not in _ESCAPES:
                raise self._error("unknown escape")
            return _ESCAPES[kind]
        digits = self._text[self._at : self._at + width]
        if not re.fullmatch(r"[0-9a-fA-F]+", digits) or len(digits) != width:
            raise self._error("bad escape")
        self._at += width
        return chr(int(digits, 16))

    def _number(self, match: re.Match[str]) -> int | float:
        text = match[0].rstrip("LlSsBbFfDd")
        try:
            return float(text) if match[1] or match[2] else int(text)
        except ValueError:  # a number of thousands of digits
            raise self._error("bad number") from None

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise self._error("text ends too early")
        return self._text[self._at]

    def _skip(self, blanks: re.Pattern[str]) -> None:
        match = blanks.match(self._text, self._at)
        assert match is not None  # matches the empty string
        self._at = match.end()

    def _error(self, what: str) -> JsonError:
        return JsonError(f"{what} at character {self._at}")


# -- references ---------------------------------------------------------------------------

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _resolve(root: Any) -> Any:
    """Put the objects themselves where `{"$ref": path}` points at them."""

    def visit(value: Any, ancestors: tuple[Any, ...]) -> Any:
        if isinstance(value, dict):
            if len(value) == 1 and isinstance(value.get("$ref"), str):
                return target(value["$ref"], ancestors)
            for name, item in value.items():
                value[name] = visit(item, (*ancestors, value))
        elif isinstance(value, list):
            value[:] = [visit(item, (*ancestors, value)) for item in value]
        return value

    def target(path: str, ancestors: tuple[Any, ...]) -> Any:
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

    return visit(root, ())
