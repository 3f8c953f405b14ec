"""Sub-commands about cold data, and about replication as a broker sees it."""

from typing import Annotated, Any

from rocketq.admin.cluster import brokers, cold_data
from rocketq.cli.admin.command import BrokerAddress, Cluster, Group, Report, command, either
from rocketq.cli.commands import Option, UsageError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json


@command("getColdDataFlowCtrInfo")
async def get_cold_data_flow_ctr_info(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Get cold data flow ctr info."""
    either(broker, cluster)
    data: dict[str, Any] = {}
    lines = []
    for address, title in await _titles(api, broker, cluster):
        table = await cold_data.limits(api, address)
        data[address] = table
        lines.append(title)
        if table:
            lines += json.dumps_pretty(table).decode().splitlines()
        else:
            lines.append(f"Broker[{address}] has no cold ctr table !")
    return Report(data, lines)


@command("updateColdDataFlowCtrGroupConfig")
async def update_cold_data_flow_ctr_group_config(
    api: BrokerApi,
    group: Group,
    threshold: Annotated[
        int, Option("-v", "--threshold", metavar="BYTES", minimum=0, help="Cold bytes it may read.")
    ],
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Add or update cold data flow ctr group config."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await cold_data.set_limit(api, address, group, threshold)
    lines = [f"updateColdDataFlowCtrGroupConfig success, {address}" for address in addresses]
    return Report({"group": group, "threshold": threshold, "brokers": addresses}, lines)


@command("removeColdDataFlowCtrGroupConfig")
async def remove_cold_data_flow_ctr_group_config(
    api: BrokerApi, group: Group, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Remove consumer from cold ctr config."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await cold_data.remove_limit(api, address, group)
    lines = [f"remove broker cold read threshold success, {address}" for address in addresses]
    return Report({"group": group, "brokers": addresses}, lines)


@command("setCommitLogReadAheadMode")
async def set_commit_log_read_ahead_mode(
    api: BrokerApi,
    mode: Annotated[
        int, Option("-m", "--commitLogReadAheadMode", metavar="0|1", help="0 normal, 1 random.")
    ],
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Set read ahead mode for all commitlog files."""
    either(broker, cluster)
    if mode not in (0, 1):
        raise UsageError("set the read mode error; 0 is default, 1 random read")
    data, lines = {}, []
    for address, title in await _titles(api, broker, cluster):
        data[address] = await cold_data.set_read_ahead(api, address, mode)
        lines += [
            title,
            # Java forgot a blank here; whoever reads this with a program knows it so.
            f"commitLog set readAhead mode rstStr{data[address]}",
        ]
    return Report(data, lines)


async def _titles(api: BrokerApi, broker: str | None, cluster: str | None) -> list[tuple[str, str]]:
    """The brokers that are meant, slaves of a cluster too, and what stands above their lines."""
    if broker or not cluster:
        return [(each, _title(each)) for each in await brokers.targets(api, broker, cluster)]
    found = []
    for master, slaves in await brokers.groups_of_cluster(api, cluster):
        if master is not None:
            found.append((master, _title(f"Master: {master}")))
        found += [(each, _title(f"My Master: {master}=====Slave: {each}")) for each in slaves]
    return found


def _title(text: str) -> str:
    return f"============{text}============"
