"""`rocketq group`: lag, members, offsets."""

from typing import Annotated

from rocketq.admin import groups, offsets
from rocketq.admin.cluster import brokers
from rocketq.cli.admin.command import Report
from rocketq.cli.admin.java_text import group_fields
from rocketq.cli.commands import Option, UsageError
from rocketq.cli.human.tables import (
    ClusterName,
    GroupName,
    commands,
    listed,
    moment,
    rows,
    the_cluster,
)
from rocketq.cli.messages.tail import start_of
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.names import is_retry_topic
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig


async def list_groups(api: BrokerApi) -> Report:
    """Which groups there are, how many members each has, how far it is behind."""
    found = [
        (
            each.group,
            len(each.connection.connection_set) if each.connection else 0,
            each.behind,
            each.consume_tps,
        )
        for each in await groups.progress(api)
    ]
    return listed(("group", "members", "behind", "per second"), sorted(found))


async def lag(
    api: BrokerApi,
    group: GroupName,
    topic: Annotated[
        str | None, Option("--topic", metavar="TOPIC", help="Of this topic alone.")
    ] = None,
) -> Report:
    """How far a group is behind in each queue, and who reads it."""
    stats = await groups.progress_of(api, group, topic)
    readers = await groups.clients_by_queue(api, group)
    found = [
        (
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            at.consumer_offset,
            at.broker_offset,
            at.broker_offset - at.consumer_offset,
            moment(at.last_timestamp),
            readers.get(queue),
        )
        for queue, at in sorted(stats.offset_table.items())
        if not is_retry_topic(queue.topic) or at.broker_offset
    ]
    titles = ("topic", "broker", "queue", "at", "end", "behind", "last read", "reader")
    table = listed(titles, found)
    lines = [*table.lines, "", f"behind in all: {groups.total_behind(stats):,}"]
    return Report({"group": group, "queues": table.data}, lines)


async def members(api: BrokerApi, group: GroupName) -> Report:
    """Who is connected, and what they subscribe to."""
    connection = await groups.consumer_connection(api, group)
    subscriptions = " ".join(
        f"{topic}:{each.sub_string}"
        for topic, each in sorted(connection.subscription_table.items())
        if not is_retry_topic(topic)
    )
    found = [
        (each.client_id, each.client_addr, each.language, subscriptions)
        for each in sorted(connection.connection_set, key=lambda each: each.client_id)
    ]
    return listed(("client", "address", "language", "subscriptions"), found)


async def reset(
    api: BrokerApi,
    group: GroupName,
    topic: Annotated[str, Option("--topic", metavar="TOPIC", help="In which topic.")],
    to: Annotated[
        str,
        Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, a time (2026-01-31T12:00), or 10m: ten minutes ago.",
        ),
    ],
) -> Report:
    """Let a group continue somewhere else: read again, or skip."""
    where = start_of(to, "--to")
    if where.offset is not None and where.offset > 0:
        raise UsageError("--to wants earliest, latest or a time")
    time_ms = where.time_ms
    if time_ms is None:
        time_ms = 0 if where.offset == 0 else offsets.LATEST
    result = await offsets.reset_to_time(api, group, topic, time_ms)
    new = {**result.offsets, **{each.queue: each.reset_offset for each in result.old_way}}
    found = [(queue.broker_name, queue.queue_id, offset) for queue, offset in sorted(new.items())]
    return listed(("broker", "queue", "continues at"), found)


async def create(
    api: BrokerApi,
    group: GroupName,
    retries: Annotated[
        int, Option("--retries", metavar="N", minimum=0, help="Attempts before the DLQ.")
    ] = 16,
    orderly: Annotated[bool, Option("--orderly", help="Its consumers keep the order.")] = False,
    cluster: ClusterName = None,
) -> Report:
    """Make a group, or change one."""
    addresses = await brokers.masters(api, await the_cluster(api, cluster))
    config = SubscriptionGroupConfig(
        group_name=group, retry_max_times=retries, consume_message_orderly=orderly
    )
    await groups.create(api, config, addresses)
    return Report(
        {"group": group, "brokers": addresses},
        [f"{group} has {retries} retries on {', '.join(addresses)}"],
    )


async def describe(api: BrokerApi, group: GroupName) -> Report:
    """Its settings on each broker."""
    found = await groups.configs(api, group)
    data = [
        {"cluster": each.cluster, "broker": each.broker_name, "settings": group_fields(each.config)}
        for each in found
    ]
    lines: list[str] = []
    for each in found:
        lines += [f"{each.cluster} {each.broker_name}"]
        lines += rows(("SETTING", "VALUE"), sorted(group_fields(each.config).items()))
    return Report(data, lines)


async def delete(
    api: BrokerApi,
    group: GroupName,
    offsets_too: Annotated[
        bool, Option("--offsets", help="Forget how far it has read, too.")
    ] = False,
    cluster: ClusterName = None,
) -> Report:
    """Delete a group's settings."""
    name = await the_cluster(api, cluster)
    await groups.delete(api, group, broker=None, cluster=name, with_offsets=offsets_too)
    return Report({"group": group}, [f"{group} is deleted"])


run = commands(
    "Consumer groups: lag, members, offsets.",
    {
        "list": list_groups,
        "describe": describe,
        "create": create,
        "lag": lag,
        "members": members,
        "reset": reset,
        "delete": delete,
    },
)
