"""Brokers and clusters: who is there, how they are doing, what they are told."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from rocketq.admin.errors import AdminError, UnknownBroker, UnknownCluster
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.config import parse_properties
from rocketq.common.errors import RocketqError
from rocketq.remoting.bodies.route import ClusterInfo, KVTable
from rocketq.remoting.codes import RequestCode

MASTER_ID = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """One broker as `clusterList` shows it; `runtime` is empty when it does not answer."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    runtime: Mapping[str, str]

    def number(self, key: str) -> float:
        """A figure of its runtime table, 0 when it is missing; of a row the first."""
        words = self.runtime.get(key, "").split()
        try:
            return float(words[0])
        except (IndexError, ValueError):
            return 0.0


# Who is there


async def clusters(api: BrokerApi) -> list[str]:
    return sorted((await api.cluster_info()).cluster_addr_table)


async def masters(api: BrokerApi, cluster: str) -> list[str]:
    """The addresses of all masters of a cluster."""
    return [master for master, _ in await groups_of_cluster(api, cluster) if master is not None]


async def groups_of_cluster(api: BrokerApi, cluster: str) -> list[tuple[str | None, list[str]]]:
    """A cluster's brokers: each master's address and those of its slaves."""
    info = await api.cluster_info()
    names = info.cluster_addr_table.get(cluster)
    if not names:
        raise UnknownCluster(cluster, sorted(info.cluster_addr_table))
    groups = []
    for name in sorted(names):
        addresses = info.broker_addr_table[name].broker_addrs
        slaves = [addresses[i] for i in sorted(addresses) if i != MASTER_ID]
        groups.append((addresses.get(MASTER_ID), slaves))
    return groups


async def every_address(api: BrokerApi, cluster: str) -> list[str]:
    """The addresses of all brokers of a cluster, slaves too."""
    groups = await groups_of_cluster(api, cluster)
    return [each for master, slaves in groups for each in (master, *slaves) if each is not None]


async def names_of_cluster(api: BrokerApi, cluster: str) -> list[str]:
    """The names of a cluster's brokers."""
    info = await api.cluster_info()
    if cluster not in info.cluster_addr_table:
        raise UnknownCluster(cluster, sorted(info.cluster_addr_table))
    return sorted(info.cluster_addr_table[cluster])


async def every_address_of(api: BrokerApi, broker_name: str) -> list[str]:
    """The addresses of all brokers of one name, the master's first."""
    broker = (await api.cluster_info()).broker_addr_table.get(broker_name)
    if broker is None:
        raise UnknownBroker(broker_name)
    return [broker.broker_addrs[number] for number in sorted(broker.broker_addrs)]


async def addresses(api: BrokerApi) -> list[str]:
    """One address of each broker name: the master's where there is one."""
    table = (await api.cluster_info()).broker_addr_table
    found = [table[name].broker_addrs for name in sorted(table)]
    return [each[min(each)] for each in found if each]


async def targets(api: BrokerApi, broker: str | None, cluster: str | None) -> list[str]:
    """Where a request goes: to the one broker named, or to all masters of a cluster."""
    if broker:
        return [broker]
    if not cluster:
        raise AdminError("name a broker (-b) or a cluster (-c)")
    return await masters(api, cluster)


async def every_target(api: BrokerApi, broker: str | None, cluster: str | None) -> list[str]:
    """The same for what each broker keeps for itself: slaves of a cluster are meant, too."""
    if cluster and not broker:
        return await every_address(api, cluster)
    return await targets(api, broker, cluster)


async def broker_name_of(api: BrokerApi, address: str) -> str:
    for name, broker in (await api.cluster_info()).broker_addr_table.items():
        if address in broker.broker_addrs.values():
            return name
    raise UnknownBroker(address)


async def address_of(api: BrokerApi, broker_name: str) -> str:
    """The master's address of a broker name, or a slave's when there is no master."""
    broker = (await api.cluster_info()).broker_addr_table.get(broker_name)
    if broker is None:
        raise UnknownBroker(broker_name)
    return broker.broker_addrs[min(broker.broker_addrs)]


# How they are doing


async def states(api: BrokerApi, cluster: str | None = None) -> list[BrokerState]:
    """Every broker, or every broker of a cluster; they are asked at the same time."""
    info = await api.cluster_info()
    if cluster is not None and cluster not in info.cluster_addr_table:
        raise UnknownCluster(cluster, sorted(info.cluster_addr_table))
    members = _members(info, cluster)
    tables = await asyncio.gather(*(_runtime_or_nothing(api, address) for *_, address in members))
    return [
        BrokerState(
            cluster=of_cluster,
            broker_name=name,
            broker_id=broker_id,
            address=address,
            runtime=table,
        )
        for (of_cluster, name, broker_id, address), table in zip(members, tables, strict=True)
    ]


def _members(info: ClusterInfo, cluster: str | None) -> list[tuple[str, str, int, str]]:
    return [
        (each, name, broker_id, address)
        for each, names in sorted(info.cluster_addr_table.items())
        if cluster is None or each == cluster
        for name in sorted(names)
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


async def _runtime_or_nothing(api: BrokerApi, address: str) -> Mapping[str, str]:
    try:
        return await runtime_info(api, address)
    except RocketqError:
        return {}


async def runtime_info(api: BrokerApi, address: str) -> dict[str, str]:
    """A broker's own figures, by name."""
    reply = await api.invoke(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return dict(sorted(KVTable.decode(reply.body).table.items()))


# What they are told


async def config(api: BrokerApi, address: str) -> dict[str, str]:
    """All options of a broker."""
    reply = await api.invoke(address, RequestCode.GET_BROKER_CONFIG)
    return parse_properties(bytes(reply.body).decode())


async def update_config(api: BrokerApi, address: str, key: str, value: str) -> None:
    text = f"{key}={value}\n"
    await api.invoke(address, RequestCode.UPDATE_BROKER_CONFIG, text.encode())


async def clean_expired_queues(api: BrokerApi, address: str) -> None:
    """Remove the parts of consume queues whose messages are gone."""
    await api.invoke(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)


async def clean_unused_topics(api: BrokerApi, address: str) -> None:
    """Remove the queues of topics that no longer exist."""
    await api.invoke(address, RequestCode.CLEAN_UNUSED_TOPIC)


async def delete_expired_log(api: BrokerApi, address: str) -> None:
    """Delete commit log files that are older than they must be kept."""
    await api.invoke(address, RequestCode.DELETE_EXPIRED_COMMITLOG)
