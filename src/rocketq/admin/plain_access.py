"""Accounts of RocketMQ 4 on brokers."""

import json as standard_json
from dataclasses import dataclass
from typing import Any

from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.access import (
    DeleteAclConfig,
    GetBrokerClusterAclInfoResponse,
    UpdateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """One file of accounts on a broker, and when it was changed last."""

    cluster: str
    broker_name: str
    address: str
    path: str
    counter: int
    timestamp_ms: int


async def update_account(api: BrokerApi, address: str, account: UpdateAclConfig) -> None:
    """Make an account or change it; what is not given stays as it is."""
    await api.invoke(address, account)


async def delete_account(api: BrokerApi, address: str, access_key: str) -> None:
    await api.invoke(address, DeleteAclConfig(access_key=access_key))


async def update_white_addresses(
    api: BrokerApi, address: str, addresses: str, path: str = ""
) -> None:
    """Set who needs no account, in one file or in the first."""
    header = UpdateGlobalWhiteAddrsConfig(global_white_addrs=addresses, acl_file_full_path=path)
    await api.invoke(address, header)


async def versions(api: BrokerApi, address: str) -> list[FileVersion]:
    reply = await api.invoke(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    header = reply.header(GetBrokerClusterAclInfoResponse)
    files: dict[str, dict[str, int]] = standard_json.loads(header.all_acl_file_version or "{}")
    return [
        FileVersion(
            header.cluster_name,
            header.broker_name,
            header.broker_addr,
            path,
            version.get("counter", 0),
            version.get("timestamp", 0),
        )
        for path, version in files.items()
    ]


async def accounts(api: BrokerApi, address: str) -> dict[str, Any]:
    """`globalWhiteAddrs` and `plainAccessConfigs`, as a broker has them."""
    reply = await api.invoke(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
    found: dict[str, Any] = json.loads(reply.body)
    return found
