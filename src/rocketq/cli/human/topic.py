"""`rocketq topic`: list, describe, create, delete."""

from typing import Annotated

from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report
from rocketq.cli.commands import Option
from rocketq.cli.human.tables import (
    ClusterName,
    Everything,
    TopicName,
    commands,
    is_hidden,
    listed,
    moment,
    own_names,
    rows,
    the_cluster,
)
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.registration import TopicConfig


async def list_topics(api: BrokerApi, everything: Everything = False) -> Report:
    """Which topics there are, how many queues and messages each has."""
    own = await own_names(api)
    names = [
        name for name in sorted(await topics.names(api)) if everything or not is_hidden(name, own)
    ]
    found = []
    for name in names:
        ends = (await topics.status(api, name)).offset_table.values()
        count = sum(each.max_offset - each.min_offset for each in ends)
        last = max((each.last_update_timestamp for each in ends), default=0)
        found.append((name, len(ends), count, moment(last)))
    return listed(("topic", "queues", "messages", "last stored"), found)


async def describe(api: BrokerApi, topic: TopicName) -> Report:
    """A topic's queues, and who reads it."""
    status = await topics.status(api, topic)
    groups = await topics.groups_of(api, topic)
    queues = [
        (
            queue.broker_name,
            queue.queue_id,
            ends.min_offset,
            ends.max_offset,
            moment(ends.last_update_timestamp),
        )
        for queue, ends in sorted(status.offset_table.items())
    ]
    table = listed(("broker", "queue", "first", "end", "last stored"), queues)
    lines = [*table.lines, "", f"read by: {', '.join(sorted(groups)) or 'no group'}"]
    return Report({"topic": topic, "queues": table.data, "groups": sorted(groups)}, lines)


async def create(
    api: BrokerApi,
    topic: TopicName,
    queues: Annotated[
        int, Option("-q", "--queues", metavar="N", minimum=1, help="Queues on each broker.")
    ] = 8,
    kind: Annotated[
        str | None,
        Option(
            "--type",
            metavar="KIND",
            choices=("NORMAL", "FIFO", "DELAY", "TRANSACTION"),
            help="NORMAL, FIFO, DELAY or TRANSACTION: what may be sent there.",
        ),
    ] = None,
    cluster: ClusterName = None,
) -> Report:
    """Make a topic, or change its number of queues."""
    name = await the_cluster(api, cluster)
    config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
    addresses = await brokers.masters(api, name)
    attributes = f"+message.type={kind}" if kind else ""
    await topics.create(api, config, addresses, attributes=attributes)
    text = f"{topic} has {queues} queues on {', '.join(addresses)}"
    return Report({"topic": topic, "queues": queues, "brokers": addresses}, [text])


async def delete(api: BrokerApi, topic: TopicName, cluster: ClusterName = None) -> Report:
    """Delete a topic and its messages."""
    if topic not in await topics.names(api):
        raise AdminError(f"there is no topic {topic}")
    name = await the_cluster(api, cluster)
    await topics.delete(api, topic, name)
    return Report({"topic": topic}, [f"{topic} is deleted"])


async def where(api: BrokerApi, topic: TopicName) -> Report:
    """Which brokers hold a topic, with how many queues."""
    route = await topics.route(api, topic)
    addresses = {each.broker_name: each.broker_addrs for each in route.broker_datas}
    found = [
        (
            each.broker_name,
            each.write_queue_nums,
            each.read_queue_nums,
            " ".join(addresses.get(each.broker_name, {}).values()),
        )
        for each in route.queue_datas
    ]
    titles = ("broker", "write queues", "read queues", "addresses")
    return Report(listed(titles, found).data, rows([t.upper() for t in titles], found))


run = commands(
    "List, describe, create and delete topics.",
    {
        "list": list_topics,
        "describe": describe,
        "create": create,
        "delete": delete,
        "where": where,
    },
)
