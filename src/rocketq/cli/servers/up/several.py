"""`rocketq up --brokers N --replicas N`: the NameServer here, each broker in its own process."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.broker import BrokerConfig
from rocketq.cli.failures import CannotStart
from rocketq.cli.servers.broker import broker_ports
from rocketq.cli.servers.grpc import usual_port
from rocketq.cli.servers.logs import LogOptions
from rocketq.cli.servers.serving import check_ports_free, serve, started, wait_for_either
from rocketq.cli.servers.up.console import ConsolePlace, console_beside, ports_of
from rocketq.cli.servers.up.ports import free_ports, ports_from
from rocketq.cli.servers.up.processes import BrokerProcess, broker_processes
from rocketq.cli.servers.up.welcome import announce, registered
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

# What a group of replicas is tried out for: two copies of what is acknowledged, and readers
# that do not care which of them is left.
WITH_REPLICAS: Final = {
    "brokerRole": "SYNC_MASTER",
    "inSyncReplicas": "2",
    "slaveReadEnable": "true",
}


class Member(NamedTuple):
    """One of the brokers to start."""

    name: str
    slave_id: int
    folder: Path


def members_of(brokers: int, replicas: int, root: Path) -> list[Member]:
    """All brokers, and behind them all slaves."""
    if brokers == 1:
        masters = [Member("broker-a", 0, root / "store")]
    else:
        masters = [Member(name, 0, root / name) for name in map(_broker_name, range(brokers))]
    return masters + [
        Member(name, number, folder.with_name(_replica_folder(folder.name, number)))
        for name, _, folder in masters
        for number in range(1, replicas + 1)
    ]


def _replica_folder(master: str, number: int) -> str:
    return f"replica-{number}" if master == "store" else f"{master}-replica-{number}"


def run_several(
    namesrv_config: NamesrvConfig,
    broker_config: BrokerConfig,
    store_config: StoreConfig,
    members: list[Member],
    root: Path,
    logs: LogOptions,
    grpc_port: int | None,
    place: ConsolePlace | None,
) -> None:
    """The NameServer here, the brokers in processes of their own."""
    host, first_port = broker_config.bind_address, broker_config.listen_port
    is_spread = len({member.name for member in members}) > 1

    async def program(stop: asyncio.Event) -> None:
        count = len(members)
        ports = ports_from(first_port, count) if first_port else free_ports(host, count)
        metrics_port = broker_config.metrics_prom_exporter_port
        configs = [
            (
                replace(
                    broker_config,
                    broker_name=member.name,
                    broker_id=member.slave_id,
                    listen_port=port,
                    # The NameServer has the first; 0 is any free one for each.
                    metrics_prom_exporter_port=metrics_port and metrics_port + number,
                    auto_create_topic_on_all_brokers=is_spread,
                ),
                replace(
                    store_config,
                    store_path_root_dir=str(member.folder),
                    broker_role=BrokerRole.SLAVE if member.slave_id else store_config.broker_role,
                ),
            )
            for number, (member, port) in enumerate(zip(members, ports, strict=True), 1)
        ]
        used = [port for config in configs for port in broker_ports(*config)]
        check_ports_free(host, [namesrv_config.listen_port, *used, *ports_of(place)])
        masters = sum(member.slave_id == 0 for member in members)
        first_grpc = usual_port(grpc_port, host, first_port, masters)
        name_server = NameServer(namesrv_config)
        async with started(name_server):
            told = [
                (replace(config, namesrv_addr=name_server.address), store)
                for config, store in configs
            ]
            async with (
                broker_processes(told, logs, first_grpc) as processes,
                console_beside(place, name_server.address, logs) as web,
            ):
                await _serve_several(name_server, processes, stop, root, web)

    serve(program)


class _Survivors:
    """Processes of which one may end without the others."""

    def __init__(self, processes: list[BrokerProcess]) -> None:
        self._processes = processes

    async def stopped(self) -> None:
        """Wait until none is left; tells of each that ends."""
        await asyncio.gather(*map(self._watch, self._processes))
        raise CannotStart("no broker is left")

    async def _watch(self, process: BrokerProcess) -> None:
        how = await process.ended()
        if how is not None:
            print(f"{how}; the others go on", file=sys.stderr, flush=True)


async def _serve_several(
    name_server: NameServer,
    processes: list[BrokerProcess],
    stop: asyncio.Event,
    root: Path,
    web: Mapping[str, str],
) -> None:
    """Say when all are ready, then wait for the end."""

    async def all_ready() -> list[str]:
        addresses = await asyncio.gather(*(each.ready() for each in processes))
        for each in processes:
            await registered(name_server, each.broker_name)
        return addresses

    has_slaves = any(each.is_slave for each in processes)
    watched = [_Survivors(processes)] if has_slaves else processes
    ready = asyncio.ensure_future(all_ready())
    end = asyncio.ensure_future(wait_for_either(stop, name_server, *watched))
    try:
        await asyncio.wait((ready, end), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            addresses = ready.result()
            masters = [
                address
                for address, each in zip(addresses, processes, strict=True)
                if not each.is_slave
            ]
            said = {"namesrv": name_server.address, "broker": ",".join(masters)}
            said["grpc"] = ",".join(each.grpc_address for each in processes if each.grpc_address)
            urls = [name_server.metrics_url, *(each.metrics_url for each in processes)]
            said["metrics"] = ",".join(url for url in urls if url)
            said |= web
            announce(root, **{name: addresses for name, addresses in said.items() if addresses})
            if has_slaves:
                for address, each in zip(addresses, processes, strict=True):
                    print(f"{each.name} at {address} pid={each.pid}", flush=True)
        await end
    finally:
        ready.cancel()
        end.cancel()
        await asyncio.gather(ready, end, return_exceptions=True)


def _broker_name(number: int) -> str:
    return f"broker-{number}"


# What is there already


def check_directory(root: Path, count: int) -> None:
    """Refuse to leave out messages that were stored by another number of brokers."""
    has_one = (root / "store").exists()
    several = 0
    while (root / _broker_name(several)).is_dir():
        several += 1
    if has_one and count > 1:
        raise CannotStart(
            f"{root} is a single broker's: start without --brokers, or choose another --dir"
        )
    if several > count:
        raise CannotStart(
            f"{root} holds {several} brokers' data: start as many with --brokers {several}, "
            "or choose another --dir"
        )


def check_replicas(root: Path, count: int) -> None:
    """A slave that is left out would be out of date when it is started again one day."""
    known = [path.name for path in root.glob("*replica-*")] if root.is_dir() else []
    most = max((int(name.rpartition("-")[2]) for name in known), default=0)
    if 0 < count < most:
        raise CannotStart(
            f"{root} holds {most} slaves' data: start as many with --replicas {most}, "
            "or delete what is not wanted"
        )
