"""RocketMQ's own scripts over the same servers: their options, their lines of output.

`rocketq namesrv` and `rocketq broker` are the same programs with more options and a `ready`
line that scripts can read; these say what people who know RocketMQ look for.
"""

import sys
from collections.abc import Mapping
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.interrupts import CUT_SHORT
from rocketq.cli.servers.logs import LogOptions, log_as_server
from rocketq.cli.servers.settings import print_options, read_file
from rocketq.common.config import ConfigError


def mqnamesrv() -> None:
    command(_mqnamesrv)("mqnamesrv", sys.argv[1:])


def _mqnamesrv(
    config_file: options.ConfigFile = None,
    print_config: options.PrintConfig = False,
    name_servers: Annotated[str | None, Option("-n", "--namesrvAddr", hidden=True)] = None,
) -> None:
    """Run a NameServer."""
    from rocketq.cli.servers.namesrv import build_config, run_name_server

    log_as_server(LogOptions())
    try:
        settings = read_file(config_file)
        if config_file is not None:
            print(f"load config properties file OK, {config_file}", flush=True)
        config = build_config(settings, config_file)
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config)
        return
    run_name_server(
        config,
        announce=lambda server: print(
            "The Name Server boot success. serializeType=JSON, "
            f"address {config.bind_address}:{server.port}",
            flush=True,
        ),
    )


def mqbroker() -> None:
    command(_mqbroker)("mqbroker", sys.argv[1:])


def _mqbroker(
    config_file: options.ConfigFile = None,
    name_servers: options.NameServers = None,
    print_config: options.PrintConfig = False,
    print_important: Annotated[
        bool,
        Option("-m", "--printImportantConfig", help="Print the options that matter most, and end."),
    ] = False,
) -> None:
    """Run a broker."""
    from rocketq.broker import Broker
    from rocketq.broker.config import IMPORTANT_KEYS
    from rocketq.broker.settings.checks import COUNTING_KEYS
    from rocketq.cli.servers.broker import build_configs, run_broker

    log_as_server(LogOptions())
    try:
        config, store_config = build_configs(read_file(config_file), name_servers=name_servers)
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config, store_config, only=COUNTING_KEYS)
        return
    if print_important:
        print_options(config, store_config, only=IMPORTANT_KEYS & COUNTING_KEYS)
        return

    def announce(broker: Broker, more: Mapping[str, str]) -> None:
        line = (
            f"The broker[{config.broker_name}, {broker.address}] boot success. serializeType=JSON"
        )
        if config.namesrv_addr:
            line += f" and name server is {config.namesrv_addr}"
        print(line, flush=True)

    run_broker(config, store_config, config_file, announce=announce)


def mqcontroller() -> None:
    command(_mqcontroller)("mqcontroller", sys.argv[1:])


def _mqcontroller(
    config_file: options.ConfigFile = None,
    print_config: options.PrintConfig = False,
) -> None:
    """Run a controller."""
    from rocketq.cli.servers.controller import build_config, run_controller

    log_as_server(LogOptions())
    try:
        settings = read_file(config_file)
        if config_file is not None:
            print(f"load config properties file OK, {config_file}", flush=True)
        config = build_config(settings, config_file)
    except (CannotStart, ConfigError) as error:
        fail(error)
    if print_config:
        print_options(config)
        return
    run_controller(
        config,
        announce=lambda _: print(
            "The Controller Server boot success. serializeType=JSON", flush=True
        ),
    )


def mqadmin() -> None:
    from rocketq.cli.admin import run_as_mqadmin

    try:
        run_as_mqadmin()
    except KeyboardInterrupt:
        raise SystemExit(CUT_SHORT) from None
