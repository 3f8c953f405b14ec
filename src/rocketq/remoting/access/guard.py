"""The guard: every request passes here before its handler sees it.

    who?   the access key names a user, the signature proves it          (authentication)
    may?   the code's rule says what the request needs, policies decide  (authorization)

A server hands in a rule for each code it serves. A code without one is for super users
alone, so that nothing new is open by being forgotten. Decisions are remembered until a user
or a policy changes.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from rocketq.common.access import Acl, Need, ResourceType, User, refusal
from rocketq.remoting.access.audit import Refusals
from rocketq.remoting.access.needs import FieldRule
from rocketq.remoting.access.rules import Rule, Rules
from rocketq.remoting.access.signature import ACCESS_KEY, Secret, is_signed
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.hot.signed import field_of, is_allowed, read_signed
from rocketq.remoting.link.handlers import RpcHook
from rocketq.remoting.wire.command import Command

__all__ = ["AccessGuard", "Directory", "Guard", "Rule", "Rules", "host_of"]

_REMEMBERED: Final = 10_000
_LONGEST_NAME: Final = 256

_Allowed = tuple[int, str, str, tuple[str, ...]]
"""Code, user, address, and the fields that decide what is needed."""


class Directory(Protocol):
    """Who there is, and what they may do."""

    @property
    def revision(self) -> int:
        """Grows with every change."""
        ...

    def user(self, name: str) -> User | None: ...

    def acl(self, name: str) -> Acl | None: ...


class Guard(RpcHook, Protocol):
    """Lets requests in; can be asked again when a handler knows more than the request said."""

    def require(self, peer: str, request: Command, need: Need) -> bool:
        """Refuse a request that was let in, if whoever signed it may not do this as well.

        False where that is not for us to say: a super user, or nobody has signed it, so that
        somebody else has let it in.
        """
        ...

    def allows(self, user: str, peer: str, need: Need) -> bool:
        """Whether a user that was let in may do something; without a name, whoever it is."""
        ...


class AccessGuard:
    """A hook of a server. Refuses with NO_PERMISSION; one line of the audit log for each.

    What was allowed once is remembered by the fields that decided it, so that a request like
    many before costs the check of its signature and one look.
    """

    def __init__(
        self,
        directory: Directory,
        rules: Rules,
        *,
        cluster: str = "",
        authenticates: bool,
        authorizes: bool,
        open_to_all: frozenset[int] = frozenset(),
        open_to_users: frozenset[int] = frozenset(),
    ) -> None:
        """`open_to_all`: codes that need no user; `open_to_users`: those that need no right.

        `cluster` is the one that the server belongs to.
        """
        self._directory = directory
        self._rules = rules
        self._authenticates = authenticates
        self._authorizes = authorizes
        self._open_to_all = open_to_all
        self._open_to_users = open_to_users
        self._cluster = cluster
        self._users: dict[str, User] = {}
        self._secrets: dict[str, Secret] = {}
        self._keys: dict[str, bytes] = {}
        self._allowed: set[_Allowed] = set()
        self._hosts: dict[str, str] = {}
        self._revision = -1
        self._remembering = {
            code: rule
            for code, rule in rules.items()
            if isinstance(rule, FieldRule)
            and (authenticates and authorizes and code not in open_to_all | open_to_users)
        }
        self._refusals = Refusals()

    def before_request(self, peer: str, request: Command) -> None:
        if self._revision != self._directory.revision:
            self._forget()
        code = request.code
        # Signed, and like one that was let in before: the way of nearly all.
        rule, host = self._remembering.get(code), self._hosts.get(peer)
        if (
            rule is not None
            and host is not None
            and is_allowed(request, code, rule.fields, host, self._allowed, self._keys)
        ):
            return
        try:
            name = ""
            if self._authenticates and code not in self._open_to_all:
                name = self._authenticate(request)
            if self._authorizes and code not in self._open_to_users:
                self._authorize(request, name or field_of(request, ACCESS_KEY), peer)
        except RequestRejected as cause:
            self._refusals.add(peer, request, cause)
            raise

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """What was let in is answered as it is."""

    def require(self, peer: str, request: Command, need: Need) -> bool:
        name = field_of(request, ACCESS_KEY)
        if not self._authorizes or request.code in self._open_to_users:
            return True
        if not name:
            return False
        try:
            user = self._user(name)
            if user.is_super:
                return False
            self._check(user, (need,), self._host(peer))
        except RequestRejected as cause:
            self._refusals.add(peer, request, cause)
            raise
        return True

    def allows(self, user: str, peer: str, need: Need) -> bool:
        if not self._authorizes or not user:
            return True
        known = self._directory.user(user)
        if known is None or not known.is_enabled:
            return False
        return refusal(known, self._directory.acl(user), need, self._host(peer)) is None

    def _forget(self) -> None:
        self._revision = self._directory.revision
        self._users.clear()
        self._secrets.clear()
        self._keys.clear()
        self._allowed.clear()

    # Who

    def _authenticate(self, request: Command) -> str:
        """The name of whoever has signed a request."""
        signed = read_signed(request)
        name = field_of(request, ACCESS_KEY) if signed is None else signed.access_key
        if not name:
            raise _refused("username cannot be null.")
        secret = self._secrets.get(name)
        if secret is None:
            user = self._users[name] = self._user(name)
            secret = self._secrets[name] = Secret(user.password.encode())
            self._keys[name] = secret.key
        if signed is not None and secret.has_signed(signed):
            return name
        if not is_signed(request, secret):
            raise _refused("check signature failed.")
        return name

    def _user(self, name: str) -> User:
        user = self._directory.user(name) if len(name) <= _LONGEST_NAME else None
        if user is None:
            raise _refused(f"User:{name[:_LONGEST_NAME]} is not found.")
        if not user.is_enabled:
            raise _refused(f"User:{name} is disabled.")
        return user

    # What

    def _authorize(self, request: Command, name: str, peer: str) -> None:
        if not name:
            raise _refused("username cannot be null.")
        user = self._users.get(name) or self._user(name)
        rule = self._rules.get(request.code)
        if user.is_super:
            if isinstance(rule, FieldRule):
                self._remember((request.code, name, self._host(peer), rule.values(request)))
            return
        if rule is None:
            raise _refused(f"User:{name} has no permission: this request is for super users.")
        address = self._host(peer)
        if isinstance(rule, FieldRule):
            key = request.code, name, address, rule.values(request)
            if key in self._allowed:
                return
            self._check(user, rule(request), address)
            self._remember(key)
        else:
            self._check(user, rule(request), address)

    def _remember(self, key: _Allowed) -> None:
        if len(self._allowed) >= _REMEMBERED:
            self._allowed.clear()
        self._allowed.add(key)

    def _check(self, user: User, needs: Iterable[Need], address: str) -> None:
        for need in needs:
            named = need if need.name else need._replace(name=self._own_name(need))
            reason = refusal(user, self._directory.acl(user.name), named, address)
            if reason is not None:
                raise _refused(reason)

    def _own_name(self, need: Need) -> str:
        """A cluster that is not named is our own; nothing else goes without a name."""
        return self._cluster if need.type is ResourceType.CLUSTER else ""

    def _host(self, peer: str) -> str:
        host = self._hosts.get(peer)
        if host is None:
            if len(self._hosts) >= _REMEMBERED:
                self._hosts.clear()
            host = self._hosts[peer] = host_of(peer)
        return host


def _refused(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, reason)


def host_of(peer: str) -> str:
    """The address of a peer, without its port."""
    return peer.rpartition(":")[0].strip("[]")
