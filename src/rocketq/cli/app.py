"""The table of `rocketq`'s sub-commands.

Each is a module of its own, imported when it is called for. What help shows of it stands here.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from rocketq.cli.commands import Run, overview, unknown_command
from rocketq.cli.interrupts import leave_at_once
from rocketq_command import interrupted_code


class LazyCommand(NamedTuple):
    """Where a sub-command lives and what it is for."""

    module: str
    summary: str
    with_word: str = ""
    """The module for it where a word follows, as in `rocketq broker list`, if it is another."""

    def modules(self) -> list[str]:
        return [self.module, *([self.with_word] if self.with_word else [])]

    def run(self, arguments: list[str]) -> Run:
        has_word = bool(arguments) and not arguments[0].startswith("-")
        name = self.with_word if self.with_word and has_word else self.module
        found: Run = importlib.import_module(name).run
        return found


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "up": LazyCommand(
        "rocketq.cli.servers.up.command", "Run a NameServer and a broker in one process."
    ),
    "namesrv": LazyCommand("rocketq.cli.servers.namesrv", "Run a NameServer."),
    "broker": LazyCommand(
        "rocketq.cli.servers.broker",
        "Run a broker; with list, describe, config or set: those that run.",
        with_word="rocketq.cli.human.broker",
    ),
    "console": LazyCommand("rocketq.cli.servers.console", "Run the web console."),
    "proxy": LazyCommand("rocketq.cli.servers.proxy", "Serve gRPC clients before brokers."),
    "controller": LazyCommand(
        "rocketq.cli.servers.controller", "Decide which broker of a name is master."
    ),
    "send": LazyCommand("rocketq.cli.messages.send", "Send messages to a topic."),
    "tail": LazyCommand("rocketq.cli.messages.tail", "Print a topic's messages as they come."),
    "admin": LazyCommand("rocketq.cli.admin", "mqadmin's sub-commands, by its names."),
    "bench": LazyCommand("rocketq.cli.bench", "Put a cluster under load and measure it."),
    "store": LazyCommand("rocketq.cli.store", "Look into a broker's files."),
    "topic": LazyCommand("rocketq.cli.human.topic", "List, describe, create and delete topics."),
    "group": LazyCommand("rocketq.cli.human.group", "Consumer groups: lag, members, offsets."),
    "cluster": LazyCommand("rocketq.cli.human.cluster", "The brokers, and how they are doing."),
    "message": LazyCommand("rocketq.cli.human.message", "Find a message, and what became of it."),
    "user": LazyCommand("rocketq.cli.human.user", "Who may come in, and what they may do."),
    "completion": LazyCommand("rocketq.cli.completion", "Print a script for a shell's Tab key."),
    "pipeline": LazyCommand("rocketq.cli.pipeline", "Make and run data pipelines on Spark."),
    "archive": LazyCommand("rocketq.cli.archive", "Keep topics as Parquet, and bring them back."),
}

_PROGRAM: Final = "rocketq"
_CLIENT_CONFIG: Final = "--client-config"
_DESCRIPTION: Final = """\
RocketMQ in Python: servers, tools, pipelines.

  rocketq up                       a NameServer and a broker, data in ./rocketq-data
  rocketq send orders "hello"      a message
  rocketq tail orders              see it arrive
  rocketq topic list               what there is
  rocketq bench produce            how fast it is
  rocketq --version                which version, and whether it is compiled

Before the command, `--client-config FILE` names a file with accessKey, secretKey and what else
a client needs where users are on; ROCKETQ_CLIENT_CONFIG of the environment does the same."""


def _with_client_config(words: list[str]) -> list[str]:
    """Take the one option off that stands before commands."""
    option, _, value = words[0].partition("=") if words else ("", "", "")
    if option != _CLIENT_CONFIG:
        return words
    rest = words[1:] if value else words[2:]
    os.environ["ROCKETQ_CLIENT_CONFIG"] = value or (words[1] if len(words) > 1 else "")
    return rest


def run() -> None:
    """`rocketq`, with the arguments of this process."""
    name, *arguments = _with_client_config(sys.argv[1:]) or ["--help"]
    if name == "help" and arguments:
        name, arguments = arguments[0], [*arguments[1:], "--help"]
    if name in ("-h", "--help", "help"):
        summaries = {each: lazy.summary for each, lazy in COMMANDS.items()}
        print(overview(_PROGRAM, _DESCRIPTION, summaries))
        return
    if name in ("-V", "--version", "version"):
        from rocketq.cli.version import version_line

        print(version_line())
        return
    lazy = COMMANDS.get(name)
    if lazy is None:
        unknown_command(_PROGRAM, name, COMMANDS)
    code = interrupted_code(name)
    leave_at_once(code)
    try:
        lazy.run(arguments)(f"{_PROGRAM} {name}", arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(code) from None
    except BrokenPipeError:
        # Whoever read it has seen enough; what is left must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
