"""`rocketq up`: a whole RocketMQ in one process, or with a process for each of its brokers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from rocketq.broker import Broker, BrokerConfig
from rocketq.broker.config import local_address
from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.broker import broker_ports
from rocketq.cli.servers.grpc import GrpcPort, grpc_address, grpc_beside, usual_port
from rocketq.cli.servers.serving import (
    check_ports_free,
    reachable_host,
    serve,
    started,
    wait_for_either,
)
from rocketq.cli.servers.settings import check_known, parse_assignments, start_logging
from rocketq.cli.servers.up import elected, several
from rocketq.cli.servers.up.console import ConsolePlace, console_beside, ports_of
from rocketq.cli.servers.up.ports import PORT_DISTANCE, free_ports, ports_from
from rocketq.cli.servers.up.welcome import announce, registered
from rocketq.common import config as config_text
from rocketq.common.config import ConfigError
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.common.metrics.settings import exporter_settings
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

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
        check_known(settings, BrokerConfig, StoreConfig, NamesrvConfig, strict=strict)
        if replicas > 0:
            settings = several.WITH_REPLICAS | settings
        if ha:
            settings = elected.WITH_CONTROLLER | {"controllerAddr": "127.0.0.1:0"} | settings
        config_text.warn_about_unknown(settings, BrokerConfig, StoreConfig, NamesrvConfig)
        root = directory.absolute()
        elected.check_directory(root, elected=ha)
        several.check_directory(root, brokers)
        several.check_replicas(root, replicas)
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

        elected.run_elected(
            *(namesrv_config, broker_config, store_config, ports, root, logs, place)
        )
        return
    if brokers > 1 or replicas > 0:
        members = several.members_of(brokers, replicas, root)
        several.run_several(
            namesrv_config, broker_config, store_config, members, root, logs, grpc_port, place
        )
        return

    async def program(stop: asyncio.Event) -> None:
        check_ports_free(
            host, [namesrv_port, *broker_ports(broker_config, store_config), *ports_of(place)]
        )
        port = usual_port(grpc_port, host, broker_port)
        # Both are asked at one address.
        own_address = broker_config.broker_ip1
        monitoring = Monitoring(exporter_settings(broker_config, own_address, own_address))
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
                await registered(name_server, broker_config.broker_name)
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
