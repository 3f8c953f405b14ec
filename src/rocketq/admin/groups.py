"""Consumer and producer groups: their settings, who is connected, how far they have come."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError, UnknownTopic
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.common.errors import RocketqError
from rocketq.message.names import RETRY_PREFIX, dlq_topic, retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.assignment import SetMessageRequestMode
from rocketq.remoting.bodies.connections import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTable,
)
from rocketq.remoting.bodies.groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rocketq.remoting.bodies.running_info import ConsumerRunningInfo
from rocketq.remoting.bodies.stats import ConsumeStats, ConsumeStatsList
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import (
    DeleteSubscriptionGroup,
    GetBrokerConsumeStats,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetProducerConnectionList,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """One group in a line: who reads, how fast, how far behind."""

    group: str
    connection: ConsumerConnection | None
    consume_tps: float
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigAt:
    """A group's settings on one broker."""

    cluster: str
    broker_name: str
    config: SubscriptionGroupConfig


# Settings


async def create(api: BrokerApi, config: SubscriptionGroupConfig, addresses: Iterable[str]) -> None:
    """Make or change a group on brokers."""
    for address in addresses:
        await api.create_group(address, config)


async def create_list(
    api: BrokerApi, configs: Iterable[SubscriptionGroupConfig], address: str
) -> None:
    """Make or change many groups on a broker with one request."""
    body = SubscriptionGroupList(group_config_list=list(configs)).encode()
    await api.invoke(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body)


async def set_mode(
    api: BrokerApi, address: str, topic: str, group: str, mode: str, share: int
) -> None:
    """Have a group pull or pop a topic."""
    wanted = SetMessageRequestMode(
        topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
    )
    await api.invoke(address, RequestCode.SET_MESSAGE_REQUEST_MODE, wanted.encode())


async def delete(
    api: BrokerApi,
    group: str,
    *,
    broker: str | None,
    cluster: str | None,
    with_offsets: bool = False,
) -> list[str]:
    """Delete a group; in a whole cluster its topics for retries and dead letters go too."""
    addresses = await brokers.targets(api, broker, cluster)
    header = DeleteSubscriptionGroup(group_name=group, clean_offset=with_offsets)
    for address in addresses:
        await api.invoke(address, header)
    if not broker and cluster:
        for topic in (retry_topic(group), dlq_topic(group)):
            await topics.delete(api, topic, cluster)
    return addresses


async def configs(api: BrokerApi, group: str) -> list[GroupConfigAt]:
    """A group's settings on every broker that has it.

    Asked for with all others: a broker that is asked for one group by name makes it.
    """
    found = []
    for state in await brokers.states(api):
        if state.broker_id != brokers.MASTER_ID:
            continue
        reply = await api.invoke(state.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = SubscriptionGroupWrapper.decode(reply.body).subscription_group_table
        if group in table:
            found.append(
                GroupConfigAt(
                    cluster=state.cluster, broker_name=state.broker_name, config=table[group]
                )
            )
    return found


# Who is connected


async def consumer_connection(
    api: BrokerApi, group: str, *, broker: str | None = None
) -> ConsumerConnection:
    """The members of a consumer group, as one of its brokers sees them."""
    if broker is not None:
        return await _connection_at(api, broker, group)
    refusal: RocketqError | None = None
    for address in await _addresses_of(api, group):
        try:
            found = await _connection_at(api, address, group)
        except RocketqError as error:
            refusal = error
        else:
            return found
    raise refusal or AdminError(f"the consumer group {group} is not online")


async def _connection_at(api: BrokerApi, address: str, group: str) -> ConsumerConnection:
    reply = await api.invoke(address, GetConsumerConnectionList(consumer_group=group))
    return ConsumerConnection.decode(reply.body)


async def _addresses_of(api: BrokerApi, group: str) -> list[str]:
    """The brokers a group is at home on: those of its retry topic."""
    try:
        route = await topics.route(api, retry_topic(group))
    except UnknownTopic:
        raise AdminError(f"no broker knows the consumer group {group}") from None
    return topics.reading_addresses(route)


async def producer_connection(api: BrokerApi, group: str, topic: str) -> ProducerConnection:
    """The members of a producer group that sends to a topic."""
    header = GetProducerConnectionList(producer_group=group)
    refusal: RocketqError | None = None
    for address in topics.reading_addresses(await topics.route(api, topic)):
        try:
            reply = await api.invoke(address, header)
        except RocketqError as error:
            refusal = error
        else:
            return ProducerConnection.decode(reply.body)
    raise refusal or AdminError(f"the producer group {group} is not online")


async def producers(api: BrokerApi, address: str) -> ProducerTable:
    """All producers of a broker."""
    reply = await api.invoke(address, RequestCode.GET_ALL_PRODUCER_INFO)
    return ProducerTable.decode(reply.body)


# How far they have come


async def progress_of(api: BrokerApi, group: str, topic: str | None = None) -> ConsumeStats:
    """How far a group is behind in each queue."""
    addresses = await _addresses_of(api, group)
    tables = await asyncio.gather(
        *(api.consume_stats(address, group, topic=topic) for address in addresses)
    )
    return ConsumeStats(
        offset_table={q: offset for each in tables for q, offset in each.offset_table.items()},
        consume_tps=sum(each.consume_tps for each in tables),
    )


async def progress(api: BrokerApi) -> list[GroupProgress]:
    """All groups that have ever read, by how far they are behind."""
    groups = [
        topic.removeprefix(RETRY_PREFIX)
        for topic in await topics.names(api)
        if topic.startswith(RETRY_PREFIX)
    ]
    found = await asyncio.gather(*(_progress_of(api, group) for group in groups))
    return sorted(found, key=lambda each: each.behind, reverse=True)


async def _progress_of(api: BrokerApi, group: str) -> GroupProgress:
    try:
        stats = await progress_of(api, group)
    except RocketqError:
        stats = ConsumeStats()
    try:
        connection = await consumer_connection(api, group)
    except RocketqError:
        connection = None
    return GroupProgress(
        group=group,
        connection=connection,
        consume_tps=stats.consume_tps,
        behind=total_behind(stats),
    )


def total_behind(stats: ConsumeStats) -> int:
    return sum(o.broker_offset - o.consumer_offset for o in stats.offset_table.values())


def total_inflight(stats: ConsumeStats) -> int:
    """What was fetched and is not yet consumed."""
    return sum(o.pull_offset - o.consumer_offset for o in stats.offset_table.values())


async def clients_by_queue(api: BrokerApi, group: str) -> dict[MessageQueue, str]:
    """Which member reads which queue, asked of the members themselves."""
    try:
        connection = await consumer_connection(api, group)
        addresses = await _addresses_of(api, group)
    except RocketqError:
        return {}
    found = {}
    for member in connection.connection_set:
        info = await _running_info(api, addresses, group, member.client_id)
        if info is not None:
            found.update(dict.fromkeys(info.mq_table, member.client_id.split("@")[0]))
    return found


async def running_info(
    api: BrokerApi, group: str, client_id: str, *, broker: str | None = None, stacks: bool = False
) -> ConsumerRunningInfo:
    """What one member says about itself, asked through a broker that knows it."""
    header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=stacks)
    refusal: RocketqError | None = None
    for address in [broker] if broker else await _addresses_of(api, group):
        try:
            reply = await api.invoke(address, header)
        except RocketqError as error:
            refusal = error
        else:
            return ConsumerRunningInfo.decode(reply.body)
    raise refusal or AdminError(f"{client_id} is not connected")


async def _running_info(
    api: BrokerApi, addresses: Iterable[str], group: str, client_id: str
) -> ConsumerRunningInfo | None:
    header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=False)
    for address in addresses:
        try:
            reply = await api.invoke(address, header)
        except RocketqError:
            continue
        return ConsumerRunningInfo.decode(reply.body)
    return None


async def broker_progress(
    api: BrokerApi, address: str, *, ordered: bool = False, timeout_s: float = 50.0
) -> ConsumeStatsList:
    """How far every group of a broker is behind."""
    reply = await api.invoke(address, GetBrokerConsumeStats(is_order=ordered), timeout_s=timeout_s)
    return ConsumeStatsList.decode(reply.body)


def is_offline(error: RocketqError) -> bool:
    """Whether a broker refused because nobody of the group is connected."""
    return isinstance(error, BrokerRejected) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
