"""A connection to a cluster for as long as some administration takes."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rocketq.client.cluster.name_servers import NameServers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.cluster.signing import signing_hooks
from rocketq.client.config import ClientConfig
from rocketq.remoting import RemotingClient

# Twice what clients wait for: some requests walk over all of a broker's topics.
TIMEOUT_S = 5.0


@asynccontextmanager
async def connected(
    name_servers: str | Sequence[str] | None = None, *, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[BrokerApi]:
    """The RPC layer; requests are signed where `conf/tools.yml` holds keys.

    Without `name_servers` the environment's `NAMESRV_ADDR` is asked.
    """
    access_key, secret_key = tool_credentials()
    config = ClientConfig(namesrv=name_servers, access_key=access_key, secret_key=secret_key)
    remoting = RemotingClient(hooks=signing_hooks(config))
    try:
        yield BrokerApi(remoting, NameServers(name_servers), timeout_s=timeout_s)
    finally:
        await remoting.close()


def tool_credentials() -> tuple[str, str]:
    """The keys of RocketMQ's tools: `accessKey` and `secretKey` of `conf/tools.yml`."""
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home, "conf", "tools.yml") if home else None
    if path is None or not path.is_file():
        return "", ""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        found[key.strip()] = value.strip().strip("\"'")
    return found.get("accessKey", ""), found.get("secretKey", "")
