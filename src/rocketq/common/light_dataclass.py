"""Dataclasses that are cheap to define.

The protocol has more than two hundred headers and bodies, and a broker knows them all from
its first moment. The standard decorator writes and compiles six functions for each of them:
a quarter of a second before anything else happens. This one leaves it at `__init__`; the
others are the same few for every class, told its fields.

They are written and type-checked as ever:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class QueueData:
        broker_name: str

A class with slots is made anew by the decorator, so its methods write `super(Name, self)`.

What is given up is the check at run time: assigning to a field of a frozen one is for the
type checker to catch.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(*, frozen: bool, slots: bool, kw_only: bool) -> Callable[[type[C]], type[C]]:
    """As `dataclasses.dataclass`, for classes compared and hashed by their fields."""
    assert frozen, "they are hashed by their fields, which must not change"

    def define(cls: type[C]) -> type[C]:
        defined = dataclasses.dataclass(slots=slots, kw_only=kw_only, repr=False, eq=False)(cls)
        names = [field.name for field in dataclasses.fields(defined)]  # type: ignore[arg-type]
        _compare_by(defined, names)
        return defined

    return define


def _compare_by(cls: type[Any], names: list[str]) -> None:
    """Add what all of them do alike."""
    values: Callable[[Any], Any] = attrgetter(*names) if names else _no_fields

    def equals(self: Any, other: Any) -> Any:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    def hashed(self: Any) -> int:
        return hash(values(self))

    def shown(self: Any) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{cls.__qualname__}({inner})"

    cls.__eq__ = equals  # type: ignore[assignment]
    cls.__hash__ = hashed  # type: ignore[assignment]
    cls.__repr__ = shown  # type: ignore[assignment]


def _no_fields(instance: object) -> tuple[()]:
    return ()
