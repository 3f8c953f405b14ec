"""`rocketq up`: a whole RocketMQ in one process, or with a process for each of its brokers."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from rocketq.broker import Broker, BrokerConfig
from rocketq.broker.config import local_address
from rocketq.broker.metrics.settings import exporter_settings
from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers import elected
from rocketq.cli.servers.broker import broker_ports
from rocketq.cli.servers.broker_processes import (
    PORT_DISTANCE,
    BrokerProcess,
    broker_processes,
    free_ports,
    ports_from,
)
from rocketq.cli.servers.console_process import ConsolePlace, console_beside
from rocketq.cli.servers.grpc import GrpcPort, grpc_address, grpc_beside, usual_port
from rocketq.cli.servers.logs import LogOptions
from rocketq.cli.servers.serving import (
    check_ports_free,
    reachable_host,
    serve,
    started,
    wait_for_either,
)
from rocketq.cli.servers.settings import check_known, parse_assignments, start_logging
from rocketq.cli.servers.welcome import announce
from rocketq.common import config as config_text
from rocketq.common.config import ConfigError
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

_REGISTRATION_TIMEOUT_S: Final = 30.0
_NEW_LOG_FILE_SIZE: Final = 64 * 1024 * 1024

# Keys that name a port or a place twice over when two servers share one command line.
_OWN_OPTIONS: Final = {
    "listenPort": "--namesrv-port and --broker-port",
    "bindAddress": "--host",
    "storePathRootDir": "--dir",
    "namesrvAddr": "rocketq broker -n",
}

# Keys that several brokers cannot share.
_ONE_BROKERS: Final = ("brokerName", "brokerId", "haListenPort", "haMasterAddress", "storePath")

# What a group of replicas is tried out for: two copies of what is acknowledged, and readers
# that do not care which of them is left.
_WITH_REPLICAS: Final = {
    "brokerRole": "SYNC_MASTER",
    "inSyncReplicas": "2",
    "slaveReadEnable": "true",
}


def up(
    directory: Annotated[
        Path, Option("--dir", metavar="DIR", help="Where the data is kept.")
    ] = Path("rocketq-data"),
    host: Annotated[
        str, Option(metavar="H", help="The address to listen on; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    namesrv_port: Annotated[
        int, Option(metavar="P", help="The NameServer's port; 0 picks a free one.")
    ] = 9876,
    broker_port: Annotated[
        int,
        Option(
            metavar="P",
            help="The broker's port; 0 picks a free one. Of several brokers the first has P,"
            f" the next P+{PORT_DISTANCE} and so on; each uses the port two below it, too.",
        ),
    ] = 10911,
    grpc_port: GrpcPort = None,
    brokers: Annotated[
        int,
        Option(
            metavar="N",
            minimum=1,
            help="How many brokers; more than one use more cores, each in its own process.",
        ),
    ] = 1,
    replicas: Annotated[
        int,
        Option(
            metavar="N",
            minimum=0,
            help="How many slaves each broker has, each in its own process.",
        ),
    ] = 0,
    console: Annotated[
        bool, Option("--console", help="Serve the web console, too, in a process of its own.")
    ] = False,
    console_port: Annotated[
        int, Option(metavar="P", help="The console's port; 0 picks a free one.")
    ] = 8082,
    ha: Annotated[
        bool,
        Option(
            "--ha",
            help="A controller and three brokers, of which it elects the master; each in its own"
            " process.",
        ),
    ] = False,
    metrics_port: options.MetricsPort = None,
    assignments: options.Assignments = None,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
    strict: options.Strict = False,
) -> None:
    """Run a NameServer and a broker in one process until SIGTERM or Ctrl-C.

    Everything is kept below DIR and found there again the next time. When both accept
    requests, a terminal shows where everything is and what to try; in a pipe it is one line:
    `ready namesrv=HOST:PORT broker=HOST:PORT grpc=HOST:PORT pid=N`.

    Clients of RocketMQ 5 speak gRPC: they connect to port 8081, where the extra `grpc` is
    installed and the port is free. With several brokers the first has that port, the next the
    one above it; each serves all of them.

    A new log is kept in files of 64 MiB, so that a first message does not take a gigabyte of
    disk; RocketMQ's own size is --set mappedFileSizeCommitLog=1073741824.

    A broker uses one core. With --brokers N there are N of them, broker-0 and so on, each in
    a process of its own; topics made by sending to them are spread over all. The line names
    their addresses with commas between them. All stop together, whichever ends first.

    With --replicas N each broker has N slaves, which copy what it stores and serve readers when
    it is gone. A message is acknowledged when two of them have it, unless --set says otherwise.
    One line for each process says where it is; kill one, and the others go on.

    With --console the line has `console=URL`: a page that shows and changes all of it.

    With --ha there are three brokers of one name and a controller, each in a process of its own.
    One broker is master; kill it, and another takes over within a second, with all that was
    acknowledged. The lines say who is where, what to kill, and who is master then; what was
    killed is started again and joins the others.

    rocketq up --dir /tmp/try --namesrv-port 0 --broker-port 0
    rocketq up --set flushDiskType=SYNC_FLUSH --set defaultTopicQueueNums=4
    rocketq up --brokers 4 --dir /data/rocketq
    rocketq up --replicas 1
    rocketq up --console
    rocketq up --ha
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        settings = {
            **options.metrics_settings(metrics_port),
            **parse_assignments(assignments or ()),
        }
        for key, option in _OWN_OPTIONS.items():
            if key in settings:
                raise CannotStart(f"--set {key}: use {option} instead")
        if brokers > 1 or replicas > 0 or ha:
            _check_shareable(settings)
        if ha:
            _check_alone(settings, brokers=brokers, replicas=replicas, grpc_port=grpc_port)
            if console:
                raise CannotStart("--console: not with --ha; `rocketq console` shows them")
        check_known(settings, BrokerConfig, StoreConfig, NamesrvConfig, strict=strict)
        if replicas > 0:
            settings = _WITH_REPLICAS | settings
        if ha:
            settings = elected.WITH_CONTROLLER | {"controllerAddr": "127.0.0.1:0"} | settings
        config_text.warn_about_unknown(settings, BrokerConfig, StoreConfig, NamesrvConfig)
        root = directory.absolute()
        elected.check_directory(root, elected=ha)
        _check_directory(root, brokers)
        _check_replicas(root, replicas)
        namesrv_config = config_text.update(
            NamesrvConfig(
                bind_address=host,
                listen_port=namesrv_port,
                kv_config_path=str(root / "namesrv" / "kvConfig.json"),
                config_store_path=str(root / "namesrv" / "namesrv.properties"),
            ),
            settings,
        )
        store_config = config_text.update(
            StoreConfig(
                store_path_root_dir=str(root / "store"),
                mapped_file_size_commit_log=_log_file_size(root),
            ),
            settings,
        )
        broker_config = config_text.update(
            BrokerConfig(
                broker_name="broker-a",
                bind_address=host,
                broker_ip1=reachable_host(host, local_address),
                listen_port=broker_port,
                # RocketMQ has it off; whoever tries things out wants to try SQL too.
                enable_property_filter=True,
            ),
            settings,
        )
        if broker_config.authentication_enabled and broker_config.inner_user() is None:
            raise CannotStart(
                "authenticationEnabled=true: the broker needs innerClientAuthenticationCredentials "
                "to register at the NameServer"
            )
    except (CannotStart, ConfigError) as error:
        fail(error)
    place = ConsolePlace(host, console_port) if console else None
    if ha:

        def ports() -> list[int]:
            count = elected.BROKERS
            return ports_from(broker_port, count) if broker_port else free_ports(host, count)

        elected.run_elected(namesrv_config, broker_config, store_config, ports, root, logs)
        return
    if brokers > 1 or replicas > 0:
        members = _members(brokers, replicas, root)
        _run_several(
            namesrv_config, broker_config, store_config, members, root, logs, grpc_port, place
        )
        return

    async def program(stop: asyncio.Event) -> None:
        check_ports_free(
            host, [namesrv_port, *broker_ports(broker_config, store_config), *_port(place)]
        )
        port = usual_port(grpc_port, host, broker_port)
        # Both are asked at one address.
        monitoring = Monitoring(exporter_settings(broker_config))
        name_server = NameServer(namesrv_config, monitoring=monitoring)
        async with monitoring.serving(), started(name_server):
            broker = Broker(
                config_text.update(broker_config, {"namesrvAddr": name_server.address}),
                store_config,
                owns_process=True,
                monitoring=monitoring,
            )
            async with (
                started(broker),
                grpc_beside(broker, port) as server,
                console_beside(place, name_server.address, logs) as web,
            ):
                await _registered(name_server, broker_config.broker_name)
                announce(
                    root,
                    namesrv=name_server.address,
                    broker=broker.address,
                    **grpc_address(server, broker),
                    **({"metrics": monitoring.url} if monitoring.url else {}),
                    **web,
                )
                others = [server] if server is not None else []
                await wait_for_either(stop, name_server, broker, *others)

    serve(program)


run = command(up)


async def _registered(name_server: NameServer, broker_name: str) -> None:
    """Clients that find the NameServer must find the broker too."""
    try:
        async with asyncio.timeout(_REGISTRATION_TIMEOUT_S):
            await name_server.broker_known(broker_name)
    except TimeoutError:
        raise CannotStart("the broker could not register at its NameServer") from None


# Several brokers


class _Member(NamedTuple):
    """One of the brokers to start."""

    name: str
    slave_id: int
    folder: Path


def _members(brokers: int, replicas: int, root: Path) -> list[_Member]:
    """All brokers, and behind them all slaves."""
    if brokers == 1:
        masters = [_Member("broker-a", 0, root / "store")]
    else:
        masters = [_Member(name, 0, root / name) for name in map(_broker_name, range(brokers))]
    return masters + [
        _Member(name, number, folder.with_name(_replica_folder(folder.name, number)))
        for name, _, folder in masters
        for number in range(1, replicas + 1)
    ]


def _replica_folder(master: str, number: int) -> str:
    return f"replica-{number}" if master == "store" else f"{master}-replica-{number}"


def _run_several(
    namesrv_config: NamesrvConfig,
    broker_config: BrokerConfig,
    store_config: StoreConfig,
    members: list[_Member],
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
        check_ports_free(host, [namesrv_config.listen_port, *used, *_port(place)])
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
            await _registered(name_server, each.broker_name)
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


def _port(place: ConsolePlace | None) -> list[int]:
    return [] if place is None else [place.port]


def _broker_name(number: int) -> str:
    return f"broker-{number}"


def _log_file_size(root: Path) -> int:
    """That of the files which are there, else small ones: they are reserved whole."""
    logs = sorted(root.glob("*/commitlog/" + "[0-9]" * 20))
    return logs[0].stat().st_size if logs else _NEW_LOG_FILE_SIZE


def _check_shareable(settings: Mapping[str, str]) -> None:
    if settings.get("brokerRole", "").strip().upper() == BrokerRole.SLAVE.name:
        raise CannotStart("--set brokerRole: slaves are made with --replicas")
    for key in settings:
        if key.startswith(_ONE_BROKERS):
            raise CannotStart(f"--set {key}: each of several brokers has its own")


def _check_alone(
    settings: Mapping[str, str], *, brokers: int, replicas: int, grpc_port: int | None
) -> None:
    if brokers > 1 or replicas > 0:
        raise CannotStart("--ha: has three brokers, without --brokers and --replicas")
    if grpc_port is not None:
        raise CannotStart("--grpc-port: not with --ha; `rocketq proxy` serves gRPC before them")
    for key in elected.OWN_KEYS:
        if key in settings:
            raise CannotStart(f"--set {key}: --ha says that")


def _check_replicas(root: Path, count: int) -> None:
    """A slave that is left out would be out of date when it is started again one day."""
    known = [path.name for path in root.glob("*replica-*")] if root.is_dir() else []
    most = max((int(name.rpartition("-")[2]) for name in known), default=0)
    if 0 < count < most:
        raise CannotStart(
            f"{root} holds {most} slaves' data: start as many with --replicas {most}, "
            "or delete what is not wanted"
        )


def _check_directory(root: Path, count: int) -> None:
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
