"""What rules are made of: from fields of a request to what it needs.

A retry topic counts as its group. A cluster without a name is the server's own.
"""

from collections.abc import Callable, Iterable
from typing import Final

from rocketq.common.access import Action, Need, ResourceType
from rocketq.message import names
from rocketq.remoting.access.rules import Rule
from rocketq.remoting.hot.signed import fields_of
from rocketq.remoting.wire.command import Command

PUB: Final = frozenset({Action.PUB})
SUB: Final = frozenset({Action.SUB})
GET: Final = frozenset({Action.GET})
CREATE: Final = frozenset({Action.CREATE})
UPDATE: Final = frozenset({Action.UPDATE})
DELETE: Final = frozenset({Action.DELETE})
SUB_OR_GET: Final = SUB | GET
SUB_OR_UPDATE: Final = SUB | UPDATE

Actions = frozenset[Action]


def topic_need(topic: str, actions: Actions, of_group: Actions | None = None) -> Need:
    """A topic, or for a retry topic its group."""
    if names.is_retry_topic(topic):
        group = topic.removeprefix(names.RETRY_PREFIX)
        return Need(ResourceType.GROUP, group, of_group or actions)
    return Need(ResourceType.TOPIC, topic, actions)


def group_need(group: str, actions: Actions) -> Need:
    return Need(ResourceType.GROUP, group, actions)


class FieldRule:
    """A rule that looks at some fields of the header alone: equal fields, equal needs."""

    __slots__ = ("_needs", "fields")

    def __init__(
        self, fields: tuple[str, ...], needs: Callable[[tuple[str, ...]], Iterable[Need]]
    ) -> None:
        self.fields = tuple(field.encode() for field in fields)
        self._needs = needs

    def values(self, request: Command) -> tuple[str, ...]:
        """What its needs depend on."""
        return fields_of(request, self.fields)

    def __call__(self, request: Command) -> Iterable[Need]:
        return self._needs(self.values(request))


def of_topic(actions: Actions, field: str = "topic", of_group: Actions | None = None) -> Rule:
    """The topic that a header names; a header that must name one and does not is refused."""
    return FieldRule((field,), lambda values: (topic_need(values[0], actions, of_group),))


def of_group(actions: Actions, field: str = "consumerGroup") -> Rule:
    return FieldRule((field,), lambda values: (group_need(values[0], actions),))


def of_both(actions: Actions, topic: str = "topic", group: str = "consumerGroup") -> Rule:
    """The topic and the group that a header names; of optional ones those it has."""

    def needs(values: tuple[str, ...]) -> Iterable[Need]:
        found = []
        if values[0]:
            found.append(topic_need(values[0], actions))
        if values[1]:
            found.append(group_need(values[1], actions))
        return found or (group_need("", actions),)

    return FieldRule((topic, group), needs)


def of_cluster(actions: Actions) -> Rule:
    """The server's own cluster, whatever the header says."""
    needs = (Need(ResourceType.CLUSTER, "", actions),)
    return FieldRule((), lambda values: needs)
