"""Sub-commands about replication."""

from typing import Annotated

from rocketq.admin import brokers, replication
from rocketq.cli.admin.command import BrokerAddress, Cluster, Report, command, either
from rocketq.cli.admin.times import to_the_second
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.replication import HARuntimeInfo

_ROW = "{:<32}  {:<16} {:>16} {:>16} {:>16} {:>16}"


@command("haStatus")
async def ha_status(
    api: BrokerApi,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    interval: Annotated[int | None, Option("-i", "--interval", hidden=True)] = None,
) -> Report:
    """Fetch ha runtime status data."""
    either(broker, cluster)
    addresses = [broker] if broker else await brokers.every_address(api, cluster or "")
    data, lines = {}, []
    for address in addresses:
        info = await replication.status(api, address)
        data[address] = info.to_json()
        lines += _lines(address, info)
    return Report(data, lines)


def _lines(address: str, info: HARuntimeInfo) -> list[str]:
    if not info.master:
        client = info.ha_client_runtime_info
        return [
            "",
            f"#MasterAddr\t{client.master_addr}",
            f"#CommitLogMaxOffset\t{client.max_offset}",
            f"#TransferSpeed(KB/s)\t{client.transferred_byte_in_second / 1024:.2f}",
            f"#LastReadTime\t{to_the_second(client.last_read_timestamp)}",
            f"#LastWriteTime\t{to_the_second(client.last_write_timestamp)}",
            f"#MasterFlushOffset\t{client.master_flush_offset}",
        ]
    slaves = info.ha_connection_info
    lines = [
        "",
        f"#MasterAddr\t{address}",
        f"#MasterCommitLogMaxOffset\t{info.master_commit_log_max_offset}",
        f"#SlaveNum\t{len(slaves)}",
        f"#InSyncSlaveNum\t{info.in_sync_slave_nums}",
        _ROW.format(
            *("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status"),
            "#TransferFromWhere",
        ),
    ]
    lines += [
        _ROW.format(
            each.addr,
            each.slave_ack_offset,
            each.diff,
            f"{each.transferred_byte_in_second / 1024:.2f}",
            "OK" if each.in_sync else "Fall Behind",
            each.transfer_from_where,
        )
        for each in slaves
    ]
    return lines
