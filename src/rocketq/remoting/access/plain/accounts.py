"""Accounts of RocketMQ 4, and what they may do.

    globalWhiteRemoteAddresses: [10.10.103.*]
    accounts:
    - accessKey: RocketMQ
      secretKey: '12345678'
      whiteRemoteAddress: ''
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms: [topicA=DENY, topicB=PUB|SUB]
      groupPerms: [groupA=SUB]
    dataVersion:
    - {counter: 1, timestamp: 1700000000000}

RocketMQ 4 knows three rights: PUB, SUB and that of an administrator. Here every code has a rule
(see `remoting/access/needs.py`), so what a rule needs is said in these three words:

    Pub, Sub on a topic or a group    that right
    Get alone on a topic or a group   either of them
    everything else                   an administrator
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Any, Final

from rocketq.common.access import Action, Need, ResourceType
from rocketq.common.errors import RocketqError
from rocketq.remoting.access.plain.addresses import InvalidAddress, Matches, white_list
from rocketq.remoting.access.signature import Secret

_SHORTEST: Final = 7
_LONGEST: Final = 256
_MOST: Final = 10_000


class InvalidAccounts(RocketqError):
    """A file or a change that cannot be used."""


class Right(IntFlag):
    """What may be done with a topic or a group; a DENY among others counts."""

    DENY = 1
    PUB = 4
    SUB = 8


def parse_right(text: str | None) -> Right:
    """What is unknown or missing is a DENY, as in RocketMQ."""
    words = {
        "PUB": Right.PUB,
        "SUB": Right.SUB,
        "PUB|SUB": Right.PUB | Right.SUB,
        "SUB|PUB": Right.PUB | Right.SUB,
    }
    return words.get((text or "").strip(), Right.DENY)


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """One account, as its file has it."""

    access_key: str
    secret_key: str = field(repr=False)
    white_remote_address: str = ""
    is_admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, text in (("accessKey", self.access_key), ("secretKey", self.secret_key)):
            if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable():
                raise InvalidAccounts(f"{what}: must have {_SHORTEST} to {_LONGEST} characters")
        if len(self.topic_perms) + len(self.group_perms) > _MOST:
            raise InvalidAccounts(f"an account may have {_MOST} rights")
        for perm in (*self.topic_perms, *self.group_perms):
            name, equals, right = perm.partition("=")
            if not name.strip() or not equals or not right.strip() or not perm.isprintable():
                raise InvalidAccounts(f"{perm[:80]!r}: must be a name, =, and DENY, PUB or SUB")
        white_list(self.white_remote_address)

    @classmethod
    def from_file(cls, stored: object) -> "PlainAccount":
        if not isinstance(stored, Mapping):
            raise InvalidAccounts("an account must have accessKey and secretKey")
        return cls(
            access_key=_text(stored, "accessKey"),
            secret_key=_text(stored, "secretKey"),
            white_remote_address=_text(stored, "whiteRemoteAddress"),
            is_admin=stored.get("admin") is True,
            default_topic_perm=_text(stored, "defaultTopicPerm") or None,
            default_group_perm=_text(stored, "defaultGroupPerm") or None,
            topic_perms=_texts(stored, "topicPerms"),
            group_perms=_texts(stored, "groupPerms"),
        )

    def to_file(self) -> dict[str, Any]:
        return {
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "whiteRemoteAddress": self.white_remote_address,
            "admin": self.is_admin,
            **({"defaultTopicPerm": self.default_topic_perm} if self.default_topic_perm else {}),
            **({"defaultGroupPerm": self.default_group_perm} if self.default_group_perm else {}),
            **({"topicPerms": list(self.topic_perms)} if self.topic_perms else {}),
            **({"groupPerms": list(self.group_perms)} if self.group_perms else {}),
        }


@dataclass(frozen=True, slots=True)
class PlainFile:
    """What one file says."""

    white_addresses: tuple[str, ...] = ()
    accounts: tuple[PlainAccount, ...] = ()
    version_ms: int = 0
    version_counter: int = 0

    @classmethod
    def parse(cls, stored: object) -> "PlainFile":
        """Raises InvalidAccounts."""
        if stored is None:
            return cls()
        if not isinstance(stored, Mapping):
            raise InvalidAccounts("must be accounts and white lists")
        accounts = _list(stored, "accounts")
        if len(accounts) > _MOST:
            raise InvalidAccounts(f"{len(accounts)} accounts, allowed are {_MOST}")
        white = _texts(stored, "globalWhiteRemoteAddresses")
        try:
            for text in white:
                white_list(text)
            found = tuple(PlainAccount.from_file(account) for account in accounts)
        except InvalidAddress as error:
            raise InvalidAccounts(str(error)) from None
        versions = [each for each in _list(stored, "dataVersion") if isinstance(each, Mapping)]
        version = versions[0] if versions else {}
        return cls(white, found, _number(version, "timestamp"), _number(version, "counter"))

    def to_file(self) -> dict[str, Any]:
        return {
            "globalWhiteRemoteAddresses": list(self.white_addresses),
            "accounts": [account.to_file() for account in self.accounts],
            "dataVersion": [{"counter": self.version_counter, "timestamp": self.version_ms}],
        }

    def changed(self, now_ms: int, **changes: Any) -> "PlainFile":
        """The same, later, with something changed."""
        return replace(self, version_ms=now_ms, version_counter=self.version_counter + 1, **changes)


class Standing:
    """What an account may do, made ready for questions."""

    def __init__(self, account: PlainAccount) -> None:
        self.account = account
        self.secret: Final = Secret(account.secret_key.encode())
        self.is_white: Final[Matches] = white_list(account.white_remote_address)
        self._defaults = {
            ResourceType.TOPIC: parse_right(account.default_topic_perm),
            ResourceType.GROUP: parse_right(account.default_group_perm),
        }
        self._listed = {
            ResourceType.TOPIC: _rights(account.topic_perms),
            ResourceType.GROUP: _rights(account.group_perms),
        }
        self._is_unlimited = account.is_admin and not (account.topic_perms or account.group_perms)

    def refusal(self, need: Need) -> str | None:
        """Why not; None if it may."""
        wanted = _wanted(need)
        if wanted is None:
            if self.account.is_admin:
                return None
            return (
                f"Need admin permission for {need}, but accessKey={self.account.access_key} is not"
            )
        if self._is_unlimited:
            return None
        owned = self._listed[need.type].get(need.name, self._defaults[need.type])
        if not owned & Right.DENY and owned & wanted:
            return None
        return (
            f"No default permission for {need}"
            if need.name not in self._listed[need.type]
            else (f"No permission for {need}")
        )


def _wanted(need: Need) -> Right | None:
    """The right that a need comes down to; None is that of an administrator."""
    if need.type not in (ResourceType.TOPIC, ResourceType.GROUP):
        return None
    if Action.PUB in need.actions and Action.SUB in need.actions:
        return Right.PUB | Right.SUB
    if Action.PUB in need.actions:
        return Right.PUB
    if Action.SUB in need.actions:
        return Right.SUB
    return Right.PUB | Right.SUB if need.actions == {Action.GET} else None


def _rights(perms: Iterable[str]) -> dict[str, Right]:
    rights = {}
    for perm in perms:
        name, _, right = perm.partition("=")
        rights[name.strip()] = parse_right(right)
    return rights


def _text(stored: Mapping[Any, Any], key: str) -> str:
    """YAML makes numbers of keys that look like some."""
    value = stored.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidAccounts(f"{key}: must be a text")
    return str(value)


def _list(stored: Mapping[Any, Any], key: str) -> list[Any]:
    value = stored.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidAccounts(f"{key}: must be a list")
    return value


def _texts(stored: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(stored, key))


def _number(stored: Mapping[Any, Any], key: str) -> int:
    value = stored.get(key)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0
