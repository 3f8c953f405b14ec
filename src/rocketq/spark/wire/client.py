"""A client of the SDK for the driver, and for tasks that look for a broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.spark.options import ClusterAccess


@asynccontextmanager
async def opened(connection: ClusterAccess) -> AsyncIterator[ClientInstance]:
    """A client for the length of a block."""
    async with ClientInstance.opened(client_config(connection)) as client:
        yield client


def client_config(connection: ClusterAccess) -> ClientConfig:
    """The SDK's settings. Namespaces are dealt with here, so it does not learn of them."""
    return ClientConfig(
        namesrv=connection.namesrv,
        access_key=connection.access_key,
        secret_key=connection.secret_key,
        api_timeout_s=connection.timeout_s,
    )
