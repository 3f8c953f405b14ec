"""Users and policies."""

from dataclasses import field

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.body import BadBody, Body


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo(Body):
    """A user: Super or Normal, enable or disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry(Body):
    """What may be done with one resource."""

    resource: str | None = None
    actions: list[str] = field(default_factory=list)
    source_ips: list[str] | None = None
    decision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Body):
    """Entries of one kind: Custom or Default."""

    policy_type: str | None = None
    entries: list[PolicyEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclInfo(Body):
    """All policies of a subject."""

    subject: str | None = None
    policies: list[Policy] = field(default_factory=list)


def encode_users(users: list[UserInfo]) -> bytes:
    """The array that answers 3005."""
    return json.dumps([user.to_json() for user in users])


def decode_users(data: Buffer) -> list[UserInfo]:
    return [UserInfo.from_json(plain) for plain in _array(data)]


def encode_acls(acls: list[AclInfo]) -> bytes:
    """The array that answers 3010."""
    return json.dumps([acl.to_json() for acl in acls])


def decode_acls(data: Buffer) -> list[AclInfo]:
    return [AclInfo.from_json(plain) for plain in _array(data)]


def _array(data: Buffer) -> list[dict[str, object]]:
    if len(data) == 0:
        return []
    try:
        value = json.loads(data, json.REQUEST_LIMITS)
    except json.JsonError as error:
        raise BadBody(f"not JSON: {error}") from None
    if not isinstance(value, list):
        raise BadBody("not a JSON array")
    return [item for item in value if isinstance(item, dict)]
