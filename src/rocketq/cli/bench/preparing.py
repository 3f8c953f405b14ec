"""What a load needs before it can begin, and what is cleared away after it."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rocketq.admin import connected, groups, messages
from rocketq.admin import topics as admin_topics
from rocketq.admin.cluster import brokers
from rocketq.cli.failures import CannotStart
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig


async def make_topics(name_servers: str, topics: Sequence[str], queues: int | None) -> None:
    """Make the topics with a number of queues, on every master; nothing unless it is given."""
    if queues is None:
        return
    async with connected(name_servers) as api:
        for topic in topics:
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            for addresses in (await _masters(name_servers, api)).values():
                await admin_topics.create(api, config, addresses)


@asynccontextmanager
async def temporary_group(name_servers: str, topics: Sequence[str] = ()) -> AsyncIterator[str]:
    """A consumer group for the length of a block; of `topics` it begins after what there is.

    That has to be said to the brokers: they have new groups of young topics read everything,
    whatever the consumers ask for.
    """
    group = f"rocketq-bench-{time.time_ns() // 1_000}"
    async with connected(name_servers) as api:
        masters = await _masters(name_servers, api)
        for addresses in masters.values():
            await groups.create(api, SubscriptionGroupConfig(group_name=group), addresses)
        for topic in topics:
            for part in await messages.ranges(api, topic):
                await api.update_offset(part.address, group, part.queue, part.end, oneway=False)
        try:
            yield group
        finally:
            for cluster in masters:
                await groups.delete(api, group, broker=None, cluster=cluster, with_offsets=True)


async def backlog(name_servers: str, topics: Sequence[str], group: str | None) -> int:
    """How many messages a group has before it; all there are, for one that is new."""
    total = 0
    async with connected(name_servers) as api:
        for topic in topics:
            for part in await messages.ranges(api, topic):
                begin = part.begin
                if group is not None:
                    reached = await api.query_offset(part.address, group, part.queue)
                    begin = max(begin, reached or 0)
                total += max(part.end - begin, 0)
    return total


async def _masters(name_servers: str, api: BrokerApi) -> dict[str, list[str]]:
    """Addresses of masters by cluster."""
    found = {
        cluster: await brokers.masters(api, cluster) for cluster in await brokers.clusters(api)
    }
    if not any(found.values()):
        raise CannotStart(f"NameServer {name_servers} knows of no broker")
    return found
