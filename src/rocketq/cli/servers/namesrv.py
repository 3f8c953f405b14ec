"""`rocketq namesrv`: a NameServer in the foreground."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.serving import check_ports_free, serve, started, wait_for_either
from rocketq.cli.servers.settings import (
    check_known,
    parse_assignments,
    print_options,
    read_file,
    start_logging,
)
from rocketq.common.config import ConfigError, load
from rocketq.common.loop.promptness import be_prompt
from rocketq.namesrv import NameServer, NamesrvConfig


def namesrv(
    config_file: options.ConfigFile = None,
    print_config: options.PrintConfig = False,
    host: options.Host = None,
    port: Annotated[
        int | None, Option(metavar="P", help="The port; 0 picks a free one. [9876]")
    ] = None,
    metrics_port: options.MetricsPort = None,
    assignments: options.Assignments = None,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
    strict: options.Strict = False,
) -> None:
    """Run a NameServer until SIGTERM or Ctrl-C.

    Brokers register here, clients ask here which broker serves a topic. It listens on every
    address of the machine (0.0.0.0, port 9876; --host narrows it). When it accepts requests
    it prints `ready namesrv=HOST:PORT pid=N`, with `metrics=URL` in it where it has figures.
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        settings = {
            **read_file(config_file),
            **options.metrics_settings(metrics_port),
            **parse_assignments(assignments or ()),
        }
        check_known(settings, NamesrvConfig, strict=strict)
        config = build_config(settings, config_file, host=host, port=port)
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config)
        return
    run_name_server(config, announce=announce_ready)


run = command(namesrv)


def build_config(
    settings: Mapping[str, str],
    config_file: Path | None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> NamesrvConfig:
    """A file's keys, then those of the command line; the file is where updates are stored."""
    overrides = dict(settings)
    if config_file is not None:
        overrides["configStorePath"] = str(config_file.absolute())
    if host is not None:
        overrides["bindAddress"] = host
    if port is not None:
        overrides["listenPort"] = str(port)
    return load(NamesrvConfig, overrides)


def announce_ready(server: NameServer) -> None:
    words = [f"namesrv={server.address}"]
    if server.metrics_url:
        words.append(f"metrics={server.metrics_url}")
    print("ready", *words, f"pid={os.getpid()}", flush=True)


def run_name_server(config: NamesrvConfig, *, announce: Callable[[NameServer], None]) -> None:
    """Serve until asked to stop."""

    async def program(stop: asyncio.Event) -> None:
        check_ports_free(config.bind_address, [config.listen_port])
        server = NameServer(config)
        async with started(server):
            be_prompt()
            announce(server)
            await wait_for_either(stop, server)

    serve(program)
