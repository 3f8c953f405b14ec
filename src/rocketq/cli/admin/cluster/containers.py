"""Sub-commands about broker containers, which RocketMQ has."""

from typing import Annotated

from rocketq.admin.cluster import containers
from rocketq.cli.admin.command import Report, command
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

Container = Annotated[
    str, Option("-c", "--brokerContainerAddr", metavar="HOST:PORT", help="The container.")
]


@command("addBroker")
async def add_broker(
    api: BrokerApi,
    container: Container,
    config_path: Annotated[
        str, Option("-b", "--brokerConfigPath", metavar="PATH", help="A file on its host.")
    ],
) -> Report:
    """Add a broker to specified container."""
    await containers.add_broker(api, container, config_path)
    return Report({"added": config_path}, [f"add broker to {container} success"])


@command("removeBroker")
async def remove_broker(
    api: BrokerApi,
    container: Container,
    identity: Annotated[
        str, Option("-b", "--brokerIdentity", metavar="CLUSTER:NAME:ID", help="The broker.")
    ],
) -> Report:
    """Remove a broker from specified container."""
    await containers.remove_broker(api, container, identity)
    return Report({"removed": identity}, [f"remove broker from {container} success"])
