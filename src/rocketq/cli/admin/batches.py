"""Sub-commands that take many topics or groups from a file, and how a group fetches."""

from pathlib import Path
from typing import Annotated, Any

from rocketq.admin import groups, topics
from rocketq.admin.cluster import brokers
from rocketq.cli.admin.command import (
    BrokerAddress,
    Cluster,
    Group,
    Report,
    Topic,
    command,
    either,
)
from rocketq.cli.commands import Option
from rocketq.cli.failures import fail
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig

ConfigList = Annotated[
    Path, Option("-f", "--filename", metavar="FILE", help="JSON: a list of objects.")
]


@command("updateTopicList")
async def update_topic_list(
    api: BrokerApi, file: ConfigList, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """create or update topic in batch."""
    either(broker, cluster)
    configs = [TopicConfig.from_json(each) for each in _objects(file)]
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await topics.create_list(api, configs, address)
    return _submitted("topic config", addresses)


@command("updateSubGroupList")
async def update_sub_group_list(
    api: BrokerApi, file: ConfigList, broker: BrokerAddress = None, cluster: Cluster = None
) -> Report:
    """Update or create subscription group in batch."""
    either(broker, cluster)
    configs = [SubscriptionGroupConfig.from_json(each) for each in _objects(file)]
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await groups.create_list(api, configs, address)
    return _submitted("group config", addresses)


def _submitted(what: str, addresses: list[str]) -> Report:
    lines = [
        f"submit batch of {what} to {address} success, please check the result later."
        for address in addresses
    ]
    return Report({"brokers": addresses}, lines)


def _objects(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        fail(f"the file path {file} does not exists")
    try:
        found = json.loads(file.read_bytes())
    except ValueError as error:
        fail(f"{file} is not JSON: {error}")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        fail(f"{file} is not a JSON list of objects")
    return found


@command("setConsumeMode")
async def set_consume_mode(
    api: BrokerApi,
    topic: Topic,
    group: Group,
    mode: Annotated[
        str, Option("-m", "--mode", metavar="PULL|POP", choices=("PULL", "POP"), help="How.")
    ],
    share: Annotated[
        int,
        Option("-q", "--popShareQueueNum", metavar="N", minimum=0, help="Queues shared by pops."),
    ] = 0,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
) -> Report:
    """Set consume message mode. pull/pop etc."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    for address in addresses:
        await groups.set_mode(api, address, topic, group, mode, share)
    lines = [f"set consume mode to {address} success." for address in addresses]
    lines.append(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
    return Report({"topic": topic, "group": group, "mode": mode, "brokers": addresses}, lines)
