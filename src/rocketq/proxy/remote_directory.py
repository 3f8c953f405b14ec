"""Users and policies of the brokers behind a proxy, asked for and kept for a while.

A proxy asks in the name of its own user (`innerClientAuthenticationCredentials`), which has to
be a super user: brokers show passwords to nobody else.
"""

from typing import Final

from rocketq.common.access import Acl, InvalidPolicy, User, UserType
from rocketq.common.clock import Clock
from rocketq.proxy.cache import Cache
from rocketq.proxy.cluster import Cluster
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.access.directory import read_acl
from rocketq.remoting.bodies.access import AclInfo, UserInfo
from rocketq.remoting.headers.access import GetAcl, GetUser

_FRESH_S: Final = 20.0


class RemoteDirectory:
    """What some broker says."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._users = Cache(self._load_user, clock, fresh_s=_FRESH_S)
        self._acls = Cache(self._load_acl, clock, fresh_s=_FRESH_S)

    async def user(self, name: str) -> User | None:
        return await self._users.get(name)

    async def acl(self, name: str) -> Acl | None:
        return await self._acls.get(name)

    async def _load_user(self, name: str) -> User | None:
        body = await self._asked(Command.request(GetUser(username=name)))
        if not body:
            return None
        info = UserInfo.decode(body)
        if not info.username or not info.password:
            return None
        is_super = (info.user_type or "").lower() == UserType.SUPER.value.lower()
        return User(
            info.username,
            info.password,
            UserType.SUPER if is_super else UserType.NORMAL,
            (info.user_status or "enable") != "disable",
        )

    async def _load_acl(self, name: str) -> Acl | None:
        body = await self._asked(Command.request(GetAcl(subject=f"User:{name}")))
        try:
            return read_acl(AclInfo.decode(body)) if body else None
        except InvalidPolicy:
            return None

    async def _asked(self, command: Command) -> bytes:
        if not self._cluster.masters:
            await self._cluster.look_around()
        for broker_name in sorted(self._cluster.masters):
            reply = await self._cluster.ask(broker_name, command)
            return bytes(reply.body) if reply.code == ResponseCode.SUCCESS else b""
        return b""
