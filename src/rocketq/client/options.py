"""How the options of public classes are declared, checked and shown in `help`.

    class ProducerOptions(ClientOptions, total=False):     for type checkers: names and types
        retries: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ProducerConfig(ClientConfig):                    for everybody else: what it means
        retries: int = option(2, "Further attempts ...", low=0)

    class Producer:
        @explained_by(ProducerConfig)
        def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
            self.config = configured(ProducerConfig, options, by="Producer")

A configuration is made once, when its client is made, and every wrong value is named there.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketq.client.errors import InvalidSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
C = TypeVar("C", bound="DataclassInstance")

_DOC: Final = "doc"
_CHECK: Final = "check"
_WIDTH: Final = 88


@dataclasses.dataclass(frozen=True, slots=True)
class _Range:
    low: float | None
    high: float | None
    above: float | None
    unless: object

    def check(self, name: str, value: Any) -> None:
        if value is None or value == self.unless:
            return
        if self.above is not None and not value > self.above:
            raise InvalidSettings(f"{name} must be above {self.above}, not {value}")
        if self.low is not None and self.high is not None and not self.low <= value <= self.high:
            raise InvalidSettings(f"{name} must be within {self.low} and {self.high}, not {value}")
        if self.low is not None and not value >= self.low:
            raise InvalidSettings(f"{name} must be at least {self.low}, not {value}")


def option(
    default: T,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    unless: object = None,
    secret: bool = False,
) -> T:
    """A field of a configuration: its default, one line about it, and the values it may have.

    `unless` is a value outside of the range that is allowed as well; a `secret` is not shown.
    """
    metadata = {_DOC: doc, _CHECK: _Range(low, high, above, unless)}
    field: T = dataclasses.field(default=default, metadata=metadata, repr=not secret)
    return field


def check_ranges(config: DataclassInstance) -> None:
    """Raise `InvalidSettings` for the first option that is out of its range."""
    for field in dataclasses.fields(config):
        check = field.metadata.get(_CHECK)
        if check is not None:
            check.check(field.name, getattr(config, field.name))


def configured(kind: type[C], options: Mapping[str, Any], *, by: str) -> C:
    """Make a configuration of keyword arguments; an unknown one is named, with the nearest."""
    known = [field.name for field in dataclasses.fields(kind)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f". It has {', '.join(known)}"
            raise TypeError(f"{by} has no option {name!r}{hint}")
    return kind(**options)


def explained_by(config: type[DataclassInstance]) -> Callable[[F], F]:
    """Decorate an `__init__` whose `**options` are a configuration's: `help` lists them all."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for field in in_order(config)
            if field.name not in signature.parameters
        ]
        described = signature.replace(parameters=[*named, *options])
        function.__signature__ = described  # type: ignore[attr-defined]
        doc = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = "\n".join([doc, "", *option_lines(config)])
        return function

    return decorate


def in_order(config: type[DataclassInstance]) -> list[dataclasses.Field[Any]]:
    """The options of this kind of client first, those that every client has last."""
    every_client = {field.name for field in dataclasses.fields(config.__mro__[-2])}
    return sorted(dataclasses.fields(config), key=lambda field: field.name in every_client)


def option_lines(config: type[DataclassInstance]) -> Iterator[str]:
    """A line for each option, longer ones wrapped."""
    for field in in_order(config):
        yield from textwrap.wrap(
            f"{field.name}: {field.metadata.get(_DOC, '')}", _WIDTH, subsequent_indent="    "
        )
