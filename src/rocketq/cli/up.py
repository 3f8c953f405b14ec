"""`rocketq up`: a whole RocketMQ in one process."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

from rocketq.broker import Broker, BrokerConfig
from rocketq.broker.config import local_address
from rocketq.cli import options
from rocketq.cli.broker import broker_ports
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.serving import (
    check_ports_free,
    reachable_host,
    serve,
    started,
    wait_for_either,
)
from rocketq.cli.settings import parse_assignments
from rocketq.common import config as config_text
from rocketq.common.config import ConfigError
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import StoreConfig

_REGISTRATION_TIMEOUT_S: Final = 30.0

# Keys that name a port or a place twice over when two servers share one command line.
_OWN_OPTIONS: Final = {
    "listenPort": "--namesrv-port and --broker-port",
    "bindAddress": "--host",
    "storePathRootDir": "--dir",
    "namesrvAddr": "rocketq broker -n",
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
        int, Option(metavar="P", help="The broker's port; 0 picks a free one.")
    ] = 10911,
    assignments: options.Assignments = None,
    verbosity: options.Verbosity = 0,
) -> None:
    """Run a NameServer and a broker in one process until SIGTERM or Ctrl-C.

    Everything is kept below DIR and found there again the next time. When both accept
    requests, one line is printed: `ready namesrv=HOST:PORT broker=HOST:PORT pid=N`.

    rocketq up --dir /tmp/try --namesrv-port 0 --broker-port 0
    rocketq up --set flushDiskType=SYNC_FLUSH --set defaultTopicQueueNums=4
    """
    log_to_stderr(verbosity)
    try:
        settings = parse_assignments(assignments or ())
        for key, option in _OWN_OPTIONS.items():
            if key in settings:
                raise CannotStart(f"--set {key}: use {option} instead")
        config_text.warn_about_unknown(settings, BrokerConfig, StoreConfig, NamesrvConfig)
        root = directory.absolute()
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
            StoreConfig(store_path_root_dir=str(root / "store")), settings
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
    except (CannotStart, ConfigError) as error:
        fail(error)

    async def program(stop: asyncio.Event) -> None:
        check_ports_free(host, [namesrv_port, *broker_ports(broker_config)])
        name_server = NameServer(namesrv_config)
        async with started(name_server):
            broker = Broker(
                config_text.update(broker_config, {"namesrvAddr": name_server.address}),
                store_config,
                owns_process=True,
            )
            async with started(broker):
                await _registered(name_server, broker_config.broker_name)
                print(
                    f"ready namesrv={name_server.address} "
                    f"broker={broker.address} pid={os.getpid()}",
                    flush=True,
                )
                await wait_for_either(stop, name_server, broker)

    serve(program)


run = command(up)


async def _registered(name_server: NameServer, broker_name: str) -> None:
    """Clients that find the NameServer must find the broker too."""
    try:
        async with asyncio.timeout(_REGISTRATION_TIMEOUT_S):
            await name_server.broker_known(broker_name)
    except TimeoutError:
        raise CannotStart("the broker could not register at its NameServer") from None
