"""RocketMQ's trace records: what happened to a message, as text in a trace message's body.

Fields are joined by char 1, a record ends with char 2, its first field is its type:

    Pub             time region group topic id tags keys store-host length cost type offset-id ok
    SubBefore       time region group request-id id retries keys
    SubAfter        request-id id cost ok keys context-code time group
    EndTransaction  time region group topic id tags keys store-host type transaction-id state check
    Recall          time region group topic id ok

A missing text is written `null`, as Java does, and read back as empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Final, TypeAlias

FIELD_SEPARATOR: Final = "\x01"
RECORD_SEPARATOR: Final = "\x02"

CONTEXT_CODES: Final = {"SUCCESS": 0, "TIME_OUT": 1, "EXCEPTION": 2, "RETURNNULL": 3, "FAILED": 4}
NORMAL, HALF, TRANSACTION_COMMIT, DELAY, ORDER = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pub:
    """A message was sent."""

    TYPE: ClassVar = "Pub"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str
    keys: str
    store_host: str
    body_length: int
    cost_ms: int
    message_type: int
    offset_msg_id: str
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubBefore:
    """A message was given to a listener."""

    TYPE: ClassVar = "SubBefore"

    time_ms: int
    region: str
    group: str
    request_id: str
    msg_id: str
    retry_times: int
    keys: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAfter:
    """The listener is done with it; `request_id` names the SubBefore."""

    TYPE: ClassVar = "SubAfter"

    request_id: str
    msg_id: str
    cost_ms: int
    success: bool
    keys: str
    context_code: int
    time_ms: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A half message was settled."""

    TYPE: ClassVar = "EndTransaction"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str
    keys: str
    store_host: str
    message_type: int
    transaction_id: str
    state: str
    from_check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A timed message was called back."""

    TYPE: ClassVar = "Recall"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    success: bool


TraceRecord: TypeAlias = Pub | SubBefore | SubAfter | EndTransaction | Recall
_KINDS: dict[str, type[TraceRecord]] = {
    kind.TYPE: kind for kind in (Pub, SubBefore, SubAfter, EndTransaction, Recall)
}


def encode_record(record: TraceRecord) -> str:
    """One record as text, its end mark included."""
    values = [_text(getattr(record, field.name)) for field in fields(record)]
    return FIELD_SEPARATOR.join([record.TYPE, *values]) + RECORD_SEPARATOR


def decode_records(body: str) -> Iterator[TraceRecord]:
    """The records of a trace message; types and trailing fields nobody knows are left out."""
    for line in body.split(RECORD_SEPARATOR):
        kind_name, *values = line.split(FIELD_SEPARATOR)
        kind = _KINDS.get(kind_name)
        if kind is not None:
            yield _decode(kind, values)


def _decode(kind: type[TraceRecord], values: list[str]) -> TraceRecord:
    # Older clients leave out the last fields (offset id and success of Pub, time and group
    # of SubAfter), newer ones add some.
    parsed: dict[str, object] = {}
    for number, field in enumerate(fields(kind)):
        value = values[number] if number < len(values) else ""
        if field.type == "int":
            parsed[field.name] = int(value) if value.lstrip("-").isdigit() else 0
        elif field.type == "bool":
            parsed[field.name] = value.lower() == "true"
        else:
            parsed[field.name] = "" if value == "null" else value
    if kind is Pub and len(values) == 12:
        # Pub of 4.x before offset ids: `success` follows the message type.
        parsed["offset_msg_id"] = ""
        parsed["success"] = values[11].lower() == "true"
    return kind(**parsed)  # type: ignore[arg-type]  # typed by the loop above


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value == "" or value is None:
        return "null"
    return str(value)
