"""`rocketq admin` and `mqadmin`: the sub-commands of RocketMQ's administration tool."""

import sys

# Importing a family declares its sub-commands.
from rocketq.cli.admin import (
    access,
    batches,
    consumer_status,
    exports,
    groups,
    messages,
    monitoring,
    not_there,
    offsets,
    plain_access,
    topics,
    traces,
)
from rocketq.cli.admin.cluster import (
    brokers,
    cold_data,
    containers,
    controllers,
    name_servers,
    replication,
    send_times,
)
from rocketq.cli.admin.command import TABLE
from rocketq.cli.commands import command, found_name, group, summary_of

__all__ = [
    "access",
    "batches",
    "brokers",
    "cold_data",
    "consumer_status",
    "containers",
    "controllers",
    "exports",
    "groups",
    "messages",
    "monitoring",
    "name_servers",
    "not_there",
    "offsets",
    "plain_access",
    "replication",
    "run",
    "run_as_mqadmin",
    "send_times",
    "topics",
    "traces",
]

run = group("mqadmin's sub-commands, with its names and options; --json prints data.", TABLE)

_USAGE_ERROR = 2


def run_as_mqadmin() -> None:
    """`mqadmin`, with the overview and the sentences of RocketMQ's own."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("help", "-h", "--help"):
        print(_overview())
        return
    name = found_name(arguments[0], TABLE)
    if name is None:
        print(f"The sub command {arguments[0]} not exist.")
        return
    try:
        command(TABLE[name])(f"mqadmin {name}", arguments[1:])
    except SystemExit as end:
        # RocketMQ ends with 1 where options are missing or unknown.
        raise SystemExit(1 if end.code == _USAGE_ERROR else end.code) from None


def _overview() -> str:
    lines = ["The most commonly used mqadmin commands are:"]
    lines += [f"   {name:<35} {summary_of(function)}" for name, function in TABLE.items()]
    lines += ["", "See 'mqadmin help <command>' for more information on a specific command."]
    return "\n".join(lines)
