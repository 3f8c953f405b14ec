"""The guard: every request passes here before its handler sees it.

    who?   the access key names a user, the signature proves it          (authentication)
    may?   the code's rule says what the request needs, policies decide  (authorization)

A server hands in a rule for each code it serves. A code without one is for super users
alone, so that nothing new is open by being forgotten. Decisions are remembered until a user
or a policy changes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from rocketq.common.access import Acl, Need, ResourceType, User, refusal
from rocketq.remoting.access.audit import refused_line
from rocketq.remoting.access.signature import ACCESS_KEY, is_signed
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.wire.command import Command

Rule = Callable[[Command], Iterable[Need]]
Rules = Mapping[int, Rule]

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
    """A hook of a server. Refuses with NO_PERMISSION; one line of the audit log for each."""

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
        self._decisions: dict[tuple[str, Need, str], str | None] = {}
        self._revision = -1

    def before_request(self, peer: str, request: Command) -> None:
        code = request.code
        try:
            if self._authenticates and code not in self._open_to_all:
                self._authenticate(request)
            if self._authorizes and code not in self._open_to_users:
                self._authorize(request, host_of(peer))
        except RequestRejected as cause:
            refused_line(peer, request, cause)
            raise

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """What was let in is answered as it is."""

    # Who

    def _authenticate(self, request: Command) -> None:
        name = request.ext_fields.get(ACCESS_KEY, "")
        if not name:
            raise _refused("username cannot be null.")
        user = self._user(name)
        if not is_signed(request, user.password.encode()):
            raise _refused("check signature failed.")

    def _user(self, name: str) -> User:
        user = self._directory.user(name) if len(name) <= _LONGEST_NAME else None
        if user is None:
            raise _refused(f"User:{name[:_LONGEST_NAME]} is not found.")
        if not user.is_enabled:
            raise _refused(f"User:{name} is disabled.")
        return user

    # What

    def _authorize(self, request: Command, address: str) -> None:
        name = request.ext_fields.get(ACCESS_KEY, "")
        if not name:
            raise _refused("username cannot be null.")
        user = self._user(name)
        if user.is_super:
            return
        rule = self._rules.get(request.code)
        if rule is None:
            raise _refused(f"User:{name} has no permission: this request is for super users.")
        if self._revision != self._directory.revision:
            self._decisions.clear()
            self._revision = self._directory.revision
        for need in rule(request):
            reason = self._decision(user, need, address)
            if reason is not None:
                raise _refused(reason)

    def _decision(self, user: User, need: Need, address: str) -> str | None:
        key = (user.name, need, address)
        if key in self._decisions:
            return self._decisions[key]
        if len(self._decisions) >= _REMEMBERED:
            self._decisions.clear()
        named = need if need.name else need._replace(name=self._own_name(need))
        decided = self._decisions[key] = refusal(
            user, self._directory.acl(user.name), named, address
        )
        return decided

    def _own_name(self, need: Need) -> str:
        """A cluster that is not named is our own; nothing else goes without a name."""
        return self._cluster if need.type is ResourceType.CLUSTER else ""


def _refused(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, reason)


def host_of(peer: str) -> str:
    return peer.rpartition(":")[0].strip("[]")
