"""What a cluster is made of and does, in one piece: to keep, to compare, to move elsewhere."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.names import is_dlq_topic, is_retry_topic, is_system_group, is_system_topic
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigWrapper
from rocketq.remoting.codes import RequestCode

# The settings that tell how a broker is used; others are of no use elsewhere.
_TELLING: Final = (
    "brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums"
    " flushDiskType maxMessageSize messageDelayLevel msgTraceTopicName slaveReadEnable traceOn"
    " traceTopicEnable useTLS autoCreateTopicEnable autoCreateSubscriptionGroup"
).split()


# Topics and groups


async def topic_table(
    api: BrokerApi, address: str, *, special: bool = False
) -> dict[str, TopicConfig]:
    """A broker's topics without those of the system; `special` leaves retry and dead letters in."""
    reply = await api.invoke(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    table = TopicConfigWrapper.decode(reply.body).topic_config_table
    own = await _own_names(api)
    return {
        name: config
        for name, config in table.items()
        if not is_system_topic(name)
        and name not in own
        and (special or not (is_retry_topic(name) or is_dlq_topic(name)))
    }


async def group_table(api: BrokerApi, address: str) -> dict[str, SubscriptionGroupConfig]:
    """A broker's groups without those of the system."""
    reply = await api.invoke(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = SubscriptionGroupWrapper.decode(reply.body).subscription_group_table
    return {name: config for name, config in table.items() if not is_system_group(name)}


async def metadata(
    api: BrokerApi, addresses: Iterable[str], *, special: bool = False
) -> dict[str, Any]:
    """Topics and groups of several brokers as one: the numbers of queues are added up."""
    all_topics: dict[str, dict[str, Any]] = {}
    all_groups: dict[str, Any] = {}
    for address in addresses:
        for name, config in (await topic_table(api, address, special=special)).items():
            data = config.to_json()
            if name in all_topics:
                for key in ("readQueueNums", "writeQueueNums"):
                    data[key] += all_topics[name][key]
            all_topics[name] = data
        for name, group in (await group_table(api, address)).items():
            all_groups.setdefault(name, group.to_json())
    return {
        "topicConfigTable": all_topics,
        "subscriptionGroupTable": all_groups,
        "exportTime": int(time.time() * 1000),
    }


async def _own_names(api: BrokerApi) -> set[str]:
    info = await api.cluster_info()
    return {*info.cluster_addr_table, *info.broker_addr_table}


# Settings


async def configs(api: BrokerApi, cluster: str) -> dict[str, Any]:
    """The telling settings of each master, and how large the cluster is."""
    found: dict[str, dict[str, str]] = {}
    groups = await brokers.groups_of_cluster(api, cluster)
    for master, _ in groups:
        if master is None:
            continue
        settings = await brokers.config(api, master)
        name = settings.get("brokerName", master)
        found[name] = {key: settings[key] for key in _TELLING if key in settings}
    return {
        "brokerConfigs": found,
        "clusterScale": {
            "namesrvSize": len(api.name_servers.addresses),
            "masterBrokerSize": sum(master is not None for master, _ in groups),
            "slaveBrokerSize": sum(len(slaves) for _, slaves in groups),
        },
    }


# Figures


async def metrics(api: BrokerApi, cluster: str) -> dict[str, Any]:
    """How much each broker has and does, and all of them together."""
    reports: dict[str, Any] = {}
    totals = {"inTps": 0.0, "outTps": 0.0, "inToday": 0, "outToday": 0}
    for state in await brokers.states(api, cluster):
        if state.broker_id != brokers.MASTER_ID:
            continue
        topics = await topic_table(api, state.address)
        groups = await group_table(api, state.address)
        into, out = state.number("putTps"), state.number("getTransferredTps")
        in_today = _since(state.runtime, "msgPutTotal")
        out_today = _since(state.runtime, "msgGetTotal")
        reports[state.broker_name] = {
            "runtimeEnv": {"bootTimestamp": state.runtime.get("bootTimestamp")},
            "runtimeQuota": {
                "diskRatio": {
                    "commitLogDiskRatio": state.number("commitLogDiskRatio"),
                    "consumeQueueDiskRatio": state.number("consumeQueueDiskRatio"),
                },
                "tps": {"normalInTps": into, "normalOutTps": out},
                "oneDayNum": {"normalOneDayInNum": in_today, "normalOneDayOutNum": out_today},
                "messageAverageSize": state.number("putMessageAverageSize"),
                "topicSize": len(topics),
                "groupSize": len(groups),
            },
            "runtimeVersion": {"rocketmqVersion": state.runtime.get("brokerVersionDesc")},
        }
        totals["inTps"] += into
        totals["outTps"] += out
        totals["inToday"] += in_today
        totals["outToday"] += out_today
    return {
        "evaluateReport": reports,
        "totalData": {
            "totalTps": {
                "totalNormalInTps": totals["inTps"],
                "totalNormalOutTps": totals["outTps"],
            },
            "totalOneDayNum": {
                "normalOneDayInNum": totals["inToday"],
                "normalOneDayOutNum": totals["outToday"],
            },
        },
    }


def _since(runtime: Mapping[str, str], name: str) -> int:
    """What came since this morning."""
    try:
        return int(runtime[f"{name}TodayNow"]) - int(runtime[f"{name}TodayMorning"])
    except (KeyError, ValueError):
        return 0
