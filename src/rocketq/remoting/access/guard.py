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
from rocketq.remoting.hot.signed import field_of, read_signed
from rocketq.remoting.wire.command import Command

__all__ = ["AccessGuard", "Directory", "Rule", "Rules", "host_of"]

_REMEMBERED: Final = 10_000
_LONGEST_NAME: Final = 256


class Directory(Protocol):
    """Who there is, and what they may do."""

    @property
    def revision(self) -> int:
        """Grows with every change."""
        ...

    def user(self, name: str) -> User | None: ...

    def acl(self, name: str) -> Acl | None: ...


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
        self._known: dict[str, tuple[User, Secret]] = {}
        self._allowed: set[tuple[int, str, str, tuple[str, ...]]] = set()
        self._hosts: dict[str, str] = {}
        self._revision = -1
        self._refusals = Refusals()

    def before_request(self, peer: str, request: Command) -> None:
        if self._revision != self._directory.revision:
            self._forget()
        code = request.code
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

    def _forget(self) -> None:
        self._revision = self._directory.revision
        self._known.clear()
        self._allowed.clear()

    # Who

    def _authenticate(self, request: Command) -> str:
        """The name of whoever has signed a request."""
        signed = read_signed(request)
        name = field_of(request, ACCESS_KEY) if signed is None else signed.access_key
        if not name:
            raise _refused("username cannot be null.")
        known = self._known.get(name)
        if known is None:
            user = self._user(name)
            known = self._known[name] = user, Secret(user.password.encode())
        if signed is not None and known[1].has_signed(signed.content, signed.signature):
            return name
        if not is_signed(request, known[1]):
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
        known = self._known.get(name)
        user = known[0] if known is not None else self._user(name)
        if user.is_super:
            return
        rule = self._rules.get(request.code)
        if rule is None:
            raise _refused(f"User:{name} has no permission: this request is for super users.")
        address = self._host(peer)
        if isinstance(rule, FieldRule):
            key = request.code, name, address, rule.values(request)
            if key in self._allowed:
                return
            self._check(user, rule(request), address)
            if len(self._allowed) >= _REMEMBERED:
                self._allowed.clear()
            self._allowed.add(key)
        else:
            self._check(user, rule(request), address)

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
