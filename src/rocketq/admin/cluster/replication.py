"""How masters and slaves stand to each other."""

from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.replication import HARuntimeInfo
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import ResetMasterFlushOffset


async def status(api: BrokerApi, address: str) -> HARuntimeInfo:
    """What one broker says about replication."""
    reply = await api.invoke(address, RequestCode.GET_BROKER_HA_STATUS)
    return HARuntimeInfo.decode(reply.body)


async def states(
    api: BrokerApi, broker: str | None, cluster: str | None
) -> dict[str, HARuntimeInfo]:
    """What a broker, or every master of a cluster, says about it, by address."""
    addresses = await brokers.targets(api, broker, cluster)
    return {address: await status(api, address) for address in addresses}


async def reset_master_flush_offset(api: BrokerApi, address: str, offset: int) -> None:
    """Tell a slave how far its master has flushed."""
    await api.invoke(address, ResetMasterFlushOffset(master_flush_offset=offset))
