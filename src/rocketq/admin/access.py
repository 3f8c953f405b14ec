"""Users and policies of brokers that know both (RocketMQ 5.3 and later)."""

from collections.abc import Sequence

from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.remoting.bodies.access import (
    AclInfo,
    Policy,
    PolicyEntry,
    UserInfo,
    decode_acls,
    decode_users,
)
from rocketq.remoting.codes import RequestCode, ResponseCode
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


async def holders(api: BrokerApi) -> list[str]:
    """All who keep users: every broker for itself, and NameServers that check who asks.

    Slaves do not copy them: one that becomes a master must know them already.
    """
    found = [
        address
        for cluster in await brokers.clusters(api)
        for address in await brokers.every_address(api, cluster)
    ]
    for address in api.name_servers.addresses:
        try:
            await users(api, address)
        except BrokerRejected as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                continue
        found.append(address)
    return found


# Users


async def users(api: BrokerApi, address: str, containing: str = "") -> list[UserInfo]:
    """All users of a broker, or those whose names contain a text."""
    reply = await api.invoke(address, ListUsers(filter=containing))
    return decode_users(reply.body)


async def user(api: BrokerApi, address: str, name: str) -> UserInfo | None:
    reply = await api.invoke(address, GetUser(username=name))
    return UserInfo.decode(reply.body) if reply.body else None


async def create_user(api: BrokerApi, address: str, info: UserInfo) -> None:
    await api.invoke(address, CreateUser(username=info.username or ""), info.encode())


async def update_user(api: BrokerApi, address: str, info: UserInfo) -> None:
    """Change what `info` names; what it leaves out stays as it is."""
    await api.invoke(
        address,
        CreateUser(username=info.username or ""),
        info.encode(),
        code=RequestCode.AUTH_UPDATE_USER,
    )


async def delete_user(api: BrokerApi, address: str, name: str) -> None:
    await api.invoke(address, DeleteUser(username=name))


# Policies


async def acls(
    api: BrokerApi, address: str, subject: str = "", resource: str = ""
) -> list[AclInfo]:
    """All policies of a broker, or those whose subject and resource contain texts."""
    header = ListAcls(subject_filter=subject, resource_filter=resource)
    return decode_acls((await api.invoke(address, header)).body)


async def acl(api: BrokerApi, address: str, user_name: str) -> AclInfo | None:
    reply = await api.invoke(address, GetAcl(subject=subject_of(user_name)))
    return AclInfo.decode(reply.body) if reply.body else None


async def create_acl(api: BrokerApi, address: str, subject: str, *entries: PolicyEntry) -> None:
    await _put(api, address, _custom(subject, entries), RequestCode.AUTH_CREATE_ACL)


async def update_acl(api: BrokerApi, address: str, subject: str, *entries: PolicyEntry) -> None:
    await _put(api, address, _custom(subject, entries), RequestCode.AUTH_UPDATE_ACL)


async def put_acl(api: BrokerApi, address: str, acl: AclInfo) -> None:
    """All policies of somebody, as another broker has them."""
    await _put(api, address, acl, RequestCode.AUTH_CREATE_ACL)


def _custom(subject: str, entries: Sequence[PolicyEntry]) -> AclInfo:
    return AclInfo(subject=subject, policies=[Policy(policy_type="Custom", entries=list(entries))])


async def _put(api: BrokerApi, address: str, acl: AclInfo, code: RequestCode) -> None:
    await api.invoke(address, CreateAcl(subject=acl.subject or ""), acl.encode(), code=code)


async def delete_acl(
    api: BrokerApi, address: str, subject: str, resource: str = "", policy_type: str | None = None
) -> None:
    """All policies of a subject, or those for one resource."""
    header = DeleteAcl(subject=subject, resource=resource, policy_type=policy_type)
    await api.invoke(address, header)


def subject_of(user_name: str) -> str:
    return user_name if ":" in user_name else f"User:{user_name}"
