"""Users and policies, administered with RocketMQ's requests."""

from rocketq.common.access import Acl, InvalidPolicy, User, UserType
from rocketq.common.access.policy import policy_type
from rocketq.remoting.access.audit import change_line
from rocketq.remoting.access.directory import (
    AccessDirectory,
    acl_info,
    read_acl,
    resource_of,
    subject_name,
    user_info,
)
from rocketq.remoting.access.signature import ACCESS_KEY
from rocketq.remoting.bodies.access import AclInfo, UserInfo, encode_acls, encode_users
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.access import (
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
)
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.handlers import Handlers
from rocketq.remoting.wire.command import Command

_HIDDEN = "******"


class AccessProcessor:
    """Changes the directory; each change is a line of the audit log."""

    def __init__(self, directory: AccessDirectory) -> None:
        self._directory = directory

    def handlers(self) -> Handlers:
        return {
            RequestCode.AUTH_CREATE_USER: self._create_user,
            RequestCode.AUTH_UPDATE_USER: self._update_user,
            RequestCode.AUTH_DELETE_USER: self._delete_user,
            RequestCode.AUTH_GET_USER: self._get_user,
            RequestCode.AUTH_LIST_USER: self._list_users,
            RequestCode.AUTH_CREATE_ACL: self._change_acl,
            RequestCode.AUTH_UPDATE_ACL: self._change_acl,
            RequestCode.AUTH_DELETE_ACL: self._delete_acl,
            RequestCode.AUTH_GET_ACL: self._get_acl,
            RequestCode.AUTH_LIST_ACL: self._list_acls,
        }

    # Users

    async def _create_user(self, request: Command, connection: Connection) -> Command:
        name = _named(request.header(CreateUser).username)
        info = UserInfo.from_request(request)
        if self._directory.user(name) is not None:
            raise _refused("The user is existed")
        if not info.password:
            raise _refused("password can not be blank.")
        user = User(name, info.password, _user_type(info), info.user_status != "disable")
        self._refuse_unless_super(request, user)
        self._directory.put_user(user)
        return await self._done(request, connection, "user created", name)

    async def _update_user(self, request: Command, connection: Connection) -> Command:
        name = _named(request.header(CreateUser).username)
        info = UserInfo.from_request(request)
        before = self._directory.user(name)
        if before is None:
            raise _refused("The user is not exist")
        self._refuse_unless_super(request, before)
        user = User(
            name,
            info.password or before.password,
            _user_type(info) if info.user_type else before.type,
            info.user_status != "disable" if info.user_status else before.is_enabled,
        )
        self._refuse_unless_super(request, user)
        self._directory.put_user(user)
        return await self._done(request, connection, "user changed", name)

    async def _delete_user(self, request: Command, connection: Connection) -> Command:
        name = _named(request.header(DeleteUser).username)
        user = self._directory.user(name)
        if user is not None:
            self._refuse_unless_super(request, user)
        self._directory.delete_user(name)
        return await self._done(request, connection, "user deleted", name)

    def _get_user(self, request: Command, connection: Connection) -> Command:
        user = self._directory.user(_named(request.header(GetUser).username))
        return request.reply(body=self._shown(request, user).encode() if user else b"")

    def _list_users(self, request: Command, connection: Connection) -> Command:
        users = self._directory.users(request.header(ListUsers).filter)
        return request.reply(body=encode_users([self._shown(request, user) for user in users]))

    def _shown(self, request: Command, user: User) -> UserInfo:
        """Tools copy users from broker to broker, so super users are shown passwords."""
        info = user_info(user)
        if self._is_super(request):
            return info
        return UserInfo(
            username=info.username,
            password=_HIDDEN,
            user_type=info.user_type,
            user_status=info.user_status,
        )

    def _refuse_unless_super(self, request: Command, user: User) -> None:
        if user.is_super and not self._is_super(request):
            raise _refused("The super user can only be changed by a super user.")

    def _is_super(self, request: Command) -> bool:
        """Whether who asks is a super user; without a user nobody checks anything."""
        name = request.ext_fields.get(ACCESS_KEY, "")
        if not name:
            return True
        caller = self._directory.user(name)
        return caller is not None and caller.is_super

    # Policies

    async def _change_acl(self, request: Command, connection: Connection) -> Command:
        """Add entries, or replace those for the same resources."""
        info = AclInfo.from_request(request)
        try:
            name = subject_name(request.header(CreateAcl).subject)
            if self._directory.user(name) is None:
                raise InvalidPolicy(f"The subject of User:{name} is not exist.")
            acl = self._directory.acl(name) or Acl()
            for kind, entries in read_acl(info).entries.items():
                acl = acl.merged(kind, entries)
            self._directory.put_acl(name, acl)
        except InvalidPolicy as error:
            raise _refused(str(error)) from None
        return await self._done(request, connection, "policies changed", name)

    async def _delete_acl(self, request: Command, connection: Connection) -> Command:
        header = request.header(DeleteAcl)
        try:
            name = subject_name(header.subject)
            kind = policy_type(header.policy_type) if header.policy_type else None
            acl = self._directory.acl(name) or Acl()
            self._directory.put_acl(name, acl.without(kind, resource_of(header.resource)))
        except InvalidPolicy as error:
            raise _refused(str(error)) from None
        return await self._done(request, connection, "policies deleted", name)

    def _get_acl(self, request: Command, connection: Connection) -> Command:
        try:
            name = subject_name(request.header(GetAcl).subject)
        except InvalidPolicy as error:
            raise _refused(str(error)) from None
        acl = self._directory.acl(name)
        if acl is None and self._directory.user(name) is None:
            raise _refused("The subject is not exist.")
        return request.reply(body=acl_info(name, acl).encode() if acl else b"")

    def _list_acls(self, request: Command, connection: Connection) -> Command:
        header = request.header(ListAcls)
        wanted = header.subject_filter.removeprefix("User:")
        found = [
            acl_info(name, acl, header.resource_filter)
            for name, acl in self._directory.acls(wanted)
        ]
        return request.reply(body=encode_acls([info for info in found if info.policies]))

    async def _done(
        self, request: Command, connection: Connection, change: str, name: str
    ) -> Command:
        """Answered when the change is on the disk."""
        change_line(change, connection.peer_address, request, name)
        await self._directory.saved()
        return request.reply()


def _named(name: str) -> str:
    if not name.strip():
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, "The username is blank.")
    if len(name) > 128 or not name.isprintable() or " " in name:
        raise _refused("a user's name has at most 128 characters, and no blanks")
    return name


def _user_type(info: UserInfo) -> UserType:
    if (info.user_type or "").lower() == UserType.SUPER.value.lower():
        return UserType.SUPER
    return UserType.NORMAL


def _refused(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, reason)
