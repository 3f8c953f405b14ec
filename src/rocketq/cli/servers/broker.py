"""`rocketq broker`: a broker in the foreground."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from rocketq.broker import Broker, BrokerConfig
from rocketq.broker.config import IMPORTANT_KEYS, load_configs, local_address
from rocketq.broker.replication.role import first_role
from rocketq.broker.settings.checks import COUNTING_KEYS
from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.child import WithParent, secrets_of_parent, stop_with_parent
from rocketq.cli.servers.grpc import GrpcPort, grpc_address, grpc_beside, wanted_port
from rocketq.cli.servers.serving import (
    check_ports_free,
    reachable_host,
    serve,
    started,
    wait_for_either,
)
from rocketq.cli.servers.settings import (
    check_known,
    parse_assignments,
    print_options,
    read_file,
    start_logging,
)
from rocketq.common.config import ConfigError
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

logger = logging.getLogger(__name__)


def broker(
    config_file: options.ConfigFile = None,
    name_servers: options.NameServers = None,
    print_config: options.PrintConfig = False,
    print_important: Annotated[
        bool,
        Option("-m", "--printImportantConfig", help="Print the options that matter most, and end."),
    ] = False,
    host: options.Host = None,
    port: Annotated[
        int | None, Option(metavar="P", help="The port; 0 picks a free one. [10911]")
    ] = None,
    grpc_port: GrpcPort = None,
    metrics_port: options.MetricsPort = None,
    assignments: options.Assignments = None,
    with_parent: WithParent = False,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
    strict: options.Strict = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    It keeps its messages in `storePathRootDir` (else in ~/store), listens on every address of
    the machine (0.0.0.0, port 10911; --host narrows it), and registers at the NameServers.
    When it accepts requests it prints `ready broker=HOST:PORT pid=N`, with `grpc=HOST:PORT`
    where --grpc-port has it serve gRPC as well, and `metrics=URL` where it has figures to show.

    With a word after it, it asks brokers that run: `rocketq broker list`, and describe, copies,
    config and set.

    rocketq broker -n 127.0.0.1:9876 -c broker.conf
    rocketq broker -n 127.0.0.1:9876 --set storePathRootDir=/data/a --set brokerName=broker-a
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        settings = {
            **read_file(config_file),
            **options.metrics_settings(metrics_port),
            **parse_assignments(assignments or ()),
        }
        if with_parent:
            settings |= secrets_of_parent()
        check_known(settings, BrokerConfig, StoreConfig, strict=strict)
        configs = build_configs(settings, name_servers=name_servers, host=host, port=port)
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(*configs, only=COUNTING_KEYS)
    elif print_important:
        print_options(*configs, only=IMPORTANT_KEYS & COUNTING_KEYS)
    else:
        run_broker(
            *configs,
            config_file,
            announce=announce_ready,
            grpc_port=grpc_port,
            with_parent=with_parent,
        )


run = command(broker)


def build_configs(
    settings: Mapping[str, str],
    *,
    name_servers: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> tuple[BrokerConfig, StoreConfig]:
    """A file's keys, then those of the command line."""
    overrides = dict(settings)
    if name_servers is not None:
        overrides["namesrvAddr"] = name_servers
    if host is not None:
        overrides["bindAddress"] = host
        overrides.setdefault("brokerIP1", reachable_host(host, local_address))
    if port is not None:
        overrides["listenPort"] = str(port)
    broker, store = load_configs(overrides)
    first_role(broker, store)  # raises what cannot be
    return broker, store


def broker_ports(config: BrokerConfig, store: StoreConfig) -> list[int]:
    """The ports a broker listens on: its own, the one two below it for clients in a hurry.

    And where it is a master, the one for its slaves.
    """
    if config.listen_port <= 2:
        return []
    ports = [config.listen_port, config.listen_port - 2]
    if store.broker_role is not BrokerRole.SLAVE:
        ports.append(store.ha_listen_port or config.listen_port + 1)
    return ports


def announce_ready(broker: Broker, more: Mapping[str, str] | None = None) -> None:
    """`more` are addresses of other parts that were started too, by their names."""
    addresses = {"broker": broker.address, **(more or {})}
    if broker.metrics_url:
        addresses["metrics"] = broker.metrics_url
    words = [f"{name}={address}" for name, address in addresses.items()]
    print("ready", *words, f"pid={os.getpid()}", flush=True)


def run_broker(
    config: BrokerConfig,
    store_config: StoreConfig,
    config_file: Path | None,
    *,
    announce: Callable[[Broker, Mapping[str, str]], None],
    grpc_port: int | None = None,
    with_parent: bool = False,
) -> None:
    """Serve until asked to stop."""

    async def program(stop: asyncio.Event) -> None:
        if with_parent:
            stop_with_parent(stop)
        check_ports_free(config.bind_address, broker_ports(config, store_config))
        port = wanted_port(grpc_port, config.bind_address)
        broker = Broker(config, store_config, config_path=config_file, owns_process=True)
        async with started(broker), grpc_beside(broker, port) as server:
            announce(broker, grpc_address(server, broker))
            if not config.namesrv_addr:
                logger.warning(
                    "this broker registers at no NameServer, so no client finds it: "
                    "name one with -n HOST:PORT, namesrvAddr or NAMESRV_ADDR"
                )
            await wait_for_either(stop, broker, *([server] if server is not None else []))

    serve(program)
