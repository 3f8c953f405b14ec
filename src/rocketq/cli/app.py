"""The table of `rocketq`'s sub-commands.

Each is a module of its own, imported when it is called for. What help shows of it stands here.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from rocketq.cli.commands import Run, overview, unknown_command


class LazyCommand(NamedTuple):
    """Where a sub-command lives and what it is for."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "up": LazyCommand("rocketq.cli.up", "Run a NameServer and a broker in one process."),
    "namesrv": LazyCommand("rocketq.cli.namesrv", "Run a NameServer."),
    "broker": LazyCommand("rocketq.cli.broker", "Run a broker."),
    "send": LazyCommand("rocketq.cli.send", "Send messages to a topic."),
    "tail": LazyCommand("rocketq.cli.tail", "Print a topic's messages as they come."),
    "admin": LazyCommand("rocketq.cli.admin", "Everything mqadmin does: topics, groups, offsets."),
    "bench": LazyCommand("rocketq.cli.bench", "Put a cluster under load and measure it."),
    "store": LazyCommand("rocketq.cli.store", "Look into a broker's files."),
    "pipeline": LazyCommand("rocketq.cli.pipeline", "Make and run data pipelines on Spark."),
}

_PROGRAM: Final = "rocketq"
_DESCRIPTION: Final = """\
RocketMQ's whole system in Python.

  rocketq up                       a NameServer and a broker, data in ./rocketq-data
  rocketq send orders "hello"      a message
  rocketq tail orders              see it arrive
  rocketq admin topicList          what there is
  rocketq bench produce            how fast it is
  rocketq --version                which version, and whether it is compiled"""


def run() -> None:
    """`rocketq`, with the arguments of this process."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        summaries = {each: lazy.summary for each, lazy in COMMANDS.items()}
        print(overview(_PROGRAM, _DESCRIPTION, summaries))
        return
    if name == "--version":
        from rocketq.cli.version import version_line

        print(version_line())
        return
    lazy = COMMANDS.get(name)
    if lazy is None:
        unknown_command(_PROGRAM, name, COMMANDS)
    command: Run = importlib.import_module(lazy.module).run
    command(f"{_PROGRAM} {name}", arguments)
