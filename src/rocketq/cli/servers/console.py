"""`rocketq console`: the web console, in a process of its own."""

import asyncio
import os
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Option, command
from rocketq.cli.failures import CannotStart, fail
from rocketq.cli.servers.child import WithParent, stop_with_parent
from rocketq.cli.servers.serving import check_ports_free, serve, wait_for_either
from rocketq.cli.servers.settings import start_logging
from rocketq.common.extras import how_to_install


def console(
    name_servers: options.NameServers = None,
    host: Annotated[
        str, Option(metavar="H", help="The address to listen on; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(metavar="P", help="The port; 0 picks a free one.")] = 8082,
    allow_host: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Another name in the URL under which browsers may reach it; may be repeated.",
        ),
    ] = None,
    read_only: Annotated[bool, Option("--read-only", help="Show everything, change nothing.")] = (
        False
    ),
    login: Annotated[
        bool, Option("--login", help="Ask for a login even before a broker has wanted one.")
    ] = False,
    with_parent: WithParent = False,
    verbosity: options.Verbosity = 0,
    log_level: options.LogLevel = None,
    log_file: options.LogFile = None,
    log_json: options.LogJson = False,
) -> None:
    """Serve the web console until SIGTERM or Ctrl-C.

    It shows a cluster and changes it, through the same requests as mqadmin, and works with
    RocketMQ's own brokers too. When it answers it prints one line: `ready console=URL pid=N`.

    Where brokers want signatures, people log in with the users that the brokers know. What the
    console asks for itself is signed with the keys of $ROCKETMQ_HOME/conf/tools.yml. Every change
    is a line of the log `rocketq.audit`.

    rocketq console -n 127.0.0.1:9876
    rocketq console -n ns-1:9876;ns-2:9876 --host 0.0.0.0 --allow-host console.example.org
    """
    logs = options.log_options(verbosity, log_level, log_file, log_json)
    try:
        start_logging(logs)
        try:
            from rocketq.console.app import serving
            from rocketq.console.config import ConsoleConfig
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("rocketq"):
                raise
            raise CannotStart(
                f"the console is not installed: {how_to_install('console')}"
            ) from None
    except CannotStart as error:
        fail(error)
    config = ConsoleConfig(
        name_servers=options.known_name_servers(name_servers),
        host=host,
        port=port,
        read_only=read_only,
        always_login=login,
        hosts=tuple(allow_host or ()),
    )

    async def program(stop: asyncio.Event) -> None:
        if with_parent:
            stop_with_parent(stop)
        check_ports_free(host, [port])
        async with serving(config) as running:
            print(f"ready console={running.url} pid={os.getpid()}", flush=True)
            await wait_for_either(stop, running)

    serve(program)


run = command(console)
