"""Options that several sub-commands share."""

import os
from pathlib import Path
from typing import Annotated, Final

from rocketq.cli.commands import Option
from rocketq.cli.servers.logs import LEVELS, LogOptions

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
LogLevel = Annotated[
    str | None,
    Option(
        "--log-level",
        metavar="LEVEL",
        choices=LEVELS,
        help="debug, info, warning or error; SIGUSR1 and SIGUSR2 log more and less. [warning]",
    ),
]
LogFile = Annotated[
    Path | None,
    Option(
        "--log-file",
        metavar="FILE",
        help="Log there instead of to stderr; ten older files of 64 MB are kept.",
    ),
]
LogJson = Annotated[bool, Option("--log-json", help="Log JSON, one object per line.")]
Strict = Annotated[bool, Option("--strict", help="Refuse to start with a key that is not known.")]
Host = Annotated[
    str | None, Option(metavar="H", help="The address to listen on; 0.0.0.0 is every one.")
]
MetricsPort = Annotated[
    int | None,
    Option(
        "--metrics-port",
        metavar="P",
        minimum=0,
        help="Serve figures for Prometheus and health over HTTP there; 0 picks a free port.",
    ),
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
        help="NameServers, as host:port;host:port. [NAMESRV_ADDR of the environment,"
        f" else {_LOCAL_NAME_SERVER}]",
    ),
]
Json = Annotated[bool, Option("--json", help="Print data as JSON, for other programs.")]


def known_name_servers(given: str | None) -> str:
    """Those given, else the environment's, else the one that `rocketq up` starts."""
    return given or os.environ.get("NAMESRV_ADDR") or _LOCAL_NAME_SERVER


def metrics_settings(port: int | None) -> dict[str, str]:
    """The keys that `--metrics-port` stands for."""
    if port is None:
        return {}
    return {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}


def log_options(verbosity: int, level: str | None, file: Path | None, as_json: bool) -> LogOptions:
    """`--log-level`, else what `-v` stands for."""
    by_verbosity = ("warning", "info", "debug")[min(verbosity, 2)]
    return LogOptions(level or by_verbosity, file, as_json)
