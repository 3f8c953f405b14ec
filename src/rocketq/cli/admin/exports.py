"""Sub-commands that write what a cluster is made of into files."""

from pathlib import Path
from typing import Annotated, Any

import orjson

from rocketq.admin import exports
from rocketq.admin.cluster import brokers
from rocketq.cli.admin.command import BrokerAddress, Cluster, Report, command, either
from rocketq.cli.commands import Option
from rocketq.cli.failures import fail
from rocketq.client.cluster.rpc import BrokerApi

Folder = Annotated[
    Path, Option("-f", "--filePath", metavar="DIR", help="The folder to write into.")
]
OneCluster = Annotated[str, Option("-c", "--clusterName", metavar="CLUSTER", help="Which cluster.")]
_EXPORTS = Path("/tmp/rocketmq/export")


@command("exportMetadata")
async def export_metadata(
    api: BrokerApi,
    broker: BrokerAddress = None,
    cluster: Cluster = None,
    folder: Folder = _EXPORTS,
    only_topics: Annotated[bool, Option("-t", "--topic", help="Topics alone.")] = False,
    only_groups: Annotated[bool, Option("-g", "--subscriptionGroup", help="Groups alone.")] = False,
    special: Annotated[
        bool, Option("-s", "--specialTopic", help="Topics for retries and dead letters, too.")
    ] = False,
) -> Report:
    """Export metadata."""
    either(broker, cluster)
    addresses = await brokers.targets(api, broker, cluster)
    data = await exports.metadata(api, addresses, special=special)
    name = "metadata.json"
    if only_topics and not only_groups:
        name = "topic.json"
        del data["subscriptionGroupTable"]
    elif only_groups and not only_topics:
        name = "subscriptionGroup.json"
        del data["topicConfigTable"]
    return _written(folder / name, data)


@command("exportConfigs")
async def export_configs(api: BrokerApi, cluster: OneCluster, folder: Folder = _EXPORTS) -> Report:
    """Export configs."""
    return _written(folder / "configs.json", await exports.configs(api, cluster))


@command("exportMetrics")
async def export_metrics(api: BrokerApi, cluster: OneCluster, folder: Folder = _EXPORTS) -> Report:
    """Export metrics."""
    return _written(folder / "metrics.json", await exports.metrics(api, cluster))


def _written(path: Path, data: dict[str, Any]) -> Report:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")
    return Report(data, [f"export {path} success"])
