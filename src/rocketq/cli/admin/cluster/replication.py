"""Sub-commands about replication."""

from collections.abc import AsyncIterator
from typing import Annotated

from rocketq.admin.cluster import replication
from rocketq.cli.admin.command import (
    BrokerAddress,
    Cluster,
    Interval,
    Report,
    Rounds,
    again_and_again,
    command,
    either,
)
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
    interval: Interval = None,
    rounds: Rounds = 0,
) -> AsyncIterator[Report]:
    """Fetch ha runtime status data."""
    either(broker, cluster)

    async def look() -> Report:
        data, lines = {}, []
        for address, info in (await replication.states(api, broker, cluster)).items():
            data[address] = info.to_json()
            lines += _lines(address, info)
        return Report(data, lines)

    async for report in again_and_again(look, interval or 0, rounds if interval else 1):
        yield report


@command("resetMasterFlushOffset")
async def reset_master_flush_offset(
    api: BrokerApi,
    broker: Annotated[
        str, Option("-b", "--brokerAddr", metavar="HOST:PORT", help="The slave, by its address.")
    ],
    offset: Annotated[
        int, Option("-o", "--offset", metavar="N", minimum=0, help="What its master has flushed.")
    ],
) -> Report:
    """Reset master flush offset in slave."""
    await replication.reset_master_flush_offset(api, broker, offset)
    return Report({broker: offset}, [f"reset master flush offset to {offset} success"])


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
