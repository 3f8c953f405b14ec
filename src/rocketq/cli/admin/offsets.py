"""Sub-commands that move groups to other offsets."""

from typing import Annotated, Final

from rocketq.admin import offsets
from rocketq.admin.cluster import brokers
from rocketq.admin.offsets import ResetResult
from rocketq.cli.admin.command import Report, RouteCluster, Topic, command, flag
from rocketq.cli.admin.times import parse_time
from rocketq.cli.commands import Option, UsageError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.queue import MessageQueue

_NEW: Final = "{:<40}  {:<40}  {:<40}"
_OLD: Final = "{:<20}  {:<20}  {:<20}  {:<20}  {:<20}  {:<20}"

Group = Annotated[str, Option("-g", "--group", metavar="GROUP", help="The consumer group.")]
Force = Annotated[
    str | None,
    Option("-f", "--force", metavar="true|false", help="Forward too? Else only back. [true]"),
]


@command("resetOffsetByTime")
async def reset_offset_by_time(
    api: BrokerApi,
    group: Group,
    topic: Topic,
    at: Annotated[
        str,
        Option("-s", "--timestamp", metavar="TIME", help="now, ms, or yyyy-MM-dd#HH:mm:ss:SSS"),
    ],
    force: Force = None,
    broker: Annotated[
        str | None,
        Option("-b", "--broker", metavar="HOST:PORT", help="With -q: only one queue."),
    ] = None,
    queue_id: Annotated[
        int | None, Option("-q", "--queue", metavar="ID", help="The queue, with -b.")
    ] = None,
    offset: Annotated[
        int | None, Option("-o", "--offset", metavar="N", help="To this offset, with -q.")
    ] = None,
    cluster: RouteCluster = None,
) -> Report:
    """Reset consumer offset by timestamp(without client restart)."""
    timestamp_ms = parse_time(at)
    when = f"timestamp(string)[{at}], timestamp(long)[{timestamp_ms}]"
    begin = f"start reset consumer offset by specified, group[{group}], topic[{topic}]"
    if (broker is None) != (queue_id is None):
        raise UsageError("-b and -q go together")
    if broker is not None and queue_id is not None:
        name = await brokers.broker_name_of(api, broker)
        reached = await offsets.reset_queue(
            *(api, broker, group, MessageQueue(topic, name, queue_id)),
            timestamp_ms=timestamp_ms,
            offset=offset,
        )
        lines = [
            f"{begin}, queueId[{queue_id}], broker[{broker}], {when}",
            f"reset consumer offset to {reached}",
        ]
        return Report({"brokerName": name, "queueId": queue_id, "offset": reached}, lines)
    forced = flag(force, True)
    result = await offsets.reset_to_time(api, group, topic, timestamp_ms, force=forced)
    line = f"{begin}, force[{str(forced).lower()}], {when}"
    return Report(_data(result), [line, *_lines(result, "#resetOffset")])


@command("skipAccumulatedMessage")
async def skip_accumulated_message(
    api: BrokerApi,
    group: Group,
    topic: Topic,
    force: Force = None,
    cluster: RouteCluster = None,
) -> Report:
    """Skip all messages that are accumulated (not consumed) currently."""
    result = await offsets.skip(api, group, topic, force=flag(force, True))
    return Report(_data(result), _lines(result, "#rollbackOffset"))


def _data(result: ResetResult) -> list[dict[str, object]]:
    done = {row.queue: row.reset_offset for row in result.old_way} or result.offsets
    return [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in sorted(done.items())
    ]


def _lines(result: ResetResult, last_heading: str) -> list[str]:
    if not result.old_way:
        rows = [
            _NEW.format(queue.broker_name[:32], queue.queue_id, offset)
            for queue, offset in sorted(result.offsets.items())
        ]
        return [_NEW.format("#brokerName", "#queueId", "#offset"), *rows]
    rows = [
        _OLD.format(
            *(row.queue.broker_name[:32], row.queue.queue_id, row.broker_offset),
            *(row.consumer_offset, row.timestamp_offset, row.reset_offset),
        )
        for row in result.old_way
    ]
    headings = ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset")
    return [_OLD.format(*headings, last_heading), *rows]


@command("cloneGroupOffset")
async def clone_group_offset(
    api: BrokerApi,
    source: Annotated[
        str, Option("-s", "--srcGroup", metavar="GROUP", help="The group to copy from.")
    ],
    destination: Annotated[
        str, Option("-d", "--destGroup", metavar="GROUP", help="The group to copy to.")
    ],
    topic: Topic,
    offline: Annotated[
        str | None,
        Option("-o", "--offline", metavar="true|false", help="Though nobody is online?"),
    ] = None,
) -> Report:
    """Clone offset from other group."""
    await offsets.clone(api, source, destination, topic, offline=flag(offline))
    line = (
        f"clone group offset success. srcGroup[{source}], destGroup=[{destination}], topic[{topic}]"
    )
    return Report({"srcGroup": source, "destGroup": destination, "topic": topic}, [line])
