"""`rocketq controller`: decides which broker of a name is master."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.child import WithParent, stop_with_parent
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
from rocketq.common.config import ConfigError, load
from rocketq.common.extras import how_to_install
from rocketq.controller import Controller, ControllerConfig
from rocketq.controller.config import as_peer


def controller(
    etcd: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT[,...]",
            help="Keep the state in this etcd; any number of controllers share it.",
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        Option("--dir", metavar="DIR", help="Without --etcd: where the state is kept."),
    ] = None,
    config_file: options.ConfigFile = None,
    print_config: options.PrintConfig = False,
    host: options.Host = None,
    port: Annotated[
        int | None, Option(metavar="P", help="The port; 0 picks a free one. [19876]")
    ] = None,
    metrics_port: options.MetricsPort = None,
    assignments: options.Assignments = None,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
    strict: options.Strict = False,
    with_parent: WithParent = False,
) -> None:
    """Run a controller until SIGTERM or Ctrl-C.

    It decides which of the brokers that share a name is master, and has another one take over
    when it is gone. Brokers with enableControllerMode=true and its address in controllerAddr
    follow it, Java ones, too. When it accepts requests it prints
    `ready controller=HOST:PORT pid=N`, with `metrics=URL` in it where it has figures.

    With --etcd its state is in etcd. Start as many as you like: one leads, the others know
    which, and one of them takes over when it ends. TLS and a user are the keys etcdCaFile,
    etcdCertFile, etcdKeyFile, etcdUser and etcdPassword of the file.

    Without --etcd the state is in a file of this host, and this is the only controller. That is
    for trying things out: who loses the host has nobody left that decides.

    rocketq controller
    rocketq controller --etcd 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 -c controller.conf
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        settings = {
            **read_file(config_file),
            **options.metrics_settings(metrics_port),
            **parse_assignments(assignments or ()),
        }
        check_known(settings, ControllerConfig, strict=strict)
        config = build_config(
            settings, config_file, etcd=etcd, directory=directory, host=host, port=port
        )
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config)
        return
    run_controller(config, announce=announce_ready, with_parent=with_parent)


run = command(controller)


def build_config(
    settings: Mapping[str, str],
    config_file: Path | None,
    *,
    etcd: str | None = None,
    directory: Path | None = None,
    host: str | None = None,
    port: int | None = None,
) -> ControllerConfig:
    """A file's keys, then those of the command line; the file is where updates are stored."""
    overrides = dict(settings)
    if config_file is not None:
        overrides["configStorePath"] = str(config_file.absolute())
    if etcd is not None:
        overrides["etcdEndpoints"] = etcd
    if directory is not None:
        overrides["controllerStorePath"] = str(directory.absolute())
        overrides.setdefault("configStorePath", str(directory.absolute() / "controller.properties"))
    if host is not None:
        overrides["bindAddress"] = host
    if port is not None:
        overrides["listenPort"] = str(port)
    config = as_peer(load(ControllerConfig, overrides))
    if not config.advertised_host:
        from rocketq.broker.config import local_address

        reached_at = reachable_host(config.bind_address, local_address)
        config = load(ControllerConfig, {**overrides, "advertisedHost": reached_at})
    return config


def announce_ready(server: Controller) -> None:
    words = [f"controller={server.address}"]
    if server.metrics_url:
        words.append(f"metrics={server.metrics_url}")
    print("ready", *words, f"pid={os.getpid()}", flush=True)


def run_controller(
    config: ControllerConfig,
    *,
    announce: Callable[[Controller], None],
    with_parent: bool = False,
) -> None:
    """Serve until asked to stop."""
    if config.endpoints:
        _check_installed()
    elif not with_parent:
        print(
            f"no --etcd: the state is kept in {config.controller_store_path} of this host, "
            "for one controller alone",
            file=sys.stderr,
        )

    async def program(stop: asyncio.Event) -> None:
        if with_parent:
            stop_with_parent(stop)
        check_ports_free(config.bind_address, [config.listen_port])
        server = Controller(config)
        async with started(server):
            announce(server)
            await wait_for_either(stop, server)

    serve(program)


def _check_installed() -> None:
    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        fail(CannotStart(f"--etcd needs grpcio and protobuf: {how_to_install('controller')}"))
