"""Options that several sub-commands share."""

from pathlib import Path
from typing import Annotated

import typer

Verbosity = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, help="Log changes of state to stderr; -vv logs everything."
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
        help="NameServers, as host:port;host:port. Else the environment's NAMESRV_ADDR.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print data as JSON, for other programs.")]


def application() -> typer.Typer:
    """The shell of a sub-command, as all of them are set up."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
