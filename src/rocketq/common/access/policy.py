"""Policies: what a user may do, with which resources, from where.

    Topic:orders      one topic
    Topic:ord*        every topic whose name begins so
    Topic:*           every topic
    *                 everything

An entry allows or denies some actions on one resource, from some addresses or from all. A
user's entries are of two kinds: Default ones count only where no Custom one does.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rocketq.common.errors import RocketqError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LONGEST_NAME: Final = 512


class InvalidPolicy(RocketqError):
    """A policy that cannot mean anything."""


class ResourceType(Enum):
    """What there is to protect."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(Enum):
    """What can be done with it."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


_TYPES: Final = {each.value.lower(): each for each in ResourceType}
_ACTIONS: Final = {each.value.lower(): each for each in Action}
_DECISIONS: Final = {each.value.lower(): each for each in Decision}
_POLICY_TYPES: Final = {each.value.lower(): each for each in PolicyType}


@dataclass(frozen=True, slots=True)
class Resource:
    """Something, or a family of things. `name` is None for all of a type."""

    type: ResourceType
    name: str | None = None
    is_prefix: bool = False

    @classmethod
    def parse(cls, text: str) -> "Resource":
        if text == "*":
            return cls(ResourceType.ANY)
        kind, _, name = text.partition(":")
        found = _TYPES.get(kind.lower())
        if found is None or found is ResourceType.ANY or not name or len(name) > _LONGEST_NAME:
            raise InvalidPolicy(f"resource {text[:80]!r}: such as Topic:name, Group:begin*, or *")
        if name == "*":
            return cls(found)
        return cls(found, name.removesuffix("*"), name.endswith("*"))

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return "*"
        if self.name is None:
            return f"{self.type.value}:*"
        return f"{self.type.value}:{self.name}{'*' if self.is_prefix else ''}"

    def covers(self, type: ResourceType, name: str) -> bool:
        if self.type is ResourceType.ANY:
            return True
        if self.type is not type:
            return False
        if self.name is None:
            return True
        return name.startswith(self.name) if self.is_prefix else name == self.name

    @property
    def precision(self) -> tuple[bool, int, int]:
        """The more exactly a resource names something, the more its entry counts."""
        if self.name is None:
            return self.type is not ResourceType.ANY, 0, 0
        return True, 1 if self.is_prefix else 2, len(self.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a policy."""

    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    networks: tuple[Network, ...] = ()
    sources: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls, resource: str, actions: Iterable[str], decision: str, sources: Iterable[str] = ()
    ) -> "Entry":
        """From the words of tools and files. Raises `InvalidPolicy`."""
        found = [_ACTIONS.get(action.strip().lower()) for action in actions]
        if not found or None in found:
            raise InvalidPolicy(f"actions must be some of {', '.join(a.value for a in Action)}")
        decided = _DECISIONS.get(decision.lower())
        if decided is None:
            raise InvalidPolicy("decision must be Allow or Deny")
        addresses = tuple(source.strip() for source in sources if source.strip())
        try:
            networks = tuple(ipaddress.ip_network(source, strict=False) for source in addresses)
        except ValueError as error:
            raise InvalidPolicy(f"source address: {error}") from None
        kept = frozenset(action for action in found if action is not None)
        return cls(Resource.parse(resource), kept, decided, networks, addresses)

    def concerns(
        self, type: ResourceType, name: str, actions: frozenset[Action], address: str
    ) -> bool:
        return (
            (Action.ALL in self.actions or not self.actions.isdisjoint(actions))
            and self.resource.covers(type, name)
            and self._is_from(address)
        )

    def _is_from(self, address: str) -> bool:
        if not self.networks:
            return True
        try:
            source = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(source in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Acl:
    """All policies of one user."""

    entries: dict[PolicyType, tuple[Entry, ...]] = field(default_factory=dict)

    def merged(self, kind: PolicyType, changed: Iterable[Entry]) -> "Acl":
        """With some entries more, or others for the same resources."""
        kept = {entry.resource: entry for entry in self.entries.get(kind, ())}
        kept |= {entry.resource: entry for entry in changed}
        return Acl(self.entries | {kind: tuple(kept.values())})

    def without(self, kind: PolicyType | None, resource: Resource | None) -> "Acl":
        """Without the entries of a kind, or of all, for a resource, or for all."""
        left = {}
        for each, entries in self.entries.items():
            if kind is None or each is kind:
                entries = tuple(
                    entry
                    for entry in entries
                    if resource is not None and entry.resource != resource
                )
            if entries:
                left[each] = entries
        return Acl(left)

    @property
    def is_empty(self) -> bool:
        return not any(self.entries.values())


def policy_type(text: str | None) -> PolicyType:
    """Custom where nothing is said."""
    found = _POLICY_TYPES.get((text or PolicyType.CUSTOM.value).lower())
    if found is None:
        raise InvalidPolicy("policy type must be Custom or Default")
    return found
