"""The users of a server and their policies: `users.json` and `acls.json` in its folder.

Both hold what RocketMQ's tools show, one object for each user:

    {"alice":{"password":"...","userStatus":"enable","userType":"Normal","username":"alice"}}
    {"User:alice":{"policies":[{"entries":[...],"policyType":"Custom"}],"subject":"User:alice"}}

RocketMQ keeps the same in a database of its own beside these files; neither reads the other's.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rocketq.common import json
from rocketq.common.access import (
    Acl,
    Decision,
    Entry,
    InvalidPolicy,
    PolicyType,
    Resource,
    User,
    UserType,
)
from rocketq.common.access.policy import policy_type
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo

_SUBJECT: Final = "User:"
_MOST_USERS: Final = 100_000
_MOST_ENTRIES: Final = 10_000


class AccessDirectory:
    """Changed by administrators, on the event loop; asked by the guard."""

    def __init__(self, folder: Path) -> None:
        self._user_file = TableFile(folder / "users.json", self._encode_users)
        self._acl_file = TableFile(folder / "acls.json", self._encode_acls)
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self.revision = 0
        """Grows with every change."""

    # Looking

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def acl(self, name: str) -> Acl | None:
        return self._acls.get(name)

    def users(self, containing: str = "") -> list[User]:
        return [user for name, user in sorted(self._users.items()) if containing in name]

    def acls(self, containing: str = "") -> list[tuple[str, Acl]]:
        return [(name, acl) for name, acl in sorted(self._acls.items()) if containing in name]

    # Changing

    def put_user(self, user: User) -> None:
        if user.name not in self._users and len(self._users) >= _MOST_USERS:
            raise InvalidPolicy(f"there are {_MOST_USERS} users already")
        self._users[user.name] = user
        self._changed(self._user_file)

    def delete_user(self, name: str) -> None:
        """Delete a user and what it may do; no error if there is none."""
        self._users.pop(name, None)
        self._changed(self._user_file)
        if self._acls.pop(name, None) is not None:
            self._changed(self._acl_file)

    def put_acl(self, name: str, acl: Acl) -> None:
        if sum(map(len, acl.entries.values())) > _MOST_ENTRIES:
            raise InvalidPolicy(f"a user may have {_MOST_ENTRIES} entries")
        if acl.is_empty:
            self._acls.pop(name, None)
        else:
            self._acls[name] = acl
        self._changed(self._acl_file)

    def _changed(self, file: TableFile) -> None:
        self.revision += 1
        file.save()

    async def saved(self) -> None:
        """Wait until every change is on the disk."""
        await self._user_file.saved()
        await self._acl_file.saved()

    # The files

    def load(self) -> None:
        self._user_file.load(self._decode_users)
        self._acl_file.load(self._decode_acls)

    async def __aenter__(self) -> "AccessDirectory":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until everything is written."""
        await self._user_file.close()
        await self._acl_file.close()

    def _encode_users(self) -> bytes:
        return json.dumps_pretty({name: user_info(user) for name, user in self._users.items()})

    def _decode_users(self, data: bytes) -> None:
        for name, stored in json.loads(data).items():
            info = UserInfo.from_json(stored)
            self._users[name] = User(
                name,
                info.password or "",
                UserType.SUPER if info.user_type == UserType.SUPER.value else UserType.NORMAL,
                info.user_status != "disable",
            )

    def _encode_acls(self) -> bytes:
        table = {_SUBJECT + name: acl_info(name, acl) for name, acl in self._acls.items()}
        return json.dumps_pretty(table)

    def _decode_acls(self, data: bytes) -> None:
        for subject, stored in json.loads(data).items():
            self._acls[subject.removeprefix(_SUBJECT)] = read_acl(AclInfo.from_json(stored))


def user_info(user: User) -> UserInfo:
    """As tools and files have it, password included."""
    return UserInfo(
        username=user.name,
        password=user.password,
        user_type=user.type.value,
        user_status="enable" if user.is_enabled else "disable",
    )


def acl_info(name: str, acl: Acl, resource: str = "") -> AclInfo:
    """As tools and files have it; only entries whose resource contains a text."""
    policies = []
    for kind, entries in acl.entries.items():
        shown = [_entry_info(entry) for entry in entries if resource in str(entry.resource)]
        if shown:
            policies.append(Policy(policy_type=kind.value, entries=shown))
    return AclInfo(subject=_SUBJECT + name, policies=policies)


def _entry_info(entry: Entry) -> PolicyEntry:
    return PolicyEntry(
        resource=str(entry.resource),
        actions=sorted(action.value for action in entry.actions),
        source_ips=list(entry.sources) or None,
        decision=entry.decision.value,
    )


def read_acl(info: AclInfo) -> Acl:
    """From what tools send. Raises `InvalidPolicy`."""
    acl = Acl()
    for policy in info.policies:
        acl = acl.merged(policy_type(policy.policy_type), _entries(policy.entries))
    return acl


def _entries(infos: Iterable[PolicyEntry]) -> Iterable[Entry]:
    for info in infos:
        yield Entry.parse(
            info.resource or "",
            info.actions,
            info.decision or Decision.ALLOW.value,
            info.source_ips or (),
        )


def subject_name(subject: str) -> str:
    """The user that a subject names."""
    name = subject.removeprefix(_SUBJECT)
    if not name or (":" in subject and not subject.startswith(_SUBJECT)):
        raise InvalidPolicy("the subject must be User: and a name")
    return name


def resource_of(text: str) -> Resource | None:
    return Resource.parse(text) if text else None


__all__ = [
    "AccessDirectory",
    "PolicyType",
    "acl_info",
    "read_acl",
    "resource_of",
    "subject_name",
    "user_info",
]
