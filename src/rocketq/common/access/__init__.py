"""Users and what they may do, as data."""

from rocketq.common.access.decision import Need, refusal
from rocketq.common.access.policy import (
    Acl,
    Action,
    Decision,
    Entry,
    InvalidPolicy,
    PolicyType,
    Resource,
    ResourceType,
)
from rocketq.common.access.user import User, UserType

__all__ = [
    "Acl",
    "Action",
    "Decision",
    "Entry",
    "InvalidPolicy",
    "Need",
    "PolicyType",
    "Resource",
    "ResourceType",
    "User",
    "UserType",
    "refusal",
]
