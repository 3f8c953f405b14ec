"""Commands declared as functions: the signature is the command line.

    def up(
        host: Annotated[str, Option("--host", metavar="H", help="Where to listen.")] = "127.0.0.1",
    ) -> None:
        \"""Run a NameServer and a broker.\"""

The standard library's argparse does the work: a broker's start is counted in milliseconds,
and libraries that make nicer errors cost two hundred of them before `main` begins.
"""

import argparse
import difflib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

Run = Callable[[str, list[str]], None]
"""A command or a group of them: called with what it is named and its arguments."""

F = TypeVar("F", bound=Callable[..., Any])

_USAGE_ERROR: Final = 2


class UsageError(Exception):
    """Options that do not go together; the help is shown with it."""


class Option:
    """An option by its names; the parameter's type and default say the rest.

    Without names it is called what the parameter is called.
    A `bool` is a switch (`"--follow/--no-follow"` for one with an opposite), a list may be
    repeated, `count` counts how often it is given, `choices` are all there is to choose from.
    """

    def __init__(
        self,
        *names: str,
        metavar: str | None = None,
        help: str = "",
        hidden: bool = False,
        count: bool = False,
        minimum: int | None = None,
        choices: Sequence[str] | None = None,
    ) -> None:
        self.names = names
        self.metavar = metavar
        self.help = argparse.SUPPRESS if hidden else help
        self.count = count
        self.minimum = minimum
        self.choices = choices


class Argument:
    """A word without a name, by its place."""

    def __init__(self, *, metavar: str, help: str = "") -> None:
        self.metavar = metavar
        self.help = help


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a parameter's type means for its option."""

    convert: Callable[[str], Any]
    is_switch: bool
    is_repeated: bool


# One command


def command(function: Callable[..., None]) -> Run:
    """Make a command of a function."""

    def run(program: str, arguments: list[str]) -> None:
        parser = _parser(function, program)
        if getattr(function, "takes_anything", False) and not {"-h", "--help"} & {*arguments}:
            arguments = []
        # Words may stand before and after options.
        values = vars(parser.parse_intermixed_args(arguments))
        try:
            function(**values)
        except UsageError as error:
            print(error, file=sys.stderr)
            parser.print_help(sys.stderr)
            raise SystemExit(1) from None

    run.function = function  # type: ignore[attr-defined]  # for completion
    return run


def takes_anything(function: F) -> F:
    """A command that does not look at what it is given."""
    function.takes_anything = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, slots=True)
class DescribedOption:
    """An option or a word, as a page shows it."""

    names: str
    help: str
    long_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """What a command says of itself."""

    text: str
    options: list[DescribedOption]


def described(run: Run) -> dict[str, Described]:
    """A command under "", or each of a group's sub-commands under its name."""
    table: Mapping[str, Callable[..., None]] | None = getattr(run, "table", None)
    if table is None:
        return {"": _described(run.function)}  # type: ignore[attr-defined]
    return {name: _described(function) for name, function in table.items()}


def _described(function: Callable[..., None]) -> Described:
    options = []
    for action in _parser(function, "")._actions:
        if action.help is argparse.SUPPRESS or action.dest == "help":
            continue
        takes = action.nargs != 0 and action.metavar is not None
        word = f" {action.metavar}" if takes else ""
        names = ", ".join(action.option_strings) + word if action.option_strings else word.strip()
        long_names = tuple(name for name in action.option_strings if name.startswith("--"))
        text = (action.help or "").replace("%%", "%")
        options.append(DescribedOption(names, text, long_names))
    return Described(inspect.getdoc(function) or "", options)


def words_after(run: Run) -> dict[str, list[str]]:
    """What may follow a command: its options, or each of its sub-commands with theirs."""
    return {
        name: ["--help", *(word for option in each.options for word in option.long_names)]
        for name, each in described(run).items()
    }


def summary_of(function: Callable[..., Any]) -> str:
    """The first line of what a command says about itself."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _parser(function: Callable[..., None], program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=inspect.getdoc(function),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for parameter in inspect.signature(function).parameters.values():
        hint, spec = typing.get_args(parameter.annotation)
        kind = _kind(hint, spec)
        if isinstance(spec, Argument):
            _add_argument(parser, parameter, spec, kind)
        else:
            _add_option(parser, parameter, spec, kind)
    return parser


def _kind(hint: Any, spec: Option | Argument) -> _Kind:
    if isinstance(hint, types.UnionType):
        (hint,) = [each for each in typing.get_args(hint) if each is not type(None)]
    is_repeated = typing.get_origin(hint) is list
    if is_repeated:
        (hint,) = typing.get_args(hint)
    assert hint in (str, int, float, bool, Path), hint
    minimum = spec.minimum if isinstance(spec, Option) else None
    convert = _number(hint, minimum) if hint in (int, float) else hint
    return _Kind(convert, hint is bool, is_repeated)


def _number(kind: type[int] | type[float], minimum: int | None) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}") from None
        if minimum is not None and not number >= minimum:
            raise argparse.ArgumentTypeError(f"{number} is less than {minimum}")
        return number

    return convert


def _add_argument(
    parser: argparse.ArgumentParser, parameter: inspect.Parameter, spec: Argument, kind: _Kind
) -> None:
    is_optional = parameter.default is not inspect.Parameter.empty
    parser.add_argument(
        parameter.name,
        metavar=spec.metavar,
        help=_escaped(spec.help),
        type=kind.convert,
        nargs="?" if is_optional else "+" if kind.is_repeated else None,
        default=parameter.default if is_optional else None,
    )


def _add_option(
    parser: argparse.ArgumentParser, parameter: inspect.Parameter, spec: Option, kind: _Kind
) -> None:
    is_required = parameter.default is inspect.Parameter.empty
    default = None if is_required else parameter.default
    settings: dict[str, Any] = {
        "dest": parameter.name,
        "help": _escaped(spec.help),
        "default": default,
        "required": is_required,
    }
    names = list(spec.names) or ["--" + parameter.name.replace("_", "-")]
    if spec.count:
        settings["action"] = "count"
    elif kind.is_switch and "/" in names[0]:
        names = [names[0].partition("/")[0]]
        settings["action"] = argparse.BooleanOptionalAction
    elif kind.is_switch:
        settings["action"] = "store_true"
    else:
        settings["type"] = kind.convert
        settings["metavar"] = spec.metavar
        settings["choices"] = spec.choices
        if kind.is_repeated:
            settings["action"] = "append"
        elif default is not None and spec.help is not argparse.SUPPRESS:
            settings["help"] += f" [{default}]"
    parser.add_argument(*names, **settings)


def _escaped(text: str) -> str:
    """Help as it is: argparse would read a % in it as a place to put something."""
    return text if text is argparse.SUPPRESS else text.replace("%", "%%")


# Several of them


def group(description: str, table: Mapping[str, Callable[..., None]]) -> Run:
    """Make one command of several; their names may be written in any case."""

    def run(program: str, arguments: list[str]) -> None:
        if not arguments or arguments[0] in ("-h", "--help"):
            summaries = {name: summary_of(function) for name, function in table.items()}
            print(overview(program, description, summaries))
            return
        name = found_name(arguments[0], table)
        if name is None:
            unknown_command(program, arguments[0], table)
        command(table[name])(f"{program} {name}", arguments[1:])

    run.table = table  # type: ignore[attr-defined]  # for completion
    return run


def found_name(wanted: str, table: Mapping[str, object]) -> str | None:
    """The command somebody means, however it is written."""
    by_lower = {name.lower(): name for name in table}
    return by_lower.get(wanted.lower())


def overview(program: str, description: str, summaries: Mapping[str, str]) -> str:
    """What there is, with a line for each."""
    width = max(map(len, summaries)) + 2
    lines = [f"usage: {program} COMMAND ...", "", description, "", "commands:"]
    lines += [f"  {name:<{width}}{summary}" for name, summary in summaries.items()]
    lines += ["", f"`{program} COMMAND --help` tells what a command takes."]
    return "\n".join(lines)


def unknown_command(program: str, wanted: str, table: Mapping[str, object]) -> NoReturn:
    nearest = difflib.get_close_matches(wanted, table, n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else f" `{program} --help` lists them."
    print(f"{program}: there is no command {wanted}.{hint}", file=sys.stderr)
    raise SystemExit(_USAGE_ERROR)
