"""NameServers: their options, their settings, and the write permission they hand out.

NameServers do not tell each other anything, so every one that is known is told.
"""

from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.common.config import parse_properties
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import (
    AddWritePerm,
    AddWritePermResponse,
    GetKvListByNamespace,
    WipeWritePerm,
    WipeWritePermResponse,
)


async def put_setting(api: BrokerApi, namespace: str, key: str, value: str) -> None:
    await api.put_kv_config(namespace, key, value)


async def delete_setting(api: BrokerApi, namespace: str, key: str) -> None:
    await api.delete_kv_config(namespace, key)


async def settings(api: BrokerApi, namespace: str) -> dict[str, str]:
    """All that is kept in a namespace; nothing where there is none."""
    try:
        reply = await api.invoke_name_server(GetKvListByNamespace(namespace=namespace))
    except BrokerRejected:
        return {}
    return dict(KVTable.decode(reply.body).table)


async def config(api: BrokerApi, address: str) -> dict[str, str]:
    """All options of one NameServer."""
    reply = await api.invoke(address, RequestCode.GET_NAMESRV_CONFIG)
    return parse_properties(bytes(reply.body).decode())


async def configs(api: BrokerApi) -> dict[str, dict[str, str]]:
    """All options of every NameServer, by its address."""
    return {address: await config(api, address) for address in api.name_servers.addresses}


async def update_config(api: BrokerApi, key: str, value: str) -> tuple[str, ...]:
    """Set an option; answers with the addresses of those told."""
    text = f"{key}={value}\n"
    await api.invoke_every_name_server(RequestCode.UPDATE_NAMESRV_CONFIG, text.encode())
    return api.name_servers.addresses


async def wipe_write_permission(api: BrokerApi, broker_name: str) -> dict[str, int]:
    """Keep producers off a broker; by NameServer, how many topics were changed."""
    changed = {}
    for address in api.name_servers.addresses:
        reply = await api.invoke(address, WipeWritePerm(broker_name=broker_name))
        changed[address] = reply.header(WipeWritePermResponse).wipe_topic_count
    return changed


async def add_write_permission(api: BrokerApi, broker_name: str) -> dict[str, int]:
    """Let producers back; by NameServer, how many topics were changed."""
    changed = {}
    for address in api.name_servers.addresses:
        reply = await api.invoke(address, AddWritePerm(broker_name=broker_name))
        changed[address] = reply.header(AddWritePermResponse).add_topic_count
    return changed
