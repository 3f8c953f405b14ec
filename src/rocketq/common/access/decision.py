"""Whether somebody may do something: one function of user, policies, need and address.

super user                        yes
no policies                       no
Custom entries that concern it    the most exact one decides; of equals a Deny
none of these: Default entries    the same
none at all                       no
"""

from typing import NamedTuple

from rocketq.common.access.policy import Acl, Action, Decision, PolicyType, ResourceType
from rocketq.common.access.user import User


class Need(NamedTuple):
    """What a request wants: any one of some actions on one thing."""

    type: ResourceType
    name: str
    actions: frozenset[Action]

    def __str__(self) -> str:
        return f"{self.type.value}:{self.name}"


def refusal(user: User, acl: Acl | None, need: Need, address: str) -> str | None:
    """Why not, in RocketMQ's words; None if it is allowed."""
    if user.is_super:
        return None
    reason = "no matched policies."
    for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT):
        entries = acl.entries.get(kind, ()) if acl is not None else ()
        concerned = [
            entry
            for entry in entries
            if entry.concerns(need.type, need.name, need.actions, address)
        ]
        if concerned:
            best = max(
                concerned,
                key=lambda entry: (entry.resource.precision, entry.decision is Decision.DENY),
            )
            if best.decision is Decision.ALLOW:
                return None
            reason = "the decision is deny."
            break
    return f"User:{user.name} has no permission to access {need} from {address}, {reason}"
