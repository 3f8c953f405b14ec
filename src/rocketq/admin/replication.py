"""How replication goes, as masters and slaves see it."""

from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.replication import HARuntimeInfo
from rocketq.remoting.codes import RequestCode


async def status(api: BrokerApi, address: str) -> HARuntimeInfo:
    reply = await api.invoke(address, RequestCode.GET_BROKER_HA_STATUS)
    return HARuntimeInfo.decode(reply.body)
