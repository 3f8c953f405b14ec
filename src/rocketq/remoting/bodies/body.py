"""JSON bodies: a dataclass is the schema, as with headers.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class QueueData(Body):
        broker_name: str
        read_queue_nums: int

A field's name on the wire is its own in camelCase unless it says otherwise with `wire(...)`.
Types are str, int, float, bool, Any, other bodies, MessageQueue, lists and dicts of these
(keys: str, int, MessageQueue), and any of these or None, which is not sent.

Written as Java does: properties in alphabetical order, nothing for None. Read as leniently:
numbers may be text and text numbers, unknown properties are ignored, a property that is
missing or makes no sense takes its default, or the zero of its type. Names that stand for
an enum in Java may arrive as its ordinal: `field(metadata=names("PULL", "POP"))`.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.common.loop.slices import Slices
from rocketq.common.naming import camel_case
from rocketq.common.numbers import parse_float, whole_number
from rocketq.message.queue import MessageQueue
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.header import wire

if TYPE_CHECKING:
    from rocketq.remoting.wire.command import Command

__all__ = ["BadBody", "Body", "names", "wire"]

B = TypeVar("B", bound="Body")


class BadBody(RemotingError):
    """A body that is not what its request or response should carry."""


def names(*in_order: str) -> dict[str, Any]:
    """Field metadata: the names of a Java enum, which may also arrive as their ordinals."""
    return {"names": in_order}


class Body:
    """What all JSON bodies, and the objects inside them, can do."""

    __slots__ = ()

    def encode(self) -> bytes:
        """The body as it travels."""
        return json.dumps(self.to_json())

    @classmethod
    def from_request(cls: type[B], request: "Command") -> B:
        """Read the body of a request: no more of it than anybody may send."""
        return cls.decode(request.body, json.REQUEST_LIMITS)

    @classmethod
    def slices_of_request(cls: type[B], request: "Command") -> Slices[B]:
        """The same of a large one, in slices."""
        plain = cls._load(request.body, json.REQUEST_LIMITS)
        yield
        return (yield from cls._slices(plain))

    @classmethod
    def decode(cls: type[B], data: Buffer, limits: json.Limits = json.TRUSTED) -> B:
        """Read a body, or raise BadBody when it is not even an object."""
        return cls.from_json(cls._load(data, limits))

    @classmethod
    def _load(cls, data: Buffer, limits: json.Limits) -> dict[str, Any]:
        try:
            value = json.loads(data, limits)
        except json.JsonError as error:
            raise BadBody(f"{cls.__name__} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise BadBody(f"{cls.__name__} is not a JSON object")
        return value

    def to_json(self) -> dict[str, Any]:
        """As plain data, in the order in which it is written."""
        plain = {}
        for field, name, kind, property_ in _columns(type(self)):
            value = getattr(self, field)
            if value.__class__ is kind:
                plain[name] = value
            elif value is not None:
                plain[name] = property_.write(value)
        return plain

    @classmethod
    def from_json(cls: type[B], plain: Mapping[str, Any]) -> B:
        """From plain data; what is missing or makes no sense gets its default."""
        values = {}
        get = plain.get
        for field, name, kind, property_ in _columns(cls):
            value = get(name)
            if value.__class__ is kind:  # as it should be, and nearly always is
                values[field] = value
                continue
            value = property_.find(plain)
            if value is not None:
                values[field] = value
            elif property_.required:
                values[field] = property_.zero()
        return cls(**values)

    @classmethod
    def _slices(cls: type[B], plain: Mapping[str, Any]) -> Slices[B]:
        """As `from_json`, with a pause after each object in a list of objects."""
        rest = dict(plain)
        lists = {}
        for field, name, _, property_ in _columns(cls):
            if property_.item is None or not isinstance(plain.get(name), list):
                continue
            try:
                lists[field] = yield from _list_slices(property_.item, rest.pop(name))
            except _SENSELESS:
                pass
        made = cls.from_json(rest)
        return dataclasses.replace(made, **lists) if lists else made  # type: ignore[type-var]


def _list_slices(item: type[B], plain: list[Any]) -> Slices[list[B]]:
    found = []
    for each in plain:
        if each is not None:
            found.append((yield from item._slices(_object(each))))
            yield
    return found


_SENSELESS: Final = (ValueError, TypeError, KeyError, AttributeError)


# The schema

Read = Callable[[Any], Any]
Write = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Property:
    """One field of a body class."""

    field: str
    names: tuple[str, ...]
    read: Read
    write: Write
    zero: Callable[[], Any]
    required: bool
    kind: type | None
    """The class of values that need no conversion, if there is one."""
    item: type[Body] | None
    """Of what there is a list, if there is one."""

    def find(self, plain: Mapping[str, Any]) -> Any:
        """The value under one of its names, converted; None if there is none or no sense in it."""
        for name in self.names:
            value = plain.get(name)
            if value is not None:
                try:
                    return self.read(value)
                except _SENSELESS:
                    return None
        return None


def properties(cls: type) -> tuple[Property, ...]:
    """The fields of a body class, in the order in which they are written."""
    assert dataclasses.is_dataclass(cls), cls
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        wire_names = field.metadata.get("wire") or (camel_case(field.name),)
        read, write, zero = _conversion(hints[field.name])
        kind = _kind(hints[field.name])
        if "names" in field.metadata:
            read = functools.partial(_read_name, field.metadata["names"])
            kind = None
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        item = _item(hints[field.name])
        found.append(Property(field.name, wire_names, read, write, zero, required, kind, item))
    return tuple(sorted(found, key=lambda each: each.names[0]))


Column = tuple[str, str, type | None, Property]


def _lay_out(cls: type) -> tuple[Column, ...]:
    """The same, as the loops that read and write want it."""
    return tuple((each.field, each.names[0], each.kind, each) for each in properties(cls))


_columns: Callable[[type], tuple[Column, ...]] = functools.cache(_lay_out)


def _kind(hint: Any) -> type | None:
    """The class of values that are right as they come out of JSON."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (hint,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return hint if hint in _SCALARS else None


def _item(hint: Any) -> type[Body] | None:
    """The class of objects in a list of them."""
    if typing.get_origin(hint) is not list:
        return None
    (item,) = typing.get_args(hint)
    return item if isinstance(item, type) and issubclass(item, Body) else None


def _conversion(hint: Any) -> tuple[Read, Write, Callable[[], Any]]:
    """How a type is read, how it is written, and its zero."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or origin is typing.Union:
        (kind,) = [kind for kind in arguments if kind is not type(None)]
        read, write, _ = _conversion(kind)
        return read, write, _none
    if origin is list:
        read_item, write_item, _ = _conversion(arguments[0])
        return (
            lambda value: _read_list(read_item, value),
            _same if write_item is _same else lambda value: [write_item(item) for item in value],
            list,
        )
    if origin is dict:
        read_key = _key(arguments[0])
        read_item, write_item, _ = _conversion(arguments[1])
        return (
            lambda value: _read_dict(read_key, read_item, value),
            _same
            if write_item is _same
            else lambda value: {name: write_item(item) for name, item in value.items()},
            dict,
        )
    if hint is Any:
        return _same, _same, _none
    if hint is MessageQueue:
        return read_queue, _write_queue, lambda: MessageQueue("", "", 0)
    if hint in _SCALARS:
        read, zero = _SCALARS[hint]
        return read, _same, zero
    assert issubclass(hint, Body), hint
    return (
        lambda value: hint.from_json(_object(value)),
        lambda value: value.to_json(),
        lambda: hint.from_json({}),
    )


def _key(hint: Any) -> Read:
    """How a map's key is read: text, or an object."""
    if hint is MessageQueue:
        return read_queue
    read: Read = _SCALARS[hint][0]
    return read


def _same(value: Any) -> Any:
    return value


def _none() -> None:
    return None


def _object(value: Any) -> Mapping[str, Any]:
    """An object, also one that an old client wrote as text."""
    if isinstance(value, str):
        value = json.loads(value, json.REQUEST_LIMITS)
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return value


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value).decode()


def read_int(value: Any) -> int:
    number = whole_number(value)
    if number is None:
        raise ValueError(value)
    return number


def _read_float(value: Any) -> float:
    number = parse_float(value) if isinstance(value, str) else float(value)
    if number is None:
        raise ValueError(value)
    return number


def _read_bool(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("true", "1")
    return bool(value)


def _read_name(in_order: tuple[str, ...], value: Any) -> str | None:
    """An enum's name; `None` for one nobody knows, as Java has it."""
    if isinstance(value, str) and not value.isdecimal():
        return value
    ordinal = read_int(value)
    return in_order[ordinal] if 0 <= ordinal < len(in_order) else None


def _read_list(read_item: Read, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return [read_item(item) for item in value if item is not None]


def _read_dict(read_key: Read, read_item: Read, value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return {read_key(name): read_item(item) for name, item in value.items() if item is not None}


def read_queue(value: Any) -> MessageQueue:
    queue = value if value.__class__ is dict else _object(value)
    topic = queue.get("topic", "")
    broker_name = queue.get("brokerName", "")
    queue_id = queue.get("queueId", 0)
    return MessageQueue(
        topic if topic.__class__ is str else _read_text(topic),
        broker_name if broker_name.__class__ is str else _read_text(broker_name),
        read_int(queue_id),
    )


def _write_queue(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


_SCALARS: dict[Any, tuple[Read, Callable[[], Any]]] = {
    str: (_read_text, str),
    int: (read_int, int),
    float: (_read_float, float),
    bool: (_read_bool, bool),
}
