"""Options that several sub-commands share."""

import os
from pathlib import Path
from typing import Annotated, Final

from rocketq.cli.commands import Option

_LOCAL_NAME_SERVER: Final = "127.0.0.1:9876"

Verbosity = Annotated[
    int,
    Option(
        "-v",
        "--verbose",
        count=True,
        help="Log changes of state to stderr; -vv logs everything.",
    ),
]
Host = Annotated[
    str | None, Option(metavar="H", help="The address to listen on; 0.0.0.0 is every one.")
]
ConfigFile = Annotated[
    Path | None,
    Option("-c", "--config", "--configFile", metavar="FILE", help="A file with RocketMQ's keys."),
]
Assignments = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set one of RocketMQ's keys; may be repeated."),
]
PrintConfig = Annotated[
    bool,
    Option("-p", "--printConfigItem", help="Print every option and its value, and end."),
]
NameServers = Annotated[
    str | None,
    Option(
        "-n",
        "--namesrv",
        "--namesrvAddr",
        metavar="ADDR",
        help="NameServers, as host:port;host:port. Else NAMESRV_ADDR of the environment.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print data as JSON, for other programs.")]


def known_name_servers(given: str | None) -> str:
    """Those given, else the environment's, else the one that `rocketq up` starts."""
    return given or os.environ.get("NAMESRV_ADDR") or _LOCAL_NAME_SERVER
