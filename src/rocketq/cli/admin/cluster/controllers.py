"""Sub-commands about controllers."""

from collections.abc import Iterable
from typing import Annotated

from rocketq.admin.cluster import brokers, controllers
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Cluster, Report, command, either
from rocketq.cli.admin.java_text import text_of
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.numbers import parse_natural
from rocketq.remoting.bodies.controller import EpochEntryCache, ReplicaIdentity, ReplicasInfo

Controller = Annotated[
    str,
    Option(
        "-a",
        "--controllerAddress",
        metavar="ADDR",
        help="Controllers, as host:port;host:port.",
    ),
]
Interval = Annotated[int | None, Option("-i", "--interval", hidden=True)]
OneBrokerName = Annotated[
    str, Option("-bn", "--brokerName", metavar="NAME", help="The brokers' name.")
]
BrokerNames = Annotated[
    str | None, Option("-b", "--brokerName", metavar="NAME", help="The brokers, by their name.")
]


@command("getControllerMetaData")
async def get_controller_meta_data(api: BrokerApi, controller: Controller) -> Report:
    """Get controller cluster's metadata."""
    found = await controllers.metadata(api, controllers.split(controller)[0])
    peers = [peer for peer in (found.peers or "").split(";") if peer]
    data = {
        "group": found.group,
        "controllerLeaderId": found.controller_leader_id,
        "controllerLeaderAddress": found.controller_leader_address,
        "peers": peers,
    }
    lines = [
        "",
        f"#ControllerGroup\t{text_of(found.group)}",
        f"#ControllerLeaderId\t{text_of(found.controller_leader_id)}",
        f"#ControllerLeaderAddress\t{text_of(found.controller_leader_address)}",
        *(f"#Peer:\t{peer}" for peer in peers),
    ]
    return Report(data, lines)


@command("getControllerConfig")
async def get_controller_config(api: BrokerApi, controller: Controller) -> Report:
    """Get controller config."""
    configs = await controllers.configs(api, controller)
    lines = []
    for address, config in configs.items():
        lines.append(f"============{address}============")
        lines += [f"{key:<50}=  {value}" for key, value in config.items()]
    return Report(configs, lines)


@command("updateControllerConfig")
async def update_controller_config(
    api: BrokerApi,
    controller: Controller,
    key: Annotated[str, Option("-k", "--key", metavar="KEY", help="The key.")],
    value: Annotated[str, Option("-v", "--value", metavar="VALUE", help="The value.")],
) -> Report:
    """Update controller config."""
    addresses = await controllers.update_config(api, controller, key, value)
    lines = [
        f"update controller config success![{', '.join(addresses)}]",
        f"{key} : {value}",
    ]
    return Report({"key": key, "value": value, "addresses": addresses}, lines)


@command("electMaster")
async def elect_master(
    api: BrokerApi,
    controller: Controller,
    broker_id: Annotated[
        int, Option("-b", "--brokerId", metavar="ID", help="The broker, by the controller's id.")
    ],
    broker_name: OneBrokerName,
    cluster: Annotated[str, Option("-c", "--clusterName", metavar="CLUSTER", help="Its cluster.")],
) -> Report:
    """Re-elect the specified broker as master."""
    master, body = await controllers.elect(api, controller, cluster, broker_name, broker_id)
    group = body.broker_member_group
    members = {} if group is None else group.broker_addrs
    data = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "masterAddress": master.master_address,
        "masterEpoch": master.master_epoch,
        "syncStateSetEpoch": master.sync_state_set_epoch,
        "brokerAddrs": {str(number): address for number, address in members.items()},
    }
    lines = [
        "",
        f"#ClusterName\t{cluster}",
        f"#BrokerName\t{broker_name}",
        f"#BrokerMasterAddr\t{text_of(master.master_address)}",
        f"#MasterEpoch\t{text_of(master.master_epoch)}",
        f"#SyncStateSetEpoch\t{text_of(master.sync_state_set_epoch)}",
        *(f"\t#Broker\t{number}\t{address}" for number, address in members.items()),
    ]
    return Report(data, lines)


@command("getSyncStateSet")
async def get_sync_state_set(
    api: BrokerApi,
    controller: Controller,
    broker_name: BrokerNames = None,
    cluster: Cluster = None,
    interval: Interval = None,
) -> Report:
    """Fetch syncStateSet for target brokers."""
    either(broker_name, cluster)
    names = [broker_name] if broker_name else await brokers.names_of_cluster(api, cluster or "")
    found = (await controllers.sync_states(api, controller, names)).replicas_info_table
    lines = [line for name, info in found.items() for line in _replicas(name, info)]
    return Report({name: info.to_json() for name, info in found.items()}, lines)


def _replicas(name: str, info: ReplicasInfo) -> Iterable[str]:
    yield ""
    yield f"#brokerName\t{name}"
    yield f"#MasterBrokerId\t{text_of(info.master_broker_id)}"
    yield f"#MasterAddr\t{text_of(info.master_address)}"
    yield f"#MasterEpoch\t{text_of(info.master_epoch)}"
    yield f"#SyncStateSetEpoch\t{text_of(info.sync_state_set_epoch)}"
    yield f"#SyncStateSetNums\t{len(info.in_sync_replicas)}"
    for each in info.in_sync_replicas:
        yield from ("", f"InSyncReplica:\t{_identity(each)}")
    for each in info.not_in_sync_replicas:
        yield from ("", f"NotInSyncReplica:\t{_identity(each)}")


def _identity(each: ReplicaIdentity) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{each.broker_name}', brokerId={each.broker_id}, "
        f"brokerAddress='{each.broker_address}', alive={text_of(each.alive)}}}"
    )


@command("getBrokerEpoch")
async def get_broker_epoch(
    api: BrokerApi,
    broker_name: BrokerNames = None,
    cluster: Cluster = None,
    interval: Interval = None,
) -> Report:
    """Fetch broker epoch entries."""
    either(broker_name, cluster)
    if broker_name:
        addresses = await brokers.every_address_of(api, broker_name)
    else:
        addresses = await brokers.every_address(api, cluster or "")
    found = {address: await controllers.epochs(api, address) for address in addresses}
    lines = [line for address, cache in found.items() for line in _epochs(address, cache)]
    return Report({address: cache.to_json() for address, cache in found.items()}, lines)


def _epochs(address: str, cache: EpochEntryCache) -> Iterable[str]:
    yield ""
    yield f"#clusterName\t{cache.cluster_name}"
    yield f"#brokerName\t{cache.broker_name}"
    yield f"#brokerAddr\t{address}"
    yield f"#brokerId\t{cache.broker_id}"
    for number, entry in enumerate(cache.epoch_list, 1):
        # The last one is open, and ends where the log does now.
        end = cache.max_offset if number == len(cache.epoch_list) else entry.end_offset
        yield (
            f"#Epoch: EpochEntry{{epoch={entry.epoch}, startOffset={entry.start_offset}, "
            f"endOffset={end}}}"
        )


@command("cleanBrokerMetadata")
async def clean_broker_metadata(
    api: BrokerApi,
    controller: Controller,
    broker_name: OneBrokerName,
    broker_ids: Annotated[
        str | None,
        Option(
            "-b",
            "--brokerControllerIdsToClean",
            metavar="IDS",
            help="The brokers, by the controller's ids, as 1;2;3. [all]",
        ),
    ] = None,
    cluster: Annotated[
        str | None, Option("-c", "--clusterName", metavar="CLUSTER", help="Their cluster.")
    ] = None,
    also_living: Annotated[
        bool, Option("-l", "--cleanLivingBroker", help="Also those that are alive.")
    ] = False,
) -> Report:
    """Clean metadata of broker on controller."""
    if broker_ids is not None:
        for word in broker_ids.split(";"):
            if parse_natural(word.strip()) is None:
                raise AdminError(f"-b {broker_ids}: write the ids as 1;2;3")
    await controllers.clean(
        api,
        controller,
        broker_name,
        cluster=cluster,
        broker_ids=broker_ids,
        also_living=also_living,
    )
    lines = [f"clear broker {broker_name} metadata from controller success! "]
    return Report({"brokerName": broker_name}, lines)
