"""A connection to a cluster for as long as some administration takes."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from rocketq.client.cluster.name_servers import NameServers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.cluster.signing import signing_hooks
from rocketq.client.config import ClientConfig
from rocketq.client.identity import Identity, identity_of, read_client_file
from rocketq.remoting import RemotingClient

# Twice what clients wait for: some requests walk over all of a broker's topics.
TIMEOUT_S = 5.0


@asynccontextmanager
async def connected(
    name_servers: str | Sequence[str] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    credentials: tuple[str, str] | None = None,
) -> AsyncIterator[BrokerApi]:
    """The RPC layer.

    Requests are signed with `credentials`, a user's name and password (empty ones sign nothing),
    else with those of the environment or of the file it names (see `rocketq.client.identity`),
    else with those of RocketMQ's `conf/tools.yml`.
    Without `name_servers` the environment's `NAMESRV_ADDR` is asked.
    """
    who = own_identity()
    if credentials is not None:
        access_key, secret_key = credentials
        who = replace(who, access_key=access_key, secret_key=secret_key, security_token="")
    remoting = RemotingClient(hooks=signing_hooks(who), tls=who.tls)
    try:
        yield BrokerApi(remoting, NameServers(name_servers), timeout_s=timeout_s)
    finally:
        await remoting.close()


def own_identity() -> Identity:
    """Who the tools of this process are, where nobody says otherwise."""
    who = identity_of(ClientConfig())
    if not who.access_key:
        access_key, secret_key = tool_credentials()
        who = replace(who, access_key=access_key, secret_key=secret_key)
    return who


def tool_credentials() -> tuple[str, str]:
    """The keys of RocketMQ's tools: `accessKey` and `secretKey` of `conf/tools.yml`."""
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home, "conf", "tools.yml") if home else None
    if path is None or not path.is_file():
        return "", ""
    found = read_client_file(path)
    return found.get("accessKey", ""), found.get("secretKey", "")
