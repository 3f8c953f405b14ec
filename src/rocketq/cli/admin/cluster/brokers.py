"""Sub-commands about brokers and clusters."""

import time
from collections.abc import AsyncIterator
from typing import Annotated, Final

from rocketq.admin.cluster import brokers
from rocketq.admin.cluster.brokers import BrokerState
from rocketq.cli.admin.command import (
    BrokerAddress,
    Cluster,
    Interval,
    Report,
    Rounds,
    again_and_again,
    command,
    either,
)
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

_HEAD: Final = (
    "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:<11}  {:<12}  {:<8}  {:<10}"
)
_ROW: Final = (
    "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:>11}  {:<12}  {:<8}  {:>10}"
)
_MORE: Final = "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}"


@command("clusterList")
async def cluster_list(
    api: BrokerApi,
    more: Annotated[
        bool, Option("-m", "--moreStats", help="Totals of yesterday and today.")
    ] = False,
    cluster: Annotated[
        str | None, Option("-c", "--clusterName", metavar="CLUSTER", help="Only this one.")
    ] = None,
    interval: Interval = None,
    rounds: Rounds = 0,
) -> AsyncIterator[Report]:
    """List cluster infos."""

    async def look() -> Report:
        states = await brokers.states(api, cluster)
        data = [
            {
                "cluster": each.cluster,
                "brokerName": each.broker_name,
                "brokerId": each.broker_id,
                "address": each.address,
                "runtime": dict(each.runtime),
            }
            for each in states
        ]
        return Report(data, _more_lines(states) if more else _state_lines(states))

    async for report in again_and_again(look, interval or 0, rounds if interval else 1):
        yield report


def _state_lines(states: list[BrokerState]) -> list[str]:
    lines = [
        _HEAD.format(
            *("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)"),
            *("#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE"),
            "#ACTIVATED",
        )
    ]
    now_ms = time.time() * 1000
    for each in states:
        text = each.runtime.get
        transferred = "getTransferredTps" if text("getTransferredTps") else "getTransferedTps"
        lines.append(
            _ROW.format(
                each.cluster,
                each.broker_name,
                each.broker_id,
                each.address,
                text("brokerVersionDesc", ""),
                f"{each.number('putTps'):9.2f}({text('sendThreadPoolQueueSize', '')},"
                f"{text('sendThreadPoolQueueHeadWaitTimeMills', '')}ms)",
                f"{each.number(transferred):9.2f}({text('pullThreadPoolQueueSize', '')},"
                f"{text('pullThreadPoolQueueHeadWaitTimeMills', '')}ms"
                f"|{text('ackThreadPoolQueueSize', 'N')},"
                f"{text('ackThreadPoolQueueHeadWaitTimeMills', 'N')}ms)",
                f"{each.number('timerReadBehind'):.0f}-{each.number('timerOffsetBehind'):.0f}"
                f"({each.number('timerCongestNum') / 10_000:.1f}w, "
                f"{each.number('timerEnqueueTps'):.1f}, {each.number('timerDequeueTps'):.1f})",
                text("pageCacheLockTimeMills", ""),
                f"{(now_ms - each.number('earliestMessageTimeStamp')) / 3_600_000:2.2f}",
                f"{each.number('commitLogDiskRatio'):.4f}",
                text("brokerActive", "false"),
            )
        )
    return lines


def _more_lines(states: list[BrokerState]) -> list[str]:
    lines = [
        _MORE.format(
            *("#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest"),
            *("#InTotalToday", "#OutTotalToday"),
        )
    ]
    for each in states:
        if each.broker_id != brokers.MASTER_ID:
            continue
        totals = [
            each.number(f"{kind}{later}") - each.number(f"{kind}{earlier}")
            for earlier, later in (
                ("YesterdayMorning", "TodayMorning"),
                ("TodayMorning", "TodayNow"),
            )
            for kind in ("msgPutTotal", "msgGetTotal")
        ]
        lines.append(_MORE.format(each.cluster, each.broker_name, *(f"{t:.0f}" for t in totals)))
    return lines


@command("brokerStatus")
async def broker_status(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Fetch broker runtime status data."""
    either(broker, cluster)
    if broker:
        table = await brokers.runtime_info(api, broker)
        return Report(table, [f"{key:<32}: {value}" for key, value in table.items()])
    assert cluster is not None
    data, lines = {}, []
    for address in await brokers.every_address(api, cluster):
        table = data[address] = await brokers.runtime_info(api, address)
        lines += [f"{address:<24} {key:<32}: {value}" for key, value in table.items()]
    return Report(data, lines)


@command("getBrokerConfig")
async def get_broker_config(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Get broker config by cluster or special broker."""
    either(broker, cluster)
    headings = {}
    if broker:
        headings[broker] = f"============{broker}============"
    else:
        assert cluster is not None
        for master, slaves in await brokers.groups_of_cluster(api, cluster):
            if master is not None:
                headings[master] = f"============Master: {master}============"
            for slave in slaves:
                mine = master or "NO_MASTER"
                headings[slave] = f"============My Master: {mine}=====Slave: {slave}============"
    data, lines = {}, []
    for address, heading in headings.items():
        config = data[address] = await brokers.config(api, address)
        lines += [heading, *(f"{key:<50}=  {value}" for key, value in config.items()), ""]
    return Report(data, lines)


@command("updateBrokerConfig")
async def update_broker_config(
    api: BrokerApi,
    key: Annotated[str, Option("-k", "--key", metavar="KEY", help="The option.")],
    value: Annotated[str, Option("-v", "--value", metavar="VALUE", help="Its value.")],
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    slaves_too: Annotated[
        str | None,
        Option("-a", "--updateAllBroker", metavar="true", help="Slaves of the cluster too."),
    ] = None,
) -> Report:
    """Update broker's config."""
    either(broker, cluster)
    # As with RocketMQ it is enough that the option is there.
    chosen = brokers.targets if slaves_too is None else brokers.every_target
    addresses = await chosen(api, broker, cluster)
    for address in addresses:
        await brokers.update_config(api, address, key, value)
    lines = [f"update broker config success, {address}" for address in addresses]
    return Report({"key": key, "value": value, "addresses": addresses}, lines)


async def _clean(api: BrokerApi, kind: str, broker: str | None, cluster: str | None) -> Report:
    """Run one of the cleanings where it is wanted; without a place, everywhere."""
    clean = {
        "queues": brokers.clean_expired_queues,
        "topics": brokers.clean_unused_topics,
        "log": brokers.delete_expired_log,
    }[kind]
    if broker or cluster:
        addresses = await brokers.targets(api, broker, cluster)
    else:
        of_clusters = [await brokers.masters(api, each) for each in await brokers.clusters(api)]
        addresses = [address for masters in of_clusters for address in masters]
    for address in addresses:
        await clean(api, address)
    return Report({"addresses": addresses}, ["success"])


@command("cleanExpiredCQ")
async def clean_expired_cq(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Clean expired ConsumeQueue on broker."""
    return await _clean(api, "queues", broker, cluster)


@command("cleanUnusedTopic")
async def clean_unused_topic(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Clean unused topic on broker."""
    return await _clean(api, "topics", broker, cluster)


@command("deleteExpiredCommitLog")
async def delete_expired_commit_log(
    api: BrokerApi, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Delete expired CommitLog files."""
    return await _clean(api, "log", broker, cluster)
