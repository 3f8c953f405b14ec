"""Controllers: who leads, who is in sync, and what an administrator may change.

Questions about broker sets are answered by the leader alone. Any controller says who that is.
"""

from collections.abc import Iterable

from rocketq.admin.errors import AdminError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.config import parse_properties
from rocketq.remoting.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryCache,
    encode_broker_names,
)
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.controller import (
    CleanBrokerData,
    ElectMaster,
    ElectMasterResponse,
    GetMetadataInfoResponse,
)


async def metadata(api: BrokerApi, address: str) -> GetMetadataInfoResponse:
    """What a controller says of itself and the others."""
    reply = await api.invoke(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    return reply.header(GetMetadataInfoResponse)


async def leader(api: BrokerApi, addresses: str) -> str:
    """The address of the one that decides; `host:port;host:port` are asked in turn."""
    for address in split(addresses):
        found = (await metadata(api, address)).controller_leader_address
        if found:
            return found
    raise AdminError(f"no controller of {addresses} leads at the moment")


def split(addresses: str) -> list[str]:
    """`host:port;host:port`"""
    return [word.strip() for word in addresses.split(";") if word.strip()]


async def sync_states(
    api: BrokerApi, controller: str, broker_names: Iterable[str]
) -> BrokerReplicasInfo:
    """The replicas of broker names; those that are not known are left out."""
    address = await leader(api, controller)
    body = encode_broker_names(list(broker_names))
    reply = await api.invoke(address, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body)
    return BrokerReplicasInfo.decode(reply.body)


async def elect(
    api: BrokerApi, controller: str, cluster: str, broker_name: str, broker_id: int
) -> tuple[ElectMasterResponse, ElectMasterResponseBody]:
    """Make a broker the master of its name."""
    address = await leader(api, controller)
    header = ElectMaster(
        cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True
    )
    reply = await api.invoke(address, header)
    return reply.header(ElectMasterResponse), ElectMasterResponseBody.decode(reply.body)


async def clean(
    api: BrokerApi,
    controller: str,
    broker_name: str,
    *,
    cluster: str | None,
    broker_ids: str | None,
    also_living: bool,
) -> None:
    """Forget brokers of a name: those listed (`1;2`), or all."""
    address = await leader(api, controller)
    header = CleanBrokerData(
        cluster_name=cluster,
        broker_name=broker_name,
        broker_controller_ids_to_clean=broker_ids,
        is_clean_living_broker=also_living,
    )
    await api.invoke(address, header)


async def configs(api: BrokerApi, controllers: str) -> dict[str, dict[str, str]]:
    """All options of each controller, by its address."""
    found = {}
    for address in split(controllers):
        reply = await api.invoke(address, RequestCode.GET_CONTROLLER_CONFIG)
        found[address] = parse_properties(bytes(reply.body).decode())
    return found


async def update_config(api: BrokerApi, controllers: str, key: str, value: str) -> list[str]:
    """Set an option of each controller; the addresses of those told."""
    addresses = split(controllers)
    for address in addresses:
        await api.invoke(address, RequestCode.UPDATE_CONTROLLER_CONFIG, f"{key}={value}\n".encode())
    return addresses


async def epochs(api: BrokerApi, broker: str) -> EpochEntryCache:
    """The reigns that a broker's log knows."""
    reply = await api.invoke(broker, RequestCode.GET_BROKER_EPOCH_CACHE)
    return EpochEntryCache.decode(reply.body)
