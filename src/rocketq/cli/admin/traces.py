"""The way of a message, as traced clients told it."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

from rocketq.admin import traces
from rocketq.admin.traces import TraceStep
from rocketq.cli.admin.command import Report, command
from rocketq.cli.admin.messages import Begin, End, MessageId
from rocketq.cli.admin.times import parse_optional_time, to_the_second
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

_ROW = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}"
_LATEST_MS = 2**63 - 1


@command("queryMsgTraceById")
async def query_msg_trace_by_id(
    api: BrokerApi,
    message_id: MessageId,
    topic: Annotated[
        str, Option("-t", "--traceTopic", metavar="TOPIC", help="Where traces are kept.")
    ] = traces.TRACE_TOPIC,
    begin: Begin = None,
    end: End = None,
    count: Annotated[
        int, Option("-c", "--maxNum", metavar="N", minimum=1, help="At most N trace messages.")
    ] = 64,
) -> Report:
    """Query a message trace."""
    found = await traces.of_message(
        api,
        message_id,
        topic=topic,
        begin_ms=parse_optional_time(begin) or 0,
        end_ms=parse_optional_time(end) or _LATEST_MS,
        max_count=count,
    )
    lines = _table("Pub", "#ProducerGroup", "#SendTime", found.sent)
    for steps in found.consumed.values():
        lines += ["", *_table("Sub", "#ConsumerGroup", "#ConsumerTime", steps)]
    return Report(asdict(found), lines)


def _table(kind: str, group: str, time: str, steps: Iterable[TraceStep]) -> list[str]:
    lines = [_ROW.format("#Type", group, "#ClientHost", time, "#CostTimes", "#Status")]
    lines += [
        _ROW.format(
            kind,
            each.group,
            each.client_host,
            to_the_second(each.time_ms),
            f"{each.cost_ms}ms",
            "success" if each.success else "failed",
        )
        for each in steps
    ]
    return lines
