"""Who may use the console, and for what.

Where brokers check signatures, people log in with the users that the brokers know, and their
requests are signed for them: what somebody may do is the brokers' decision, here as anywhere.
The role only says which buttons make sense:

    viewer     looks
    operator   changes topics, groups and offsets, and sends messages
    admin      also changes brokers, NameServers, users and policies

Where nobody checks signatures there is no login, and everybody is an admin, unless the console
is started with --read-only.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from rocketq.admin import access as rights
from rocketq.admin import connected
from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.common.errors import RocketqError
from rocketq.remoting.bodies.access import AclInfo
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.codes import ResponseCode

COOKIE: Final = "rocketq_console"
IDLE_S: Final = 8 * 3600.0
_SESSIONS: Final = 1_000
_LOOK_EVERY_S: Final = 30.0
# Guesses of passwords: the n-th failure in a row from one address waits longer.
_FREE_FAILURES: Final = 5
_LONGEST_WAIT_S: Final = 60.0
_FAILURES_KEPT: Final = 10_000


class Role(IntEnum):
    """In ascending order: each may do what those before it may."""

    VIEWER = 0
    OPERATOR = 1
    ADMIN = 2


class LoginRefused(RocketqError):
    """Not with this name and password, or not now."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Somebody at a browser. `api` signs requests for them."""

    token: str = field(repr=False)
    user: str
    role: Role
    api: BrokerApi
    used_at: float
    credentials: tuple[str, str] = field(repr=False, default=("", ""))
    connection: AsyncExitStack = field(repr=False, default_factory=AsyncExitStack)
    is_over: bool = False


class Access:
    """All sessions. Everybody else shares one without a user while no login is needed."""

    def __init__(
        self,
        api: BrokerApi,
        *,
        read_only: bool = False,
        always_login: bool = False,
        has_keys: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`api` is the console's own, signed where it `has_keys`."""
        self._own = api
        self._has_keys = has_keys
        self._read_only = read_only
        self._always_login = always_login
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._is_required: bool | None = True if always_login else None
        self._looked_at = -_LOOK_EVERY_S
        self._looking: asyncio.Task[None] | None = None
        self._everybody = Session(
            token="", user="", role=self._bounded(Role.ADMIN), api=api, used_at=0.0
        )

    @property
    def is_read_only(self) -> bool:
        return self._read_only

    def _bounded(self, role: Role) -> Role:
        return Role.VIEWER if self._read_only else role

    # Whether a login is needed

    async def is_required(self) -> bool:
        """Brokers decide: once one of them wants signatures, everybody logs in.

        While no broker has answered there is nothing to protect, and nothing to see.
        """
        if self._is_required:
            return True
        if self._now() - self._looked_at >= _LOOK_EVERY_S:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
            await asyncio.shield(self._looking)
        return bool(self._is_required)

    async def _look(self) -> None:
        try:
            async with connected(self._own.addresses, credentials=("", "")) as stranger:
                self._is_required = await _is_anybody_guarded(stranger)
        except RocketqError:
            pass  # nobody there: asked again with the next page
        else:
            self._looked_at = self._now()
        finally:
            self._looking = None

    def eyes(self) -> BrokerApi:
        """Who asks for what all pages share: the console itself, where it may.

        One without keys in a cluster that wants them looks through the eyes of somebody who is
        logged in: of who may most, the one who was there last.
        """
        if self._has_keys or not self._sessions:
            return self._own
        return max(self._sessions.values(), key=lambda each: (each.role, each.used_at)).api

    # Sessions

    async def session(self, token: str | None) -> Session | None:
        """Who this is; None for somebody who has to log in."""
        if not await self.is_required():
            return self._everybody
        found = self._sessions.get(token or "")
        if found is None:
            return None
        if self._now() - found.used_at > IDLE_S:
            await self.logout(found)
            return None
        found.used_at = self._now()
        return found

    async def login(self, user: str, password: str, peer: str) -> Session:
        """Ask a broker whether it is who they say; raises `LoginRefused`."""
        self._slow_down(peer)
        stack = AsyncExitStack()
        try:
            if not user or not password:
                raise LoginRefused("name and password are needed")
            api = await stack.enter_async_context(
                connected(self._own.addresses, credentials=(user, password))
            )
            role = await role_of(api, user)
        except BaseException as error:
            await stack.aclose()
            if isinstance(error, LoginRefused):
                self._failed(peer)
            raise
        self._failures.pop(peer, None)
        await self._make_room()
        session = Session(
            token=secrets.token_urlsafe(32),
            user=user,
            role=self._bounded(role),
            api=api,
            used_at=self._now(),
            credentials=(user, password),
            connection=stack,
        )
        self._sessions[session.token] = session
        return session

    async def logout(self, session: Session) -> None:
        if self._sessions.pop(session.token, None) is not None:
            session.is_over = True
            await session.connection.aclose()

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            await self.logout(session)

    async def _make_room(self) -> None:
        if len(self._sessions) >= _SESSIONS:
            oldest = min(self._sessions.values(), key=lambda each: each.used_at)
            await self.logout(oldest)

    # Guesses

    def _slow_down(self, peer: str) -> None:
        count, last = self._failures.get(peer, (0, 0.0))
        if count >= _FREE_FAILURES:
            wait_s = min(2.0 ** (count - _FREE_FAILURES), _LONGEST_WAIT_S)
            if self._now() - last < wait_s:
                raise LoginRefused(f"too many failures: wait {wait_s:.0f} s")

    def _failed(self, peer: str) -> None:
        count, _ = self._failures.pop(peer, (0, 0.0))
        if len(self._failures) >= _FAILURES_KEPT:
            del self._failures[next(iter(self._failures))]
        self._failures[peer] = (count + 1, self._now())


async def _is_anybody_guarded(stranger: BrokerApi) -> bool:
    """Whether a NameServer or a broker refuses somebody without a name."""
    try:
        addresses = await brokers.addresses(stranger)
    except BrokerRejected as error:
        return error.code == ResponseCode.NO_PERMISSION
    return any([await _wants_signatures(stranger, each) for each in addresses])


async def _wants_signatures(api: BrokerApi, address: str) -> bool:
    """A heartbeat of nobody needs no right, only a user where users are asked for."""
    try:
        await api.heartbeat(address, HeartbeatData(client_id="console"))
    except BrokerRejected as error:
        return error.code == ResponseCode.NO_PERMISSION
    except RocketqError:
        return False
    return False


async def role_of(api: BrokerApi, user: str) -> Role:
    """What a user may do, as one broker sees it; raises `LoginRefused` for a wrong password."""
    refusal: RocketqError | None = None
    try:
        addresses = await brokers.addresses(api)
    except BrokerRejected as error:
        raise _refused(error) from error
    for address in addresses:
        try:
            await api.heartbeat(address, HeartbeatData(client_id="console"))
        except BrokerRejected as error:
            raise _refused(error) from error
        except RocketqError as error:
            refusal = error  # this one is not there
            continue
        return await _role_at(api, address, user)
    raise refusal or LoginRefused("no broker is there to ask")


def _refused(error: BrokerRejected) -> LoginRefused:
    """Who guesses names learns nothing; who may not look at the cluster is told so."""
    if "permission" in (error.remark or ""):
        return LoginRefused("this user may not look at the cluster")
    return LoginRefused("the name or the password is wrong")


async def _role_at(api: BrokerApi, address: str, user: str) -> Role:
    try:
        info = await rights.user(api, address, user)
        if info is not None and (info.user_type or "").lower() == "super":
            return Role.ADMIN
        return role_by_policies(await rights.acl(api, address, user))
    except BrokerRejected:
        # Who may not look at users may not change the cluster either.
        return Role.VIEWER


def role_by_policies(acl: AclInfo | None) -> Role:
    """The highest role that some allowed actions make sense of."""
    role = Role.VIEWER
    for policy in acl.policies if acl is not None else ():
        for entry in policy.entries:
            if (entry.decision or "").lower() != "allow":
                continue
            actions = {action.lower() for action in entry.actions}
            if not actions & {"all", "create", "update", "delete", "pub"}:
                continue
            kind = (entry.resource or "").partition(":")[0].lower()
            is_all = bool(actions & {"all", "update"}) and kind in ("*", "cluster")
            role = max(role, Role.ADMIN if is_all else Role.OPERATOR)
    return role
