# cython: annotation_typing=False
"""Reads what fastjson takes for JSON and nobody else does; `common.json` is the face of it.

Wider than JSON: raw keys (`{0:1}`, `{{"a":1}:2}`, `{name:1}`), single quotes, stray commas,
numbers with a letter behind them (`12L`). Each character is looked at once, whatever the
text: who may send how much of it is decided by the callers.

Compiled where possible (dialect.pxd gives the types).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rocketq.common.errors import RocketqError

DEPTH_LIMIT: Final = 64
# Numbers that are read exactly; nobody means longer ones.
_DIGITS_LIMIT: Final = 40

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[LlSsBbFfDd]?")
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_ESCAPES: Final = {
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
_WORDS: Final = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}


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


class DialectParser:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._end = len(text)
        self._depth = 0
        self._backslash_at = -1  # the next one, as far as it has been looked for

    def document(self) -> Any:
        """The one value that the text consists of."""
        value = self._value()
        self._skip_blanks()
        if self._at != self._end:
            raise self._error("text after the end")
        return value

    def _value(self) -> Any:
        self._skip_blanks()
        start = self._peek()
        if start == "{":
            return self._object()
        if start == "[":
            return self._array()
        if start == '"' or start == "'":
            return self._string()
        if start == "-" or "0" <= start <= "9":
            return self._number()
        match = _NAME.match(self._text, self._at)
        if match is None or match[0] not in _WORDS:
            raise self._error("a value expected")
        self._at = match.end()
        return _WORDS[match[0]]

    def _object(self) -> dict[Any, Any]:
        self._enter()
        fields: dict[Any, Any] = {}
        while True:
            self._skip_blanks_and_commas()
            if self._peek() == "}":
                self._leave()
                return fields
            name = self._key()
            self._skip_blanks()
            if self._peek() != ":":
                raise self._error("':' expected")
            self._at += 1
            fields[name] = self._value()
            self._skip_blanks()
            end = self._peek()
            if end != "," and end != "}":
                raise self._error("',' or '}' expected")

    def _array(self) -> list[Any]:
        self._enter()
        items: list[Any] = []
        while True:
            self._skip_blanks_and_commas()
            if self._peek() == "]":
                self._leave()
                return items
            items.append(self._value())
            self._skip_blanks()
            end = self._peek()
            if end != "," and end != "]":
                raise self._error("',' or ']' expected")

    def _enter(self) -> None:
        self._at += 1
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise self._error(f"nested more than {DEPTH_LIMIT} deep")

    def _leave(self) -> None:
        self._at += 1
        self._depth -= 1

    def _key(self) -> Any:
        start = self._peek()
        if start == '"' or start == "'":
            return self._string()
        if start == "{":
            fields = self._object()
            try:
                return ObjectKey(fields)
            except TypeError:
                raise self._error("a key may not hold lists or objects") from None
        end = self._end_of_digits()
        if end > 0:
            digits = self._text[self._at : end]
            self._at = end
            return digits
        match = _NUMBER.match(self._text, self._at) or _NAME.match(self._text, self._at)
        if match is None:
            raise self._error("a key expected")
        self._at = match.end()
        return match[0]

    def _string(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        parts: list[str] = []
        while True:
            end = self._text.find(quote, self._at)
            if end < 0:
                raise self._error("text ends too early")
            if self._backslash_at < self._at:
                # Looked for once and kept, for the sake of texts with few of them.
                found = self._text.find("\\", self._at)
                self._backslash_at = self._end if found < 0 else found
            if self._backslash_at > end:
                break
            parts.append(self._text[self._at : self._backslash_at])
            self._at = self._backslash_at + 1
            parts.append(self._escape())
        text = self._text[self._at : end]
        self._at = end + 1
        if parts:
            parts.append(text)
            text = "".join(parts)
        return text if text.isascii() else _without_surrogates(text)

    def _escape(self) -> str:
        kind = str(self._peek())
        self._at += 1
        width = 4 if kind == "u" else 2 if kind == "x" else 0
        if width == 0:
            if kind not in _ESCAPES:
                raise self._error("unknown escape")
            return _ESCAPES[kind]
        digits = self._text[self._at : self._at + width]
        if len(digits) != width or _HEX.fullmatch(digits) is None:
            raise self._error("bad escape")
        self._at += width
        return chr(int(digits, 16))

    def _number(self) -> int | float:
        end = self._end_of_digits()
        if end > 0:
            digits = self._text[self._at : end]
            self._at = end
            return int(digits)
        match = _NUMBER.match(self._text, self._at)
        if match is None or match.end() - self._at > _DIGITS_LIMIT:
            raise self._error("bad number")
        self._at = match.end()
        text = match[0].rstrip("LlSsBbFfDd")
        return float(text) if match[1] or match[2] else int(text)

    def _end_of_digits(self) -> int:
        """Where a plain whole number ends that nothing else follows; -1 if it is not one."""
        at = self._at
        if at < self._end and self._text[at] == "-":
            at += 1
        first = at
        while at < self._end and "0" <= self._text[at] <= "9":
            at += 1
        if at == first or at - first > 18 or at == self._end:
            return -1
        char = self._text[at]
        return at if char == ":" or char == "," or char == "}" or char == "]" else -1

    def _peek(self) -> str:
        if self._at >= self._end:
            raise self._error("text ends too early")
        return self._text[self._at]

    def _skip_blanks(self) -> None:
        while self._at < self._end and self._text[self._at].isspace():
            self._at += 1

    def _skip_blanks_and_commas(self) -> None:
        """Commas too many count as blanks."""
        while self._at < self._end:
            char = self._text[self._at]
            if char != "," and not char.isspace():
                break
            self._at += 1

    def _error(self, what: str) -> JsonError:
        return JsonError(f"{what} at character {self._at}")


def _without_surrogates(text: str) -> str:
    """Pairs of escaped surrogates as the character they mean, single ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
