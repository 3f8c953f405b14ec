"""`rocketq broker list` and so on: the brokers, how they are doing, and their settings.

`rocketq broker` without such a word runs one.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final

from rocketq.admin.cluster import brokers, replication
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report
from rocketq.cli.commands import Argument
from rocketq.cli.human.tables import commands, listed, rows
from rocketq.client.cluster.rpc import BrokerApi

BrokerName = Annotated[str, Argument(metavar="BROKER", help="A broker's name, or its HOST:PORT.")]


async def list_brokers(api: BrokerApi) -> Report:
    """Which brokers there are, what goes in and out of each."""
    found = [
        (
            each.cluster,
            each.broker_name,
            "master" if each.broker_id == 0 else f"slave {each.broker_id}",
            each.address,
            each.number("putTps"),
            each.number("getTransferredTps"),
            each.runtime.get("brokerVersionDesc", "does not answer"),
        )
        for each in await brokers.states(api)
    ]
    titles = ("cluster", "broker", "role", "address", "in per second", "out per second", "version")
    return listed(titles, found)


async def describe(api: BrokerApi, broker: BrokerName) -> Report:
    """All that a broker tells about itself."""
    facts = await brokers.runtime_info(api, await _address(api, broker))
    return Report(facts, rows(("WHAT", "VALUE"), sorted(facts.items())))


async def config(
    api: BrokerApi,
    broker: BrokerName,
    key: Annotated[
        str | None, Argument(metavar="[KEY]", help="One setting; else all of them.")
    ] = None,
) -> Report:
    """A broker's settings."""
    settings = await brokers.config(api, await _address(api, broker))
    if key is not None:
        if key not in settings:
            raise AdminError(f"{broker} has no setting {key}")
        return Report(settings[key], [settings[key]])
    return Report(settings, [f"{name}={value}" for name, value in sorted(settings.items())])


async def set_config(
    api: BrokerApi,
    broker: BrokerName,
    key: Annotated[str, Argument(metavar="KEY", help="RocketMQ's name of the setting.")],
    value: Annotated[str, Argument(metavar="VALUE", help="What it shall be.")],
) -> Report:
    """Change a setting of a running broker."""
    address = await _address(api, broker)
    await brokers.update_config(api, address, key, value)
    return Report({key: value}, [f"{key}={value} on {address}"])


async def copies(api: BrokerApi) -> Report:
    """Masters and their slaves: who is in sync, who is behind."""
    found = []
    for each in await brokers.states(api):
        if each.broker_id != brokers.MASTER_ID:
            continue
        info = (await replication.states(api, each.address, None))[each.address]
        found += [
            (each.broker_name, slave.addr, "yes" if slave.in_sync else "no", slave.diff)
            for slave in info.ha_connection_info
        ] or [(each.broker_name, "none", "", 0)]
    return listed(("broker", "slave", "in sync", "bytes behind"), found)


async def _address(api: BrokerApi, broker: str) -> str:
    return broker if ":" in broker else await brokers.address_of(api, broker)


TABLE: Final[Mapping[str, Callable[..., Awaitable[Report]]]] = {
    "list": list_brokers,
    "describe": describe,
    "copies": copies,
    "config": config,
    "set": set_config,
}

run = commands("The brokers, how they are doing, and their settings.", TABLE)
