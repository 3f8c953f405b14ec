"""Attributes of topics and groups: which exist, and how a request changes them.

A request lists changes, `+key=value` to set and `-key` to remove; what is stored carries no
sign. Some attributes are fixed when a topic is made, because its queues are laid out by
them.

    of topics                                                            fixed
    queue.type       SimpleCQ, BatchCQ                                   yes
    cleanup.policy   DELETE, COMPACTION                                  yes
    message.type     UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, ...  no
    reserve.time     ms, -1 for the broker's own                         no
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.common.numbers import INT64_MAX, parse_int64


class InvalidAttribute(RocketqError):
    """A change of attributes that cannot be made; the text goes to the one who asked."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute and the values it may have."""

    name: str
    values: frozenset[str] | None = None  # None: a number
    is_fixed: bool = False
    lowest: int = 0
    highest: int = INT64_MAX

    def check(self, value: str) -> None:
        if self.values is not None:
            if value not in self.values:
                listed = ", ".join(sorted(self.values))
                raise InvalidAttribute(f"value is not in set: [{listed}]")
            return
        number = parse_int64(value)
        if number is None:
            raise InvalidAttribute(f"value is not a number: {value}")
        if not self.lowest <= number <= self.highest:
            raise InvalidAttribute(f"value is not in range({self.lowest}, {self.highest})")


MESSAGE_TYPE: Final = "message.type"
MIXED: Final = "MIXED"

TOPIC_ATTRIBUTES: Final = {
    attribute.name: attribute
    for attribute in (
        Attribute("queue.type", frozenset({"SimpleCQ", "BatchCQ"}), is_fixed=True),
        Attribute("cleanup.policy", frozenset({"DELETE", "COMPACTION"}), is_fixed=True),
        Attribute(
            MESSAGE_TYPE,
            frozenset(
                {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", MIXED}
            ),
        ),
        Attribute("reserve.time", lowest=-1),
        Attribute("lite.expiration", lowest=-1),
    )
}
GROUP_ATTRIBUTES: Final = {"priority.factor": Attribute("priority.factor", highest=1000)}


def parse_changes(text: str) -> dict[str, str]:
    """Read `+key=value,-key` as it comes in a header: signed key to value."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else []:
        if not part.strip():
            raise InvalidAttribute("the attribute list has an empty part")
        key, equals, value = part.partition("=")
        key = key.strip()
        if equals and "=" in value:
            raise InvalidAttribute(f"kv string format wrong: {part}")
        if equals and not key.startswith("+"):
            raise InvalidAttribute(f"add/alter attribute format is wrong: {key}")
        if not equals and not key.startswith("-"):
            raise InvalidAttribute(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise InvalidAttribute(f"key duplication: {key}")
        changes[key] = value.strip()
    return changes


def apply_changes(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    changes: Mapping[str, str],
) -> dict[str, str]:
    """The attributes after a change; `current` is None for something that is being made."""
    after = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if sign not in ("+", "-"):
            raise InvalidAttribute(
                f"kv string is invalid. It should be +key=value or -key: {signed}"
            )
        if name in seen:
            raise InvalidAttribute(f"alter duplication key. key: {name}")
        seen.add(name)
        attribute = known.get(name)
        if attribute is None:
            raise InvalidAttribute(f"unsupported key: {name}")
        if sign == "+":
            if current is not None and attribute.is_fixed:
                raise InvalidAttribute(f"attempt to update an unchangeable attribute. key: {name}")
            attribute.check(value)
            after[name] = value
        elif current is None:
            raise InvalidAttribute(
                f"only add attribute is supported while creating topic. key: {name}"
            )
        else:
            if name not in after:
                raise InvalidAttribute(f"attempt to delete a nonexistent key: {name}")
            if attribute.is_fixed:
                raise InvalidAttribute(f"attempt to update an unchangeable attribute. key: {name}")
            del after[name]
    return after
