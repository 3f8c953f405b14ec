"""Brokers in a container of RocketMQ's: a process that holds several, started and stopped here.

rocketq has a process for each broker instead (`rocketq up --brokers N`).
"""

from rocketq.admin.errors import AdminError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.numbers import parse_natural
from rocketq.remoting.headers import AddBroker, RemoveBroker


async def add_broker(api: BrokerApi, container: str, config_path: str) -> None:
    """Start a broker there, by the path of a file on that host."""
    await api.invoke(container, AddBroker(config_path=config_path), timeout_s=60.0)


async def remove_broker(api: BrokerApi, container: str, identity: str) -> None:
    """Stop one, named as `cluster:name:id`."""
    parts = identity.split(":")
    number = parse_natural(parts[2]) if len(parts) == 3 else None
    if number is None:
        raise AdminError(f"{identity}: a broker is named as cluster:name:id")
    header = RemoveBroker(broker_cluster_name=parts[0], broker_name=parts[1], broker_id=number)
    await api.invoke(container, header, timeout_s=60.0)
