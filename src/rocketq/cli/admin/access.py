"""Sub-commands about users and policies (RocketMQ 5.3 and later)."""

from typing import Annotated, Final

from rocketq.admin import access
from rocketq.admin.cluster import brokers
from rocketq.cli.admin.command import BrokerAddress, Cluster, Report, command, either
from rocketq.cli.commands import Option, UsageError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.access import AclInfo, PolicyEntry, UserInfo

_USER: Final = "{:<16}  {:<22}  {:<22}  {:<22}"
_ACL: Final = "{:<16}  {:<10}  {:<22}  {:<20}  {:<24}  {:<10}"

User = Annotated[str, Option("-u", "--username", metavar="NAME", help="The user.")]
Subject = Annotated[
    str, Option("-s", "--subject", metavar="SUBJECT", help="Who it is about, as User:name.")
]
Resources = Annotated[
    str,
    Option(
        "-r",
        "--resources",
        metavar="LIST",
        help="What it is about, with commas: Topic:name, Group:begin*, Cluster:*, *.",
    ),
]
Actions = Annotated[
    str,
    Option(
        "-a",
        "--actions",
        metavar="LIST",
        help="All, Pub, Sub, Create, Update, Delete, Get, List, with commas.",
    ),
]
Decided = Annotated[str, Option("-d", "--decision", metavar="WORD", help="Allow or Deny.")]
Sources = Annotated[
    str | None,
    Option("-i", "--sourceIp", metavar="LIST", help="From these addresses only, with commas."),
]
From = Annotated[
    str, Option("-f", "--fromBroker", metavar="HOST:PORT", help="The broker to copy from.")
]
To = Annotated[str, Option("-t", "--toBroker", metavar="HOST:PORT", help="The broker to copy to.")]


# Users


@command("createUser")
async def create_user(
    api: BrokerApi,
    name: User,
    password: Annotated[
        str, Option("-p", "--password", metavar="TEXT", help="What it signs requests with.")
    ],
    kind: Annotated[
        str | None, Option("-t", "--userType", metavar="TYPE", help="Super or Normal. [Normal]")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Create user to cluster."""
    either(broker, cluster)
    info = UserInfo(username=name, password=password, user_type=kind)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.create_user(api, address, info)
    return _done("create user", addresses)


@command("updateUser")
async def update_user(
    api: BrokerApi,
    name: User,
    password: Annotated[
        str | None, Option("-p", "--password", metavar="TEXT", help="Another password.")
    ] = None,
    kind: Annotated[
        str | None, Option("-t", "--userType", metavar="TYPE", help="Super or Normal.")
    ] = None,
    status: Annotated[
        str | None, Option("-s", "--userStatus", metavar="WORD", help="enable or disable.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Update user to cluster."""
    either(broker, cluster)
    if password is None and kind is None and status is None:
        raise UsageError("Missing required option: one of -p, -t and -s")
    info = UserInfo(username=name, password=password, user_type=kind, user_status=status)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.update_user(api, address, info)
    return _done("update user", addresses)


@command("deleteUser")
async def delete_user(
    api: BrokerApi, name: User, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Delete user from cluster."""
    either(broker, cluster)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.delete_user(api, address, name)
    return _done("delete user", addresses)


@command("getUser")
async def get_user(
    api: BrokerApi,
    name: Annotated[
        str | None, Option("-u", "--username", metavar="NAME", help="The user.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Get user from cluster."""
    either(broker, cluster)
    found: list[UserInfo] = []
    lines: list[str] = []
    for address in await brokers.targets(api, broker, cluster):
        user = await access.user(api, address, name or "")
        if user is not None:
            found.append(user)
            lines += _user_lines([user])
            break  # as in RocketMQ, the first that knows it
    return Report([user.to_json() for user in found], lines)


@command("listUser")
async def list_user(
    api: BrokerApi,
    containing: Annotated[
        str | None, Option("-f", "--filter", metavar="TEXT", help="A part of their names.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """List user from cluster."""
    either(broker, cluster)
    found: dict[str, list[UserInfo]] = {}
    lines: list[str] = []
    for address in await brokers.targets(api, broker, cluster):
        found[address] = await access.users(api, address, containing or "")
        if found[address]:
            lines += _user_lines(found[address])
            if cluster and not broker:
                lines.append(f"get user from {address} success.")
            break  # as in RocketMQ, the first that has some
    return Report({a: [user.to_json() for user in users] for a, users in found.items()}, lines)


@command("copyUser")
async def copy_user(
    api: BrokerApi,
    source: From,
    target: To,
    names: Annotated[
        str | None, Option("-u", "--usernames", metavar="LIST", help="Only these, with commas.")
    ] = None,
) -> Report:
    """Copy user to cluster."""
    if names:
        asked = [await access.user(api, source, name) for name in _words(names)]
        users = [user for user in asked if user is not None]
    else:
        users = await access.users(api, source)
    for user in users:
        if await access.user(api, target, user.username or "") is None:
            await access.create_user(api, target, user)
        else:
            await access.update_user(api, target, user)
    copied = [user.username for user in users]
    return Report(copied, [f"copy user of {n} from {source} to {target} success." for n in copied])


def _user_lines(users: list[UserInfo]) -> list[str]:
    return [
        _USER.format("#UserName", "#Password", "#UserType", "#UserStatus"),
        *(
            _USER.format(
                *(_shown(user.username), _shown(user.password)),
                *(_shown(user.user_type), _shown(user.user_status)),
            )
            for user in users
        ),
    ]


# Policies


@command("createAcl")
async def create_acl(
    api: BrokerApi,
    subject: Subject,
    resources: Resources,
    actions: Actions,
    decision: Decided,
    sources: Sources = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Create acl to cluster."""
    either(broker, cluster)
    entries = _entries(resources, actions, decision, sources)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.create_acl(api, address, subject, *entries)
    return _done("create acl", addresses)


@command("updateAcl")
async def update_acl(
    api: BrokerApi,
    subject: Subject,
    resources: Resources,
    actions: Actions,
    decision: Decided,
    sources: Sources = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Update acl to cluster."""
    either(broker, cluster)
    entries = _entries(resources, actions, decision, sources)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.update_acl(api, address, subject, *entries)
    return _done("update acl", addresses)


@command("deleteAcl")
async def delete_acl(
    api: BrokerApi,
    subject: Subject,
    resources: Annotated[
        str | None, Option("-r", "--resources", metavar="RESOURCE", help="Only for this one.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Delete acl from cluster."""
    either(broker, cluster)
    addresses = await brokers.every_target(api, broker, cluster)
    for address in addresses:
        await access.delete_acl(api, address, subject, resources or "")
    return _done("delete acl", addresses)


@command("getAcl")
async def get_acl(
    api: BrokerApi,
    subject: Annotated[
        str | None, Option("-s", "--subject", metavar="SUBJECT", help="Whose, as User:name.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Get acl from cluster."""
    either(broker, cluster)
    found: list[AclInfo] = []
    lines: list[str] = []
    for address in await brokers.targets(api, broker, cluster):
        acl = await access.acl(api, address, subject or "")
        if acl is not None:
            found.append(acl)
            lines += _acl_lines([acl])
    return Report([acl.to_json() for acl in found], lines)


@command("listAcl")
async def list_acl(
    api: BrokerApi,
    subject: Annotated[
        str | None, Option("-s", "--subject", metavar="TEXT", help="A part of the subject.")
    ] = None,
    resource: Annotated[
        str | None, Option("-r", "--resource", metavar="TEXT", help="A part of the resource.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """List acl from cluster."""
    either(broker, cluster)
    found: dict[str, list[AclInfo]] = {}
    lines: list[str] = []
    for address in await brokers.targets(api, broker, cluster):
        found[address] = await access.acls(api, address, subject or "", resource or "")
        if found[address]:
            lines += _acl_lines(found[address])
    return Report({a: [acl.to_json() for acl in acls] for a, acls in found.items()}, lines)


@command("copyAcl")
async def copy_acl(
    api: BrokerApi,
    source: From,
    target: To,
    subjects: Annotated[
        str | None, Option("-s", "--subjects", metavar="LIST", help="Only theirs, with commas.")
    ] = None,
) -> Report:
    """Copy acl to cluster."""
    if subjects:
        asked = [await access.acl(api, source, subject) for subject in _words(subjects)]
        acls = [acl for acl in asked if acl is not None]
    else:
        acls = await access.acls(api, source)
    for acl in acls:
        await access.put_acl(api, target, acl)
    copied = [acl.subject for acl in acls]
    return Report(copied, [f"copy acl of {s} from {source} to {target} success." for s in copied])


def _entries(resources: str, actions: str, decision: str, sources: str | None) -> list[PolicyEntry]:
    return [
        PolicyEntry(
            resource=resource,
            actions=_words(actions),
            source_ips=_words(sources) if sources else None,
            decision=decision,
        )
        for resource in _words(resources)
    ]


def _acl_lines(acls: list[AclInfo]) -> list[str]:
    head = ("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    lines = [_ACL.format(*head)]
    for acl in acls:
        if not acl.policies:
            lines.append(_ACL.format(_shown(acl.subject), *[""] * 5))
        lines += [
            _ACL.format(
                *(_shown(acl.subject), _shown(policy.policy_type), _shown(entry.resource)),
                *(_listed(entry.actions), _listed(entry.source_ips), _shown(entry.decision)),
            )
            for policy in acl.policies
            for entry in policy.entries
        ]
    return lines


def _done(what: str, addresses: list[str]) -> Report:
    return Report(addresses, [f"{what} to {address} success." for address in addresses])


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _shown(text: str | None) -> str:
    """As Java prints what is not there."""
    return "null" if text is None else text


def _listed(texts: list[str] | None) -> str:
    """As Java prints a list."""
    return "null" if texts is None else f"[{', '.join(texts)}]"
