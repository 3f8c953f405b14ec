"""Typed headers: a dataclass is the schema, wire names and conversions derive from it.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class QueryConsumerOffset(RequestHeader):
        CODE: ClassVar = RequestCode.QUERY_CONSUMER_OFFSET

        consumer_group: str
        topic: str
        queue_id: int

A field's wire name is its own in camelCase, unless the field says otherwise:
`field(metadata=wire("clientID"))`. Values are str, int, bool, float, and any of these or
None; None is not sent. Reading is as forgiving as Java's: a field that is missing or makes
no sense takes its default, or the zero of its type.
"""

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, TypeVar

from rocketq.common.naming import camel_case

H = TypeVar("H", bound="Header")


def wire(*names: str) -> dict[str, tuple[str, ...]]:
    """Field metadata: the name on the wire, then others that are understood as well."""
    return {"wire": names}


class Header:
    """What request and response headers share."""

    __slots__ = ()

    def to_ext_fields(self) -> dict[str, str]:
        """The fields as they travel."""
        ext_fields = {}
        for column in columns(type(self)):
            value = getattr(self, column.field)
            if value is not None:
                ext_fields[column.names[0]] = value if type(value) is str else _text(value)
        return ext_fields

    @classmethod
    def from_ext_fields(cls: type[H], ext_fields: Mapping[str, str]) -> H:
        """Read the fields; what is missing or makes no sense gets its default."""
        values = {}
        for column in columns(cls):
            text = None
            for name in column.names:
                text = ext_fields.get(name)
                if text is not None:
                    break
            if text is not None:
                value = column.parse(text)
                if value is not None:
                    values[column.field] = value
                    continue
            if column.required:
                values[column.field] = column.zero
        return cls(**values)


class RequestHeader(Header):
    """The header of a request; `CODE` is what it asks for."""

    __slots__ = ()

    CODE: ClassVar[int]


class ResponseHeader(Header):
    """The header of a response."""

    __slots__ = ()


# -- the schema ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One field of a header class."""

    field: str
    names: tuple[str, ...]
    parse: Callable[[str], Any]
    zero: Any
    required: bool


def columns(cls: type) -> tuple[Column, ...]:
    """The fields of a header class, in the order they are sent."""
    return _columns(cls)


@functools.cache
def _columns(cls: Hashable) -> tuple[Column, ...]:
    assert isinstance(cls, type), cls
    assert dataclasses.is_dataclass(cls), cls
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        names = field.metadata.get("wire") or (camel_case(field.name),)
        kind = _kind(hints[field.name])
        parse, zero = _conversion(kind)
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        found.append(Column(field.name, names, parse, zero, required))
    return tuple(found)


def _kind(hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (kind,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kind
    return hint


def _conversion(kind: Any) -> tuple[Callable[[str], Any], Any]:
    """How a type is read from text, and its zero."""
    if kind is str:
        return _parse_text, ""
    if kind is bool:
        return _parse_bool, False
    if kind is int:
        return _parse_int, 0
    if kind is float:
        return _parse_float, 0.0
    assert issubclass(kind, enum.Enum), kind
    return kind.__members__.get, next(iter(kind))


def _parse_text(text: str) -> str:
    return text


def _parse_bool(text: str) -> bool:
    return text.lower() == "true"


def _parse_int(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    # Python's int() takes more than Java's parsers do.
    if not -(2**63) <= number < 2**63 or "_" in text or not text.isascii():
        return None
    return number


def _parse_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, enum.Enum) and not isinstance(value, int):
        return value.name
    return str(value)
