"""`rocketq admin` and `mqadmin`: the sub-commands of RocketMQ's administration tool."""

import sys

from typer.main import get_command

# Importing a family declares its sub-commands, in the order in which help lists them.
from rocketq.cli.admin import brokers, groups, messages, name_servers, offsets, topics
from rocketq.cli.admin.command import AnyCaseGroup, app

__all__ = [
    "app",
    "brokers",
    "groups",
    "messages",
    "name_servers",
    "offsets",
    "run_as_mqadmin",
    "topics",
]


_USAGE_ERROR = 2


def run_as_mqadmin() -> None:
    """`mqadmin`, with the overview and the sentences of RocketMQ's own."""
    group = get_command(app)
    assert isinstance(group, AnyCaseGroup)
    arguments = sys.argv[1:]
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("help", "-h", "--help"):
        print(_overview(group))
        return
    with group.make_context("mqadmin", [], resilient_parsing=True) as context:
        if group.get_command(context, arguments[0]) is None:
            print(f"The sub command {arguments[0]} not exist.")
            return
    try:
        group.main(arguments, prog_name="mqadmin")
    except SystemExit as end:
        # RocketMQ ends with 1 where options are missing or unknown.
        raise SystemExit(1 if end.code == _USAGE_ERROR else end.code) from None


def _overview(group: AnyCaseGroup) -> str:
    lines = ["The most commonly used mqadmin commands are:"]
    lines += [
        f"   {name:<35} {(each.help or '').splitlines()[0]}"
        for name, each in group.commands.items()
    ]
    lines += ["", "See 'mqadmin help <command>' for more information on a specific command."]
    return "\n".join(lines)
