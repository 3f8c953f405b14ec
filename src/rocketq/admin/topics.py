"""Topics: made, changed, deleted, looked at."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError, UnknownTopic
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.consumer.allocation import Average
from rocketq.common.errors import RocketqError
from rocketq.message.flags import Permission
from rocketq.message.names import AUTO_CREATE_TOPIC, is_dlq_topic, is_retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.groups import GroupList
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigList
from rocketq.remoting.bodies.route import BrokerData, TopicRouteData
from rocketq.remoting.bodies.stats import BrokerStatsData, TopicStatsTable
from rocketq.remoting.headers import (
    CreateTopic,
    CreateTopicList,
    QueryTopicConsumeByWho,
    ViewBrokerStatsData,
)

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """A topic, where it lives and who reads it."""

    topic: str
    cluster: str
    groups: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTraffic:
    """How much goes into a topic and how much one group takes out; no group, no taking."""

    topic: str
    group: str | None
    accumulation: int
    in_tps: float
    out_tps: float
    in_today: int
    out_today: int


@dataclass(frozen=True, slots=True)
class PermissionChange:
    """What became of a change of permission."""

    old: int
    new: int
    addresses: Sequence[str]
    config: TopicConfig


# What there is


async def names(api: BrokerApi) -> list[str]:
    """Every topic a NameServer knows."""
    return await api.topic_names()


async def route(api: BrokerApi, topic: str) -> TopicRouteData:
    found = await api.route(topic)
    if found is None:
        raise UnknownTopic(topic)
    return found


async def clusters_of(api: BrokerApi, topic: str) -> list[str]:
    """The clusters that serve a topic."""
    return sorted({broker.cluster for broker in (await route(api, topic)).broker_datas})


async def groups_of(api: BrokerApi, topic: str) -> list[str]:
    """The groups that read a topic, online or not."""
    return await _groups(api, topic, await route(api, topic))


async def _groups(api: BrokerApi, topic: str, of_route: TopicRouteData) -> list[str]:
    header = QueryTopicConsumeByWho(topic=topic)
    replies = await asyncio.gather(
        *(api.invoke(address, header) for address in reading_addresses(of_route))
    )
    found = {group for reply in replies for group in GroupList.decode(reply.body).group_list}
    return sorted(found)


def reading_addresses(of_route: TopicRouteData) -> list[str]:
    """One address of each broker name: the master's where there is one."""
    return [_best_address(broker) for broker in of_route.broker_datas if broker.broker_addrs]


def _best_address(broker: BrokerData) -> str:
    return broker.broker_addrs[min(broker.broker_addrs)]


async def uses(api: BrokerApi) -> list[TopicUse]:
    """Every topic with its clusters and groups; those for retries and dead letters left out."""
    found = []
    for topic in await names(api):
        if is_retry_topic(topic) or is_dlq_topic(topic):
            continue
        of_topic = await api.route(topic)
        if of_topic is None:  # it was deleted meanwhile
            continue
        groups = await _groups(api, topic, of_topic)
        clusters = sorted({broker.cluster for broker in of_topic.broker_datas})
        found += [TopicUse(topic=topic, cluster=each, groups=groups) for each in clusters]
    return found


async def status(api: BrokerApi, topic: str) -> TopicStatsTable:
    """The ends of all queues of a topic."""
    addresses = reading_addresses(await route(api, topic))
    tables = await asyncio.gather(*(api.topic_stats(address, topic) for address in addresses))
    return TopicStatsTable(
        offset_table={q: offset for each in tables for q, offset in each.offset_table.items()},
        topic_put_tps=sum(each.topic_put_tps for each in tables),
    )


def readable_queues(topic: str, of_route: TopicRouteData) -> list[MessageQueue]:
    """The queues consumers may read, in order."""
    return sorted(
        MessageQueue(topic, queues.broker_name, number)
        for queues in of_route.queue_datas
        if queues.perm & Permission.READ
        for number in range(queues.read_queue_nums)
    )


async def allocation(
    api: BrokerApi, topic: str, addresses: Sequence[str]
) -> dict[str, list[MessageQueue]]:
    """How the usual strategy would share a topic's queues among these clients."""
    queues = readable_queues(topic, await route(api, topic))
    return {each: Average().allocate(each, queues, addresses) for each in addresses}


async def traffic(
    api: BrokerApi, *, only: str | None = None, active_only: bool = False
) -> list[TopicTraffic]:
    """Figures of every topic and group."""
    found: list[TopicTraffic] = []
    for topic in await names(api):
        if is_retry_topic(topic) or is_dlq_topic(topic) or (only is not None and topic != only):
            continue
        of_route = await api.route(topic)
        if of_route is not None:
            found += await _traffic_of(api, topic, of_route)
    if active_only:
        found = [each for each in found if each.in_today > 0 or each.out_today > 0]
    return found


async def _traffic_of(api: BrokerApi, topic: str, of_route: TopicRouteData) -> list[TopicTraffic]:
    addresses = reading_addresses(of_route)
    in_tps, in_today = await _figures(api, addresses, "TOPIC_PUT_NUMS", topic)
    rows = []
    for group in await _groups(api, topic, of_route):
        out_tps, out_today = await _figures(api, addresses, "GROUP_GET_NUMS", f"{topic}@{group}")
        row = TopicTraffic(
            topic=topic,
            group=group,
            accumulation=await _accumulation(api, addresses, topic, group),
            in_tps=in_tps,
            out_tps=out_tps,
            in_today=in_today,
            out_today=out_today,
        )
        rows.append(row)
    if not rows:
        nobody = TopicTraffic(
            topic=topic,
            group=None,
            accumulation=0,
            in_tps=in_tps,
            out_tps=0.0,
            in_today=in_today,
            out_today=0,
        )
        rows.append(nobody)
    return rows


async def _figures(
    api: BrokerApi, addresses: Iterable[str], name: str, key: str
) -> tuple[float, int]:
    """A rate and a day's sum over all brokers; one that has counted nothing says no."""
    tps, today = 0.0, 0
    for address in addresses:
        try:
            reply = await api.invoke(address, ViewBrokerStatsData(stats_name=name, stats_key=key))
        except RocketqError:
            continue
        figures = BrokerStatsData.decode(reply.body)
        tps += figures.stats_minute.tps
        # Day and hour are summed at their own pace: the longest period that has anything.
        today += figures.stats_day.sum or figures.stats_hour.sum or figures.stats_minute.sum
    return tps, today


async def _accumulation(api: BrokerApi, addresses: Iterable[str], topic: str, group: str) -> int:
    behind = 0
    for address in addresses:
        try:
            stats = await api.consume_stats(address, group, topic=topic)
        except RocketqError:
            continue
        behind += sum(o.broker_offset - o.consumer_offset for o in stats.offset_table.values())
    return max(behind, 0)


# Changes


async def create(
    api: BrokerApi, config: TopicConfig, addresses: Iterable[str], *, attributes: str = ""
) -> None:
    """Make or change a topic on brokers; `attributes` are `+key=value,-key`."""
    header = CreateTopic(
        topic=config.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=attributes,
    )
    for address in addresses:
        await api.invoke(address, header)


async def create_list(api: BrokerApi, configs: Iterable[TopicConfig], address: str) -> None:
    """Make or change many topics on a broker with one request."""
    body = TopicConfigList(topic_config_list=list(configs)).encode()
    await api.invoke(address, CreateTopicList(), body)


async def delete(api: BrokerApi, topic: str, cluster: str) -> None:
    """Delete a topic on every master of a cluster, then at every NameServer."""
    for address in await brokers.masters(api, cluster):
        await api.delete_topic(address, topic)
    await api.delete_topic_in_name_servers(topic, cluster=cluster)


async def change_permission(
    api: BrokerApi, topic: str, perm: int, *, broker: str | None, cluster: str | None
) -> PermissionChange:
    """Set a topic's permission where it lives; queue counts are those of its first broker."""
    of_route = await route(api, topic)
    first = of_route.queue_datas[0]
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=first.read_queue_nums,
        write_queue_nums=first.write_queue_nums,
        topic_sys_flag=first.topic_sys_flag,
        perm=perm,
    )
    if perm == first.perm:
        return PermissionChange(first.perm, perm, (), config)
    addresses = await brokers.targets(api, broker, cluster)
    known = {each.broker_addrs.get(brokers.MASTER_ID) for each in of_route.broker_datas}
    if broker and broker not in known:
        raise AdminError(f"{broker} is not a master that serves {topic}")
    await create(api, config, addresses)
    return PermissionChange(first.perm, perm, addresses, config)


# Ordered topics


async def order_conf(api: BrokerApi, topic: str) -> str | None:
    """Which brokers an ordered topic's queues are on: `broker-a:8;broker-b:8`."""
    return await api.kv_config(ORDER_NAMESPACE, topic)


async def put_order_conf(api: BrokerApi, topic: str, value: str) -> None:
    await api.put_kv_config(ORDER_NAMESPACE, topic, value)


async def merge_order_conf(api: BrokerApi, topic: str, broker_name: str, queues: int) -> str:
    """Set one broker's share, keeping those of others."""
    shares = dict(
        part.rsplit(":", 1) for part in (await order_conf(api, topic) or "").split(";") if part
    )
    shares[broker_name] = str(queues)
    value = ";".join(f"{name}:{count}" for name, count in shares.items())
    await put_order_conf(api, topic, value)
    return value


async def delete_order_conf(api: BrokerApi, topic: str) -> None:
    await api.delete_kv_config(ORDER_NAMESPACE, topic)
