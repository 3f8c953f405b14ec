"""What rules are made of: from fields of a request to what it needs.

A retry topic counts as its group. A cluster without a name is the server's own.
"""

from collections.abc import Iterable
from typing import Final

from rocketq.common.access import Action, Need, ResourceType
from rocketq.message import names
from rocketq.remoting.access.guard import Rule
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


def of_topic(actions: Actions, field: str = "topic", of_group: Actions | None = None) -> Rule:
    """The topic that a header names; a header that must name one and does not is refused."""

    def rule(request: Command) -> Iterable[Need]:
        return (topic_need(request.ext_fields.get(field, ""), actions, of_group),)

    return rule


def of_group(actions: Actions, field: str = "consumerGroup") -> Rule:
    def rule(request: Command) -> Iterable[Need]:
        return (group_need(request.ext_fields.get(field, ""), actions),)

    return rule


def of_both(actions: Actions, topic: str = "topic", group: str = "consumerGroup") -> Rule:
    """The topic and the group that a header names; of optional ones those it has."""

    def rule(request: Command) -> Iterable[Need]:
        fields = request.ext_fields
        needs = []
        if fields.get(topic):
            needs.append(topic_need(fields[topic], actions))
        if fields.get(group):
            needs.append(group_need(fields[group], actions))
        return needs or (group_need("", actions),)

    return rule


def of_cluster(actions: Actions) -> Rule:
    """The server's own cluster, whatever the header says."""
    needs = (Need(ResourceType.CLUSTER, "", actions),)

    def rule(request: Command) -> Iterable[Need]:
        return needs

    return rule
