"""The table of `rocketq`'s sub-commands.

Each is a module of its own, imported when it is called for. What help shows of it stands here.
"""

import importlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup


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
    "store": LazyCommand("rocketq.cli.store", "Look into a broker's files."),
}


class LazyGroup(TyperGroup):
    """Knows the names and summaries of its commands; imports the one that is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        application: typer.Typer = importlib.import_module(lazy.module).app
        command = typer.main.get_command(application)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from rocketq.cli.version import version_line

        print(version_line())
        raise typer.Exit


@app.callback()
def rocketq(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """RocketMQ's whole system in Python.

    \b
    rocketq up                       a NameServer and a broker, data in ./rocketq-data
    rocketq send orders "hello"      a message
    rocketq tail orders              see it arrive
    rocketq admin topicList          what there is
    """


def run() -> None:
    app()
