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
        security_token=connection.security_token,
        tls=connection.tls is not None,
        tls_trust=connection.tls.trust if connection.tls else "",
        tls_certificate=connection.tls.certificate if connection.tls else "",
        tls_key=connection.tls.key if connection.tls else "",
        tls_key_password=connection.tls.key_password if connection.tls else "",
        tls_check_hostname=connection.tls.check_hostname if connection.tls else False,
        api_timeout_s=connection.timeout_s,
    )
