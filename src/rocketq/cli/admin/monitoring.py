"""startMonitoring: looks at every consumer group from time to time, for ever."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Final

from rocketq.admin import groups
from rocketq.cli.admin.command import Report, Rounds, again_and_again, command
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

_FIRST_AFTER_S: Final = 20


@command("startMonitoring")
async def start_monitoring(
    api: BrokerApi,
    interval: Annotated[
        int, Option("--interval", metavar="SECONDS", minimum=1, help="Pause between rounds.")
    ] = 60,
    first: Annotated[
        int, Option("--first", metavar="SECONDS", minimum=0, help="Pause before the first.")
    ] = _FIRST_AFTER_S,
    rounds: Rounds = 0,
) -> AsyncIterator[Report]:
    """Start Monitoring.

    RocketMQ's writes to a log what it finds; here it is printed: a line for each group that is
    behind or has no consumers.
    """

    async def look() -> Report:
        found = await groups.progress(api)
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        data = [
            {
                "group": each.group,
                "undoneMessages": each.behind,
                "consumers": len(each.connection.connection_set) if each.connection else 0,
                "consumeTps": each.consume_tps,
            }
            for each in found
        ]
        lines = [
            f"{now} group={each['group']} undone={each['undoneMessages']} "
            f"consumers={each['consumers']} tps={each['consumeTps']:.2f}"
            for each in data
            if each["undoneMessages"] or not each["consumers"]
        ]
        return Report(data, lines)

    await asyncio.sleep(first)
    async for report in again_and_again(look, interval, rounds):
        yield report
