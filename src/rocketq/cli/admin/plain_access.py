"""Sub-commands about accounts of RocketMQ 4 (its mqadmin has them up to 5.3.2)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from rocketq.admin import plain_access
from rocketq.admin.cluster import brokers
from rocketq.admin.plain_access import FileVersion
from rocketq.cli.admin.command import BrokerAddress, Cluster, Report, command, either, flag
from rocketq.cli.admin.times import to_the_second
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.headers.access import UpdateAclConfig

_VERSION: Final = "{:<16}  {:<22}  {:<22}  {:<20}  {:<22}  {:<22}"
# The fields of an account, in the order in which RocketMQ shows them.
_FIELDS: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)

AccessKey = Annotated[str, Option("-a", "--accessKey", metavar="KEY", help="The account's name.")]


@command("updateAclConfig")
async def update_acl_config(
    api: BrokerApi,
    access_key: AccessKey,
    secret_key: Annotated[
        str, Option("-s", "--secretKey", metavar="TEXT", help="What it signs requests with.")
    ],
    white_address: Annotated[
        str | None,
        Option(
            "-w", "--whiteRemoteAddress", metavar="PATTERN", help="From here without signature."
        ),
    ] = None,
    default_topic: Annotated[
        str | None,
        Option("-i", "--defaultTopicPerm", metavar="PERM", help="DENY, PUB, SUB, PUB|SUB."),
    ] = None,
    default_group: Annotated[
        str | None, Option("-u", "--defaultGroupPerm", metavar="PERM", help="The same for groups.")
    ] = None,
    topics: Annotated[
        str | None,
        Option("-t", "--topicPerms", metavar="LIST", help="As topicA=DENY,topicD=SUB."),
    ] = None,
    groups: Annotated[
        str | None,
        Option("-g", "--groupPerms", metavar="LIST", help="As groupD=DENY,groupE=SUB."),
    ] = None,
    is_admin: Annotated[
        str | None, Option("-m", "--admin", metavar="true", help="An administrator or not.")
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Update acl config yaml file in broker."""
    either(broker, cluster)
    account = UpdateAclConfig(
        access_key=access_key,
        secret_key=secret_key,
        white_remote_address=white_address,
        admin=flag(is_admin),
        default_topic_perm=default_topic,
        default_group_perm=default_group,
        topic_perms=topics,
        group_perms=groups,
    )
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await plain_access.update_account(api, address, account)
    lines = [f"create or update plain access config to {address} success." for address in addresses]
    return Report(addresses, lines)


@command("deleteAclConfig")
async def delete_acl_config(
    api: BrokerApi, access_key: AccessKey, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Delete Acl Config Account in broker."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    lines = []
    for address in addresses:
        await plain_access.delete_account(api, address, access_key)
        lines += [
            f"delete plain access config account from {address} success.",
            f"account's accesskey is:{access_key}",
        ]
    return Report(addresses, lines)


@command("clusterAclConfigVersion")
async def cluster_acl_config_version(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """List all of acl config version information in cluster."""
    either(broker, cluster)
    found = [
        version
        for address in await brokers.targets(api, broker, cluster)
        for version in await plain_access.versions(api, address)
    ]
    rows = [_version_line(version) for version in found]
    head = _VERSION.format(
        *("#Cluster Name", "#Broker Name", "#Broker Addr", "#AclFilePath"),
        *("#AclConfigVersionNum", "#AclLastUpdateTime"),
    )
    if broker:
        lines = [*rows, "get broker's plain access config version success."]
    else:
        lines = [head, *rows, "get cluster's plain access config version success."]
    data = [{"broker": each.address, "file": each.path, "counter": each.counter} for each in found]
    return Report(data, lines)


def _version_line(version: FileVersion) -> str:
    return _VERSION.format(
        *(version.cluster, version.broker_name, version.address, version.path, version.counter),
        to_the_second(version.timestamp_ms),
    )


@command("updateGlobalWhiteAddr")
async def update_global_white_addr(
    api: BrokerApi,
    white: Annotated[
        str,
        Option(
            "-g",
            "--globalWhiteRemoteAddresses",
            metavar="LIST",
            help="As 10.10.103.*,192.168.0.*: who needs no account.",
        ),
    ],
    path: Annotated[
        str | None,
        Option("-p", "--aclFileFullPath", metavar="PATH", help="In this file of the broker's."),
    ] = None,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Update global white address for acl Config File in broker."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await plain_access.update_white_addresses(api, address, white, path or "")
    lines = [f"update global white remote addresses to {address} success." for address in addresses]
    return Report(addresses, lines)


@command("getAclConfig")
async def get_acl_config(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """List all of acl config information in cluster."""
    either(broker, cluster)
    data, lines = {}, []
    for address in await brokers.targets(api, broker, cluster):
        found = data[address] = await plain_access.accounts(api, address)
        lines += ["", f"{'globalWhiteRemoteAddresses':<20}: {_java(found['globalWhiteAddrs'])}"]
        lines += ["", "accounts:"]
        for account in found["plainAccessConfigs"]:
            lines += [*_account_lines(account), ""]
    return Report(data, lines)


def _account_lines(account: Mapping[str, Any]) -> list[str]:
    return [f"{' ':<1} {name:<18}: {_java(account.get(name))}" for name in _FIELDS]


def _java(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
