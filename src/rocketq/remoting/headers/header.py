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
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from rocketq.common.naming import camel_case
from rocketq.common.numbers import parse_float, parse_int64

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
        for field, name, _, _ in _layout(type(self)):
            value = getattr(self, field)
            if value is not None:
                ext_fields[name] = value if value.__class__ is str else _text(value)
        return ext_fields

    @classmethod
    def from_ext_fields(cls: type[H], ext_fields: Mapping[str, str]) -> H:
        """Read the fields; what is missing or makes no sense gets its default."""
        values = {}
        get = ext_fields.get
        for field, name, parse, column in _layout(cls):
            text = get(name)
            if text is None and len(column.names) > 1:
                text = column.other_text(ext_fields)
            if text is not None:
                value = parse(text) if parse is not None else text
                if value is not None:
                    values[field] = value
                    continue
            if column.required:
                values[field] = column.zero
        return cls(**values)


class RequestHeader(Header):
    """The header of a request; `CODE` is what it asks for."""

    __slots__ = ()

    CODE: ClassVar[int]


class ResponseHeader(Header):
    """The header of a response."""

    __slots__ = ()


# The schema


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One field of a header class."""

    field: str
    names: tuple[str, ...]
    parse: Callable[[str], Any] | None
    """None for text, which is right as it is."""
    zero: Any
    required: bool

    def other_text(self, ext_fields: Mapping[str, str]) -> str | None:
        """The value under one of its other names."""
        for name in self.names[1:]:
            text = ext_fields.get(name)
            if text is not None:
                return text
        return None


def columns(cls: type) -> tuple[Column, ...]:
    """The fields of a header class, in the order they are sent."""
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


Row = tuple[str, str, Callable[[str], Any] | None, Column]


def _lay_out(cls: type) -> tuple[Row, ...]:
    """The same, as the loops that read and write want it."""
    return tuple((each.field, each.names[0], each.parse, each) for each in columns(cls))


_layout: Callable[[type], tuple[Row, ...]] = functools.cache(_lay_out)


def _kind(hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (kind,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kind
    return hint


def _conversion(kind: Any) -> tuple[Callable[[str], Any] | None, Any]:
    """How a type is read from text, and its zero."""
    if kind is str:
        return None, ""
    if kind is bool:
        return _parse_bool, False
    if kind is int:
        return parse_int64, 0
    if kind is float:
        return parse_float, 0.0
    assert issubclass(kind, enum.Enum), kind
    return kind.__members__.get, next(iter(kind))


def _parse_bool(text: str) -> bool:
    return text.lower() == "true"


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, enum.Enum) and not isinstance(value, int):
        return value.name
    return str(value)
