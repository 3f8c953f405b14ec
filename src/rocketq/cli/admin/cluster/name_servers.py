"""Sub-commands about NameServers."""

from typing import Annotated

from rocketq.admin.cluster import name_servers
from rocketq.cli.admin.command import Report, command
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

Namespace = Annotated[str, Option("-s", "--namespace", metavar="NAMESPACE", help="The namespace.")]
Key = Annotated[str, Option("-k", "--key", metavar="KEY", help="The key.")]
Value = Annotated[str, Option("-v", "--value", metavar="VALUE", help="The value.")]
BrokerName = Annotated[
    str, Option("-b", "--brokerName", metavar="NAME", help="The broker, by its name.")
]


@command("updateKvConfig")
async def update_kv_config(api: BrokerApi, namespace: Namespace, key: Key, value: Value) -> Report:
    """Create or update KV config."""
    await name_servers.put_setting(api, namespace, key, value)
    data = {"namespace": namespace, "key": key, "value": value}
    return Report(data, ["create or update kv config to namespace success."])


@command("deleteKvConfig")
async def delete_kv_config(api: BrokerApi, namespace: Namespace, key: Key) -> Report:
    """Delete KV config."""
    await name_servers.delete_setting(api, namespace, key)
    data = {"namespace": namespace, "key": key}
    return Report(data, ["delete kv config from namespace success."])


@command("getNamesrvConfig")
async def get_namesrv_config(api: BrokerApi) -> Report:
    """Get configs of name server."""
    configs = await name_servers.configs(api)
    lines = []
    for address, config in configs.items():
        lines.append(f"============{address}============")
        lines += [f"{key:<50}=  {value}" for key, value in config.items()]
    return Report(configs, lines)


@command("updateNamesrvConfig")
async def update_namesrv_config(api: BrokerApi, key: Key, value: Value) -> Report:
    """Update configs of name server."""
    addresses = await name_servers.update_config(api, key, value)
    lines = [
        f"update name server config success![{', '.join(addresses)}]",
        f"{key} : {value}",
    ]
    return Report({"key": key, "value": value, "addresses": list(addresses)}, lines)


@command("wipeWritePerm")
async def wipe_write_perm(api: BrokerApi, broker_name: BrokerName) -> Report:
    """Wipe write perm of broker in all name servers you defined in the -n param."""
    changed = await name_servers.wipe_write_permission(api, broker_name)
    lines = [
        f"wipe write perm of broker[{broker_name}] in name server[{address}] OK, {count}"
        for address, count in changed.items()
    ]
    return Report(changed, lines)


@command("addWritePerm")
async def add_write_perm(api: BrokerApi, broker_name: BrokerName) -> Report:
    """Add write perm of broker in all name server you defined in the -n param."""
    changed = await name_servers.add_write_permission(api, broker_name)
    lines = [
        f"add write perm of broker[{broker_name}] in name server[{address}] OK, {count}"
        for address, count in changed.items()
    ]
    return Report(changed, lines)
