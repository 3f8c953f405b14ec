"""Options that several sub-commands share."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

_LOCAL_NAME_SERVER: Final = "127.0.0.1:9876"

Verbosity = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Log changes of state to stderr; -vv logs everything.",
    ),
]
Host = Annotated[
    str | None, typer.Option(metavar="H", help="The address to listen on; 0.0.0.0 is every one.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", "--configFile", metavar="FILE", help="A file with RocketMQ's keys."
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one of RocketMQ's keys; may be repeated."),
]
PrintConfig = Annotated[
    bool,
    typer.Option("-p", "--printConfigItem", help="Print every option and its value, and end."),
]
NameServers = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        "--namesrvAddr",
        metavar="ADDR",
        help="NameServers, as host:port;host:port. Else NAMESRV_ADDR of the environment.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print data as JSON, for other programs.")]


def known_name_servers(given: str | None) -> str:
    """Those given, else the environment's, else the one that `rocketq up` starts."""
    return given or os.environ.get("NAMESRV_ADDR") or _LOCAL_NAME_SERVER


def application() -> typer.Typer:
    """The shell of a sub-command, as all of them are set up."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
