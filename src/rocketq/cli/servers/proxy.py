"""`rocketq proxy`: RocketMQ 5's gRPC protocol before brokers, in the foreground."""

import asyncio
import os
from collections.abc import Mapping
from typing import Annotated

from rocketq.broker.config import local_address
from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.grpc import is_installed
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
from rocketq.proxy.config import ProxyConfig


def proxy(
    config_file: options.ConfigFile = None,
    name_servers: options.NameServers = None,
    print_config: options.PrintConfig = False,
    host: options.Host = None,
    grpc_port: Annotated[
        int | None, Option(metavar="P", help="The port; 0 picks a free one. [8081]")
    ] = None,
    metrics_port: options.MetricsPort = None,
    assignments: options.Assignments = None,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
    strict: options.Strict = False,
) -> None:
    """Serve RocketMQ 5's gRPC clients before brokers, until SIGTERM or Ctrl-C.

    It keeps nothing: any number of them may stand before the same brokers, of rocketq or of
    Apache RocketMQ 5. It listens on every address of the machine (0.0.0.0, port 8081; --host
    narrows it). When it accepts requests it prints `ready grpc=HOST:PORT pid=N`, with
    `metrics=URL` in it where it has figures.

    rocketq proxy -n 127.0.0.1:9876
    rocketq proxy -n 127.0.0.1:9876 --grpc-port 0 --set maxMessageSize=1048576
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        settings = {
            **read_file(config_file),
            **options.metrics_settings(metrics_port),
            **parse_assignments(assignments or ()),
        }
        check_known(settings, ProxyConfig, strict=strict)
        config = build_config(settings, name_servers=name_servers, host=host, port=grpc_port)
        if not is_installed():
            raise CannotStart(f"the proxy needs protobuf: {how_to_install('grpc')}")
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config)
        return
    run_proxy(config)


run = command(proxy)


def build_config(
    settings: Mapping[str, str],
    *,
    name_servers: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> ProxyConfig:
    """A file's keys, then those of the command line."""
    overrides = dict(settings)
    if name_servers is not None:
        overrides["namesrvAddr"] = name_servers
    overrides.setdefault("namesrvAddr", os.environ.get("NAMESRV_ADDR", ""))
    if not overrides["namesrvAddr"]:
        raise CannotStart("a proxy needs a NameServer: -n HOST:PORT, namesrvAddr or NAMESRV_ADDR")
    if host is not None:
        overrides["bindAddress"] = host
    if port is not None:
        overrides["grpcServerPort"] = str(port)
    return load(ProxyConfig, overrides)


def run_proxy(config: ProxyConfig) -> None:
    """Serve until asked to stop."""

    async def program(stop: asyncio.Event) -> None:
        from rocketq.proxy.server import GrpcServer

        check_ports_free(config.bind_address, [config.grpc_server_port])
        server = GrpcServer(config)
        async with started(server):
            host = reachable_host(config.bind_address, local_address)
            words = [f"grpc={host}:{server.port}"]
            if server.metrics_url:
                words.append(f"metrics={server.metrics_url}")
            print("ready", *words, f"pid={os.getpid()}", flush=True)
            await wait_for_either(stop, server)

    serve(program)
