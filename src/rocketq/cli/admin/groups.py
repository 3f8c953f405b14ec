"""Sub-commands about consumer and producer groups, and how far they have come."""

from typing import Annotated, Final

from rocketq.admin import groups
from rocketq.admin.cluster import brokers
from rocketq.admin.groups import GroupProgress
from rocketq.cli.admin.command import (
    BrokerAddress,
    Cluster,
    Group,
    Report,
    RouteCluster,
    command,
    either,
    flag,
)
from rocketq.cli.admin.java_text import group_fields, group_text
from rocketq.cli.admin.times import to_the_second
from rocketq.cli.commands import Option, UsageError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.message.names import is_retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.connections import ClientConnection
from rocketq.remoting.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from rocketq.remoting.bodies.stats import ConsumeStats
from rocketq.remoting.versions import version_name

_PROGRESS: Final = "{:<64}  {:<6}  {:<24} {:<5}  {:<14}  {:<7}  {}"
_QUEUES_HEAD: Final = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20} {:<20}{}"
_QUEUES: Final = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20} {:<20} {}"
_CLIENTS_HEAD: Final = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20} {:<20} {:<20}{}"
_CLIENTS: Final = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20} {:<20} {:<20} {}"
_CONNECTION: Final = "{:<36} {:<22} {:<10} {}"
_BROKER_PROGRESS: Final = "{:<64}  {:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20}  {}"

_TYPE_NAMES: Final = {
    "CONSUME_ACTIVELY": "PULL",
    "CONSUME_PASSIVELY": "PUSH",
    "CONSUME_POP": "POP",
}


# Settings


@command("updateSubGroup")
async def update_sub_group(
    api: BrokerApi,
    group: Group,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    consume_enable: Annotated[
        str | None,
        Option("-s", "--consumeEnable", metavar="true|false", help="May it consume?"),
    ] = None,
    from_min: Annotated[
        str | None,
        Option("-m", "--consumeFromMinEnable", metavar="true|false", help="From the start?"),
    ] = None,
    broadcast: Annotated[
        str | None,
        Option("-d", "--consumeBroadcastEnable", metavar="true|false", help="Broadcasting?"),
    ] = None,
    orderly: Annotated[
        str | None,
        Option("-o", "--consumeMessageOrderly", metavar="true|false", help="In order?"),
    ] = None,
    retry_queues: Annotated[
        int, Option("-q", "--retryQueueNums", metavar="N", help="Queues for retries.")
    ] = 1,
    retry_times: Annotated[
        int, Option("-r", "--retryMaxTimes", metavar="N", help="Retries before it is dead.")
    ] = 16,
    retry_policy: Annotated[
        str | None,
        Option("-p", "--groupRetryPolicy", metavar="JSON", help="How long between retries."),
    ] = None,
    broker_id: Annotated[
        int, Option("-i", "--brokerId", metavar="ID", help="Consume from this broker id.")
    ] = 0,
    slow_broker_id: Annotated[
        int,
        Option("-w", "--whichBrokerWhenConsumeSlowly", metavar="ID", help="When it is slow."),
    ] = 1,
    notify: Annotated[
        str | None,
        Option("-a", "--notifyConsumerIdsChanged", metavar="true|false", hidden=True),
    ] = None,
    attributes: Annotated[
        str, Option("--attributes", metavar="+K=V,-K", help="Attributes to set or drop.")
    ] = "",
) -> Report:
    """Update or create subscription group."""
    either(broker, cluster)
    changes = [part.strip().partition("=") for part in attributes.split(",") if part.strip()]
    config = SubscriptionGroupConfig(
        group_name=group,
        consume_enable=flag(consume_enable, True),
        consume_from_min_enable=flag(from_min),
        consume_broadcast_enable=flag(broadcast),
        consume_message_orderly=flag(orderly),
        retry_queue_nums=retry_queues,
        retry_max_times=retry_times,
        group_retry_policy=_retry_policy(retry_policy),
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker_id,
        notify_consumer_ids_changed_enable=flag(notify, True),
        attributes={key: value for key, _, value in changes},
    )
    addresses = await brokers.targets(api, broker, cluster)
    await groups.create(api, config, addresses)
    lines = [f"create subscription group to {address} success." for address in addresses]
    data = {"addresses": addresses, "groupConfig": config.to_json()}
    return Report(data, [*lines, group_text(config)])


def _retry_policy(text: str | None) -> GroupRetryPolicy:
    if text is None:
        return GroupRetryPolicy()
    try:
        return GroupRetryPolicy.from_json(json.loads(text.encode()))
    except (json.JsonError, AttributeError):
        raise UsageError(f"-p {text}: it is a JSON object") from None


@command("deleteSubGroup")
async def delete_sub_group(
    api: BrokerApi,
    group: Group,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    remove_offset: Annotated[
        str | None,
        Option("-r", "--removeOffset", metavar="true|false", help="Its offsets too?"),
    ] = None,
) -> Report:
    """Delete subscription group from broker."""
    either(broker, cluster)
    addresses = await groups.delete(
        api, group, broker=broker, cluster=cluster, with_offsets=flag(remove_offset)
    )
    place = "" if broker else f" in cluster [{cluster}]"
    lines = [
        f"delete subscription group [{group}] from broker [{address}]{place} success."
        for address in addresses
    ]
    return Report({"group": group, "addresses": addresses}, lines)


@command("getConsumerConfig")
async def get_consumer_config(api: BrokerApi, group: Group) -> Report:
    """Get consumer config by subscription group name."""
    found = await groups.configs(api, group)
    bar = "============================="
    lines = []
    for each in found:
        lines.append(f"{bar}{each.cluster}:{each.broker_name}{bar}")
        lines += [
            f"{key:<40}=  {'' if value == 'null' else value}"
            for key, value in group_fields(each.config).items()
        ]
    data = [
        {"cluster": e.cluster, "brokerName": e.broker_name, "config": e.config.to_json()}
        for e in found
    ]
    return Report(data, lines)


# Who is connected


@command("consumerConnection")
async def consumer_connection(
    api: BrokerApi,
    group: Annotated[
        str, Option("-g", "--consumerGroup", metavar="GROUP", help="The consumer group.")
    ],
    broker: BrokerAddress = None,
) -> Report:
    """Query consumer's socket connection, client version and subscription."""
    found = await groups.consumer_connection(api, group, broker=broker)
    lines = [_CONNECTION.format("#ClientId", "#ClientAddr", "#Language", "#Version")]
    lines += [_CONNECTION.format(*_client(each)) for each in found.connection_set]
    lines += ["", "Below is subscription:", "{:<20} {}".format("#Topic", "#SubExpression")]
    lines += [
        f"{topic:<20} {subscription.sub_string}"
        for topic, subscription in sorted(found.subscription_table.items())
    ]
    lines += [
        "",
        f"ConsumeType: {found.consume_type}",
        f"MessageModel: {found.message_model}",
        f"ConsumeFromWhere: {found.consume_from_where}",
    ]
    return Report(found.to_json(), lines)


def _client(client: ClientConnection) -> tuple[str, str, str, str]:
    return client.client_id, client.client_addr, client.language, version_name(client.version)


@command("producerConnection")
async def producer_connection(
    api: BrokerApi,
    group: Annotated[
        str, Option("-g", "--producerGroup", metavar="GROUP", help="The producer group.")
    ],
    topic: Annotated[str, Option("-t", "--topic", metavar="TOPIC", help="A topic of it.")],
) -> Report:
    """Query producer's socket connection and client version."""
    found = await groups.producer_connection(api, group, topic)
    lines = [
        "{:04d}  {:<32} {:<22} {:<8} {}".format(number, *_client(each))
        for number, each in enumerate(found.connection_set, start=1)
    ]
    return Report(found.to_json(), lines)


@command("producer")
async def producer(
    api: BrokerApi,
    broker: Annotated[
        str, Option("-b", "--broker", metavar="HOST:PORT", help="The broker's address.")
    ],
) -> Report:
    """Query producer's instances, connection, status, etc."""
    table = await groups.producers(api, broker)
    lines = []
    for group, members in sorted(table.data.items()):
        if not members:
            lines.append(f"producer group ({group}) instances are empty")
        lines += [
            f"producer group ({group}) instance : clientId={each.client_id},"
            f"remoteIP={each.remote_ip}, language={each.language}, version={each.version},"
            f" lastUpdateTimestamp={each.last_update_timestamp}"
            for each in members
        ]
    return Report(table.to_json(), lines)


# How far they have come


@command("consumerProgress")
async def consumer_progress(
    api: BrokerApi,
    group: Annotated[
        str | None, Option("-g", "--groupName", metavar="GROUP", help="Only this group.")
    ] = None,
    topic: Annotated[
        str | None, Option("-t", "--topicName", metavar="TOPIC", help="Only this topic.")
    ] = None,
    show_clients: Annotated[
        str | None,
        Option("-s", "--showClientIP", metavar="true|false", help="Who reads which queue?"),
    ] = None,
    cluster: RouteCluster = None,
) -> Report:
    """Query consumer's progress, speed."""
    if group is None:
        found = await groups.progress(api)
        return Report([_progress_data(each) for each in found], _progress_lines(found))
    stats = await groups.progress_of(api, group, topic)
    clients = await groups.clients_by_queue(api, group) if flag(show_clients) else None
    return Report(stats_data(stats, clients), _stats_lines(stats, clients))


def _progress_data(progress: GroupProgress) -> dict[str, object]:
    connection = progress.connection
    return {
        "group": progress.group,
        "count": len(connection.connection_set) if connection else 0,
        "consumeType": connection.consume_type if connection else None,
        "messageModel": connection.message_model if connection else None,
        "consumeTps": progress.consume_tps,
        "diffTotal": progress.behind,
    }


def _progress_lines(found: list[GroupProgress]) -> list[str]:
    lines = [
        _PROGRESS.format("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    ]
    for each in found:
        connection = each.connection
        members = connection.connection_set if connection else []
        version = version_name(min(m.version for m in members)) if members else "OFFLINE"
        kind = _TYPE_NAMES.get(connection.consume_type or "", "") if connection else ""
        model = (connection.message_model or "") if connection else ""
        lines.append(
            _PROGRESS.format(
                *(each.group[:64], len(members), version, kind, model),
                *(int(each.consume_tps), each.behind),
            )
        )
    return lines


def stats_data(stats: ConsumeStats, clients: dict[MessageQueue, str] | None) -> dict[str, object]:
    rows = []
    for queue, offsets in sorted(stats.offset_table.items()):
        row: dict[str, object] = {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            **offsets.to_json(),
        }
        if clients is not None:
            row["client"] = clients.get(queue)
        rows.append(row)
    return {
        "queues": rows,
        "consumeTps": stats.consume_tps,
        "diffTotal": groups.total_behind(stats),
        "inflightTotal": groups.total_inflight(stats),
    }


def _stats_lines(stats: ConsumeStats, clients: dict[MessageQueue, str] | None) -> list[str]:
    head = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset"]
    tail = ["#Diff", "#Inflight", "#LastTime"]
    if clients is None:
        lines = [_QUEUES_HEAD.format(*head, *tail)]
    else:
        lines = [_CLIENTS_HEAD.format(*head, "#Client IP", *tail)]
    for queue, offsets in sorted(stats.offset_table.items()):
        at = offsets.last_timestamp
        cells = [
            *(queue.topic[:64], queue.broker_name[:32], queue.queue_id),
            *(offsets.broker_offset, offsets.consumer_offset),
        ]
        rest = [
            offsets.broker_offset - offsets.consumer_offset,
            offsets.pull_offset - offsets.consumer_offset,
            to_the_second(at) if at > 0 else "N/A",
        ]
        if clients is None:
            lines.append(_QUEUES.format(*cells, *rest))
        else:
            lines.append(_CLIENTS.format(*cells, clients.get(queue, "N/A"), *rest))
    return [
        *lines,
        "",
        f"Consume TPS: {stats.consume_tps:.2f}",
        f"Consume Diff Total: {groups.total_behind(stats)}",
        f"Consume Inflight Total: {groups.total_inflight(stats)}",
    ]


@command("brokerConsumeStats")
async def broker_consume_stats(
    api: BrokerApi,
    broker: Annotated[
        str, Option("-b", "--brokerAddr", metavar="HOST:PORT", help="The broker's address.")
    ],
    timeout_ms: Annotated[
        int, Option("-t", "--timeoutMillis", metavar="MS", help="How long to wait.")
    ] = 50_000,
    level: Annotated[
        int, Option("-l", "--level", metavar="N", help="Only rows at least this far behind.")
    ] = 0,
    ordered: Annotated[
        str | None,
        Option("-o", "--order", metavar="true|false", help="Only ordered topics?"),
    ] = None,
) -> Report:
    """Fetch broker consume stats data."""
    found = await groups.broker_progress(
        api, broker, ordered=flag(ordered), timeout_s=timeout_ms / 1000
    )
    lines = [
        _BROKER_PROGRESS.format(
            *("#Topic", "#Group", "#Broker Name", "#QID"),
            *("#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime"),
        )
    ]
    for of_groups in found.consume_stats_list:
        for group, all_stats in of_groups.items():
            for stats in all_stats:
                lines += _broker_rows(group, stats, level)
    return Report(found.to_json(), [*lines, "", f"Diff Total: {found.total_diff}"])


def _broker_rows(group: str, stats: ConsumeStats, level: int) -> list[str]:
    rows = []
    for queue, offsets in sorted(stats.offset_table.items()):
        behind = offsets.broker_offset - offsets.consumer_offset
        if behind < level or offsets.last_timestamp <= 0 or is_retry_topic(queue.topic):
            continue
        rows.append(
            _BROKER_PROGRESS.format(
                *(queue.topic[:64], group[:64], queue.broker_name[:32], queue.queue_id),
                *(offsets.broker_offset, offsets.consumer_offset, behind),
                to_the_second(offsets.last_timestamp),
            )
        )
    return rows
