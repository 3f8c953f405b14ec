"""Commands declared as functions."""

from pathlib import Path
from typing import Annotated, Any

import pytest

from rocketq.cli.commands import Argument, Option, UsageError, command, group

seen: dict[str, Any] = {}


def everything(
    place: Annotated[str, Argument(metavar="PLACE", help="Where; 100% needed.")],
    text: Annotated[str | None, Argument(metavar="[TEXT]")] = None,
    needed: Annotated[str, Option("-n", "--needed", metavar="X", help="Has no default.")] = "",
    number: Annotated[int, Option("--number", metavar="N", minimum=1, help="How many.")] = 3,
    path: Annotated[Path | None, Option("--path", metavar="FILE")] = None,
    switch: Annotated[bool, Option("-s", "--switch", help="On or off.")] = False,
    follow: Annotated[bool, Option("--follow/--no-follow")] = True,
    names: Annotated[list[str] | None, Option("--name", metavar="NAME")] = None,
    loud: Annotated[int, Option("-v", count=True)] = 0,
    own_name: Annotated[str, Option(metavar="Y", help="Named after itself.")] = "y",
    secret: Annotated[str | None, Option("--secret", hidden=True)] = None,
) -> None:
    """Do everything.

    And say more about it.
    """
    seen.clear()
    seen.update(locals())


def strict(topic: Annotated[str, Option("-t", "--topic", metavar="TOPIC")]) -> None:
    """Want a topic that goes together with itself."""
    if topic == "wrong":
        raise UsageError("this goes together with nothing")


def test_values_have_the_types_of_the_parameters() -> None:
    line = "here there --number 7 --path a/b -s --no-follow --name x --name y -vv --own-name z"
    command(everything)("tool", line.split())
    assert seen == {
        "place": "here",
        "text": "there",
        "needed": "",
        "number": 7,
        "path": Path("a/b"),
        "switch": True,
        "follow": False,
        "names": ["x", "y"],
        "loud": 2,
        "own_name": "z",
        "secret": None,
    }


def test_what_is_left_out_has_its_default() -> None:
    command(everything)("tool", ["here"])
    assert (seen["text"], seen["number"], seen["follow"], seen["names"]) == (None, 3, True, None)


def test_help_shows_the_docstring_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command(everything)("tool", ["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "Do everything.\n\nAnd say more about it." in shown
    assert "How many. [3]" in shown
    assert "Where; 100% needed." in shown
    assert "--secret" not in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["here", "--number", "many"], "argument --number: many is not a whole number"),
        (["here", "--number", "0"], "argument --number: 0 is less than 1"),
        (["here", "--numb", "1"], "unrecognized arguments: --numb"),
        ([], "the following arguments are required: PLACE"),
    ],
)
def test_a_mistake_ends_with_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command(everything)("tool", arguments)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_an_option_without_a_default_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command(strict)("tool", [])
    assert "-t/--topic" in capsys.readouterr().err


def test_options_that_do_not_go_together_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command(strict)("tool", ["-t", "wrong"])
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("this goes together with nothing\nusage: tool")


def test_a_group_lists_finds_and_misses_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run = group("Two things.", {"everyThing": everything, "strict": strict})
    run("tool", [])
    listed = capsys.readouterr().out
    assert "  everyThing  Do everything.\n" in listed
    run("tool", ["EVERYTHING", "here"])
    assert seen["place"] == "here"
    with pytest.raises(SystemExit) as end:
        run("tool", ["strickt"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "tool: there is no command strickt. Did you mean strict?\n"
