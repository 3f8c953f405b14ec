"""Sub-commands about topics."""

from typing import Annotated, Final

from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.cli.admin.command import (
    BrokerAddress,
    Cluster,
    Report,
    RouteCluster,
    Topic,
    command,
    either,
    flag,
)
from rocketq.cli.admin.java_text import map_text, topic_text
from rocketq.cli.admin.times import to_the_millisecond
from rocketq.cli.commands import Option, UsageError
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.route import TopicRouteData

_STATUS: Final = "{:<32}  {:<4}  {:<20}  {:<20}    {}"
_USE_HEAD: Final = "{:<20}  {:<48}  {:<48}"
_USE: Final = "{:<20}  {:<64}  {:<64}"
_ROUTE: Final = "{:<45} {:<32} {:<50} {:<10} {:<11} {:<5}"
_TRAFFIC: Final = "{:<64}  {:<64} {:>12} {:>11} {:>11} {:>14} {:>14}"

# Bits of a topic's system flag.
_UNIT: Final = 1
_UNIT_SUB: Final = 2


@command("topicList")
async def topic_list(
    api: BrokerApi,
    by_cluster: Annotated[
        bool, Option("-c", "--clusterModel", help="With clusters and consumer groups.")
    ] = False,
) -> Report:
    """Fetch all topic list from name server."""
    if not by_cluster:
        names = await topics.names(api)
        return Report(names, names)
    uses = await topics.uses(api)
    lines = [_USE_HEAD.format("#Cluster Name", "#Topic", "#Consumer Group")]
    lines += [
        _USE.format(use.cluster[:20], use.topic[:64], group[:64])
        for use in uses
        for group in use.groups or [""]
    ]
    data = [{"cluster": u.cluster, "topic": u.topic, "groups": list(u.groups)} for u in uses]
    return Report(data, lines)


@command("topicRoute")
async def topic_route(
    api: BrokerApi,
    topic: Topic,
    as_list: Annotated[bool, Option("-l", "--list", help="A line for each broker.")] = False,
) -> Report:
    """Examine topic route info."""
    route = await topics.route(api, topic)
    if not as_list:
        return Report(route.to_json(), [json.dumps_pretty(route.to_json()).decode()])
    return Report(route.to_json(), _route_lines(route))


def _route_lines(route: TopicRouteData) -> list[str]:
    head = _ROUTE.format(
        *("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    )
    queues = {each.broker_name: each for each in route.queue_datas}
    lines = [head]
    for broker in sorted(route.broker_datas, key=lambda each: each.broker_name):
        of_broker = queues[broker.broker_name]
        lines.append(
            _ROUTE.format(
                broker.cluster,
                broker.broker_name,
                map_text(broker.broker_addrs),
                of_broker.read_queue_nums,
                of_broker.write_queue_nums,
                of_broker.perm,
            )
        )
    lines.append("-" * len(head))
    total = (
        len(queues),
        "",
        sum(each.read_queue_nums for each in queues.values()),
        sum(each.write_queue_nums for each in queues.values()),
        "",
    )
    lines.append(_ROUTE.format("Total:", *total))
    return lines


@command("topicStatus")
async def topic_status(api: BrokerApi, topic: Topic, cluster: RouteCluster = None) -> Report:
    """Examine topic Status info."""
    status = await topics.status(api, topic)
    lines = [_STATUS.format("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")]
    data = []
    for queue, offsets in sorted(status.offset_table.items()):
        at = offsets.last_update_timestamp
        lines.append(
            _STATUS.format(
                queue.broker_name[:32],
                queue.queue_id,
                offsets.min_offset,
                offsets.max_offset,
                to_the_millisecond(at) if at > 0 else "",
            )
        )
        data.append({"brokerName": queue.broker_name, "queueId": queue.queue_id})
        data[-1] |= offsets.to_json()
    lines += ["", f"Topic Put TPS: {status.topic_put_tps}"]
    return Report({"queues": data, "topicPutTps": status.topic_put_tps}, lines)


@command("topicClusterList")
async def topic_cluster_list(api: BrokerApi, topic: Topic) -> Report:
    """Get cluster info for topic."""
    clusters = await topics.clusters_of(api, topic)
    return Report(clusters, clusters)


@command("updateTopic")
async def update_topic(
    api: BrokerApi,
    topic: Topic,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    read_queues: Annotated[
        int, Option("-r", "--readQueueNums", metavar="N", help="Queues to read from.")
    ] = 8,
    write_queues: Annotated[
        int, Option("-w", "--writeQueueNums", metavar="N", help="Queues to write to.")
    ] = 8,
    perm: Annotated[
        int, Option("-p", "--perm", metavar="PERM", help="2 write, 4 read, 6 both.")
    ] = 6,
    order: Annotated[
        str | None,
        Option("-o", "--order", metavar="true|false", help="Keep its queues in place."),
    ] = None,
    unit: Annotated[str | None, Option("-u", "--unit", hidden=True)] = None,
    unit_sub: Annotated[str | None, Option("-s", "--hasUnitSub", hidden=True)] = None,
    attributes: Annotated[
        str,
        Option("-a", "--attributes", metavar="+K=V,-K", help="Attributes to set or drop."),
    ] = "",
) -> Report:
    """Update or create topic."""
    either(broker, cluster)
    changes = dict(_attribute(part) for part in attributes.split(",") if part.strip())
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=perm,
        topic_sys_flag=_UNIT * flag(unit) + _UNIT_SUB * flag(unit_sub),
        order=flag(order),
        attributes=changes,
    )
    addresses = await brokers.targets(api, broker, cluster)
    await topics.create(api, config, addresses, attributes=attributes)
    created = [f"create topic to {address} success." for address in addresses]
    lines: list[str] = []
    conf = None
    if config.order and broker:
        name = await brokers.broker_name_of(api, broker)
        conf = await topics.merge_order_conf(api, topic, name, write_queues)
        lines = [f"set broker orderConf. isOrder=true, orderConf=[{conf}]", *created]
    elif config.order and cluster:
        names = [await brokers.broker_name_of(api, address) for address in addresses]
        conf = ";".join(f"{name}:{write_queues}" for name in names)
        await topics.put_order_conf(api, topic, conf)
        lines = [*created, f"set cluster orderConf. isOrder=true, orderConf=[{conf}]"]
    lines = [*(lines or created), topic_text(config)]
    data = {"addresses": addresses, "topicConfig": config.to_json(), "orderConf": conf}
    return Report(data, lines)


def _attribute(text: str) -> tuple[str, str]:
    """`+key=value` or `-key`; the sign stays with the key."""
    key, _, value = text.strip().partition("=")
    if key[:1] not in ("+", "-") or len(key) < 2:
        raise UsageError(f"{text}: write attributes as +key=value or -key")
    return key, value


@command("deleteTopic")
async def delete_topic(
    api: BrokerApi,
    topic: Topic,
    cluster: Annotated[str, Option("-c", "--clusterName", metavar="CLUSTER", help="The cluster.")],
) -> Report:
    """Delete topic from broker and NameServer."""
    await topics.delete(api, topic, cluster)
    lines = [
        f"delete topic [{topic}] from cluster [{cluster}] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    return Report({"topic": topic, "cluster": cluster}, lines)


@command("updateTopicPerm")
async def update_topic_perm(
    api: BrokerApi,
    topic: Topic,
    perm: Annotated[int, Option("-p", "--perm", metavar="PERM", help="2 write, 4 read, 6 both.")],
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Update topic perm."""
    either(broker, cluster)
    change = await topics.change_permission(api, topic, perm, broker=broker, cluster=cluster)
    data = {"old": change.old, "new": change.new, "addresses": list(change.addresses)}
    if not change.addresses:
        return Report(data, ["new perm equals to the old one!"])
    lines = [
        f"update topic perm from {change.old} to {change.new} in {address} success."
        for address in change.addresses
    ]
    if broker:
        lines.append(f"{topic_text(change.config)}.")
    return Report(data, lines)


@command("updateOrderConf")
async def update_order_conf(
    api: BrokerApi,
    topic: Topic,
    method: Annotated[str, Option("-m", "--method", metavar="put|get|delete", help="What to do.")],
    value: Annotated[
        str | None,
        Option("-v", "--orderConf", metavar="CONF", help="broker-a:8;broker-b:8"),
    ] = None,
) -> Report:
    """Create or update or delete order conf."""
    data = {"topic": topic, "orderConf": value}
    if method == "put":
        if not value:
            raise UsageError("please set orderConf with option -v.")
        await topics.put_order_conf(api, topic, value)
        line = f"update orderConf success. topic=[{topic}], orderConf=[{value}]"
    elif method == "get":
        value = data["orderConf"] = await topics.order_conf(api, topic)
        line = f"get orderConf success. topic=[{topic}], orderConf=[{value}] "
    elif method == "delete":
        await topics.delete_order_conf(api, topic)
        line = f"delete orderConf success. topic=[{topic}]"
    else:
        raise UsageError(f"-m {method}: it is put, get or delete")
    return Report(data, [line])


@command("allocateMQ")
async def allocate_mq(
    api: BrokerApi,
    topic: Topic,
    addresses: Annotated[
        str, Option("-i", "--ipList", metavar="IP,IP", help="The clients to share among.")
    ],
) -> Report:
    """Allocate MQ."""
    clients = [each.strip() for each in addresses.split(",") if each.strip()]
    shares = await topics.allocation(api, topic, clients)
    data = {
        "result": {
            client: [
                {"brokerName": q.broker_name, "queueId": q.queue_id, "topic": q.topic}
                for q in queues
            ]
            for client, queues in shares.items()
        }
    }
    return Report(data, [json.dumps(data).decode()])


@command("statsAll")
async def stats_all(
    api: BrokerApi,
    active_only: Annotated[
        bool, Option("-a", "--activeTopic", help="Only topics with traffic.")
    ] = False,
    topic: Annotated[
        str | None, Option("-t", "--topic", metavar="TOPIC", help="Only this topic.")
    ] = None,
) -> Report:
    """Topic and Consumer tps stats."""
    rows = await topics.traffic(api, only=topic, active_only=active_only)
    lines = [
        _TRAFFIC.format(
            *("#Topic", "#Consumer Group", "#Accumulation"),
            *("#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour"),
        )
    ]
    for each in rows:
        nobody = each.group is None
        lines.append(
            _TRAFFIC.format(
                each.topic[:64],
                (each.group or "")[:64],
                each.accumulation,
                f"{each.in_tps:.2f}",
                "" if nobody else f"{each.out_tps:.2f}",
                each.in_today,
                "NO_CONSUMER" if nobody else each.out_today,
            )
        )
    data = [
        {
            "topic": each.topic,
            "group": each.group,
            "accumulation": each.accumulation,
            "inTps": each.in_tps,
            "outTps": each.out_tps,
            "inToday": each.in_today,
            "outToday": each.out_today,
        }
        for each in rows
    ]
    return Report(data, lines)
