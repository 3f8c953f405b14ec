"""Filters of a query that save reading: Spark offers them, these are taken.

    topic, broker_name, queue_id   which queues are read at all
    queue_offset                   which range of each
    store_timestamp                the same: brokers are asked for the offsets of these times
    tags                           brokers filter

Whatever is taken is kept to the letter, so Spark does not look again. What is offered and not
taken, Spark does itself. Batch reads only: Spark offers nothing to streams, nor what is asked of a
map, so equality on properties is the option `sqlFilter`'s.

Only where the option `pushFilters` asks for it: Spark (4.1 to 4.3) keeps what the filters of one
query have left for the next query of the same DataFrame, whatever that one asks for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rocketq.filter import FilterError, parse_tags
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import SourceOptions
from rocketq.spark.schema import ALIASES

_OF_QUEUES: Final = frozenset({"topic", "broker_name", "queue_id"})
_NEVER_NULL: Final = _OF_QUEUES | {"queue_offset", "store_timestamp"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Range: TypeAlias = tuple[int | None, int | None]
"""From, and up to but without; None where it is open."""


@dataclass(frozen=True)
class Pruning:
    """What is left out. Picklable: it travels to the executors."""

    queue_filters: tuple[Filter, ...] = ()
    offsets: Range = (None, None)
    times_us: Range = (None, None)
    tags: tuple[str, ...] = field(default=())

    def wants(self, topic: str, queue: MessageQueue) -> bool:
        """`topic` is the name without the namespace."""
        values = {"topic": topic, "broker_name": queue.broker_name, "queue_id": queue.queue_id}
        return all(_holds(each, values) for each in self.queue_filters)

    def options(self, options: SourceOptions) -> SourceOptions:
        """The options, with the tags for brokers to filter by."""
        return replace(options, tags=" || ".join(self.tags)) if self.tags else options


def push(filters: Iterable[Filter], options: SourceOptions) -> tuple[Pruning, list[Filter]]:
    """What the filters leave out, and those that Spark has to do itself."""
    pruning, left = Pruning(), []
    for each in filters:
        taken = _taken(pruning, each, options)
        if taken is None:
            left.append(each)
        else:
            pruning = taken
    # That tags are there at all goes without saying once they are compared.
    if pruning.tags:
        left = [
            each for each in left if not (isinstance(each, IsNotNull) and _name(each) == "tags")
        ]
    return pruning, left


def _taken(pruning: Pruning, each: Filter, options: SourceOptions) -> Pruning | None:
    name = _name(each.child if isinstance(each, Not) else each)
    if isinstance(each, IsNotNull) and name in _NEVER_NULL:
        return pruning
    if name in _OF_QUEUES and _can_hold(each):
        return replace(pruning, queue_filters=(*pruning.queue_filters, each))
    if name == "queue_offset":
        found = _range(each, int)
        return None if found is None else replace(pruning, offsets=_both(pruning.offsets, found))
    if name == "store_timestamp":
        found = _range(each, _microseconds)
        return None if found is None else replace(pruning, times_us=_both(pruning.times_us, found))
    if name == "tags" and options.tags == "*" and options.sql is None and not pruning.tags:
        tags = _wanted_tags(each)
        return replace(pruning, tags=tags) if tags else None
    return None


def _name(each: Filter) -> str | None:
    attribute: tuple[str, ...] | None = getattr(each, "attribute", None)
    if attribute is None or len(attribute) != 1:
        return None
    return ALIASES.get(attribute[0], attribute[0])


# Queues


def _can_hold(each: Filter) -> bool:
    known = (
        EqualTo,
        EqualNullSafe,
        In,
        GreaterThan,
        GreaterThanOrEqual,
        LessThan,
        LessThanOrEqual,
        StringStartsWith,
        StringEndsWith,
        StringContains,
    )
    return isinstance(each.child if isinstance(each, Not) else each, known)


def _holds(each: Filter, values: dict[str, Any]) -> bool:
    if isinstance(each, Not):
        return not _holds(each.child, values)
    name = _name(each)
    assert name is not None
    ours, theirs = values[name], each.value  # type: ignore[attr-defined]
    match each:
        case EqualTo() | EqualNullSafe():
            return bool(ours == theirs)
        case In():
            return ours in theirs
        case GreaterThan():
            return bool(ours > theirs)
        case GreaterThanOrEqual():
            return bool(ours >= theirs)
        case LessThan():
            return bool(ours < theirs)
        case LessThanOrEqual():
            return bool(ours <= theirs)
        case StringStartsWith():
            return str(ours).startswith(theirs)
        case StringEndsWith():
            return str(ours).endswith(theirs)
    assert isinstance(each, StringContains), each
    return theirs in str(ours)


# Ranges


def _range(each: Filter, number: Any) -> Range | None:
    """The range that a comparison allows; `number` makes a whole number of its value."""
    match each:
        case EqualTo(value=value) | EqualNullSafe(value=value) if value is not None:
            return number(value), number(value) + 1
        case GreaterThan(value=value):
            return number(value) + 1, None
        case GreaterThanOrEqual(value=value):
            return number(value), None
        case LessThan(value=value):
            return None, number(value)
        case LessThanOrEqual(value=value):
            return None, number(value) + 1
    return None


def _microseconds(value: datetime) -> int:
    difference = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
    return (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds


def _both(one: Range, other: Range) -> Range:
    starts = [start for start, _ in (one, other) if start is not None]
    ends = [end for _, end in (one, other) if end is not None]
    return max(starts, default=None), min(ends, default=None)


# Tags


def _wanted_tags(each: Filter) -> tuple[str, ...]:
    """The tags of an equality, if brokers understand them as they are."""
    match each:
        case EqualTo(value=str(tag)):
            tags: tuple[str, ...] = (tag,)
        case In(value=values) if all(isinstance(value, str) for value in values):
            tags = tuple(values)
        case _:
            return ()
    try:
        understood = parse_tags(" || ".join(tags)).tags
    except FilterError:
        return ()
    return tags if set(understood) == set(tags) else ()
