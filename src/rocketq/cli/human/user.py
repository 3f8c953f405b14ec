"""`rocketq user`: who may come in, and what they may do.

Users are kept by every broker for itself, and by NameServers and controllers that ask who
somebody is; a change here is made on all brokers of the cluster.
"""

from collections.abc import Iterable
from getpass import getpass
from typing import Annotated

from rocketq.admin import access
from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report
from rocketq.cli.commands import Argument, Option, UsageError
from rocketq.cli.human.tables import ClusterName, commands, listed, rows, the_cluster
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.access import AclInfo, PolicyEntry, UserInfo

UserName = Annotated[str, Argument(metavar="USER", help="The user's name.")]
Password = Annotated[
    str | None,
    Option("--password", metavar="TEXT", help="What it signs with; asked for if not given."),
]
Resource = Annotated[
    str, Argument(metavar="RESOURCE", help="Topic:NAME, Group:BEGIN*, Cluster:*, or * for all.")
]
_ACTIONS = "Pub, Sub, Create, Update, Delete, Get, List, with commas; or All."
_USER = ("user", "kind", "state")
_RIGHT = ("resource", "decision", "actions", "from")


async def list_users(api: BrokerApi, cluster: ClusterName = None) -> Report:
    """Who there is."""
    found = await access.users(api, (await _addresses(api, cluster))[0])
    return listed(_USER, [_row(each) for each in sorted(found, key=lambda u: u.username or "")])


async def describe(api: BrokerApi, user: UserName, cluster: ClusterName = None) -> Report:
    """What somebody may do."""
    address = (await _addresses(api, cluster))[0]
    info = await _known(api, address, user)
    rights = _rights(await access.acl(api, address, user))
    kind, state = _row(info)[1:]
    table = listed(_RIGHT, rights)
    lines = [f"{user}: {kind}, {state}", ""]
    lines += rows([title.upper() for title in _RIGHT], rights) if rights else ["no policies"]
    return Report({"user": user, "kind": kind, "state": state, "rights": table.data}, lines)


async def create(
    api: BrokerApi,
    user: UserName,
    password: Password = None,
    is_super: Annotated[bool, Option("--super", help="May do everything.")] = False,
    cluster: ClusterName = None,
) -> Report:
    """Make a user."""
    info = UserInfo(
        username=user,
        password=password if password is not None else getpass(f"password of {user}: "),
        user_type="Super" if is_super else "Normal",
    )
    addresses = await _addresses(api, cluster)
    for address in addresses:
        await access.create_user(api, address, info)
    return _done(user, "can log in", addresses)


async def change(
    api: BrokerApi,
    user: UserName,
    password: Password = None,
    kind: Annotated[
        str | None,
        Option("--type", metavar="KIND", choices=("Super", "Normal"), help="Super or Normal."),
    ] = None,
    state: Annotated[
        str | None,
        Option("--state", metavar="STATE", choices=("enable", "disable"), help="enable, disable."),
    ] = None,
    cluster: ClusterName = None,
) -> Report:
    """Give somebody another password, or switch them off."""
    if password is None and kind is None and state is None:
        raise UsageError("say what to change: --password, --type or --state")
    addresses = await _addresses(api, cluster)
    info = UserInfo(username=user, password=password, user_type=kind, user_status=state)
    for address in addresses:
        await access.update_user(api, address, info)
    return _done(user, "is changed", addresses)


async def delete(api: BrokerApi, user: UserName, cluster: ClusterName = None) -> Report:
    """Delete a user and what it was allowed."""
    addresses = await _addresses(api, cluster)
    await _known(api, addresses[0], user)
    for address in addresses:
        if await access.acl(api, address, user) is not None:
            await access.delete_acl(api, address, access.subject_of(user))
        await access.delete_user(api, address, user)
    return _done(user, "is deleted", addresses)


async def allow(
    api: BrokerApi,
    user: UserName,
    resource: Resource,
    actions: Annotated[str, Argument(metavar="ACTIONS", help=_ACTIONS)],
    source: Annotated[
        str | None, Option("--from", metavar="ADDRESSES", help="Only from there, with commas.")
    ] = None,
    cluster: ClusterName = None,
) -> Report:
    """Let somebody do something."""
    return await _decide(api, user, resource, actions, source, cluster, "Allow")


async def deny(
    api: BrokerApi,
    user: UserName,
    resource: Resource,
    actions: Annotated[str, Argument(metavar="ACTIONS", help=_ACTIONS)],
    source: Annotated[
        str | None, Option("--from", metavar="ADDRESSES", help="Only from there, with commas.")
    ] = None,
    cluster: ClusterName = None,
) -> Report:
    """Forbid somebody something that they would be allowed."""
    return await _decide(api, user, resource, actions, source, cluster, "Deny")


async def forget(
    api: BrokerApi, user: UserName, resource: Resource, cluster: ClusterName = None
) -> Report:
    """Take back what was allowed or denied of a resource."""
    addresses = await _addresses(api, cluster)
    for address in addresses:
        await access.delete_acl(api, address, access.subject_of(user), resource)
    return _done(user, f"has no policy for {resource}", addresses)


async def _decide(
    api: BrokerApi,
    user: str,
    resource: str,
    actions: str,
    source: str | None,
    cluster: str | None,
    decision: str,
) -> Report:
    entry = PolicyEntry(
        resource=resource,
        actions=_words(actions),
        source_ips=_words(source) if source else None,
        decision=decision,
    )
    addresses = await _addresses(api, cluster)
    subject = access.subject_of(user)
    for address in addresses:
        if await access.acl(api, address, user) is None:
            await access.create_acl(api, address, subject, entry)
        else:
            await access.update_acl(api, address, subject, entry)
    verb = "may" if decision == "Allow" else "may not"
    return _done(user, f"{verb} {', '.join(entry.actions or ())} on {resource}", addresses)


async def _addresses(api: BrokerApi, cluster: str | None) -> list[str]:
    return await brokers.every_address(api, await the_cluster(api, cluster))


async def _known(api: BrokerApi, address: str, user: str) -> UserInfo:
    found = await access.user(api, address, user)
    if found is None:
        raise AdminError(f"there is no user {user}")
    return found


def _row(info: UserInfo) -> tuple[str, str, str]:
    return info.username or "", info.user_type or "", info.user_status or ""


def _rights(acl: AclInfo | None) -> list[tuple[str, str, str, str]]:
    policies = [] if acl is None else acl.policies or []
    return [
        (
            entry.resource or "",
            entry.decision or "",
            ", ".join(entry.actions or ()),
            ", ".join(entry.source_ips or ()),
        )
        for policy in policies
        for entry in policy.entries or []
    ]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _done(user: str, what: str, addresses: Iterable[str]) -> Report:
    where = list(addresses)
    return Report({"user": user, "brokers": where}, [f"{user} {what} ({', '.join(where)})"])


run = commands(
    "Who may come in, and what they may do.",
    {
        "list": list_users,
        "describe": describe,
        "create": create,
        "change": change,
        "delete": delete,
        "allow": allow,
        "deny": deny,
        "forget": forget,
    },
)
