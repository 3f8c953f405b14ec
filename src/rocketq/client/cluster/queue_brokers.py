"""Which broker to ask about a queue."""

from rocketq.client.cluster.routes import MASTER_ID, BrokerAddress, RouteTable
from rocketq.client.errors import BrokerUnknown
from rocketq.message.queue import MessageQueue


async def find_broker(
    routes: RouteTable, queue: MessageQueue, broker_id: int = MASTER_ID
) -> BrokerAddress:
    """The broker of this id, else any of its name; an unknown name is looked up once more."""
    broker = routes.find(queue.broker_name, broker_id=broker_id)
    if broker is None:
        await routes.refresh(queue.topic)
        broker = routes.find(queue.broker_name, broker_id=broker_id)
    if broker is None:
        raise BrokerUnknown(queue.broker_name)
    return broker
