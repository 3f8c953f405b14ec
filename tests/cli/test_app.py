"""The command's own face: help, version, what it does with mistakes."""

import platform
import re
import subprocess
import sys

import rocketq
from rocketq.cli.app import COMMANDS
from rocketq.cli.version import version_line
from rocketq.common.language.uncompiled import is_compiled
from rocketq.message.record import reader
from tests.cli.programs import ENVIRONMENT, run


def test_help_names_every_command() -> None:
    ended = run("--help")
    assert ended.returncode == 0
    for name, command in COMMANDS.items():
        assert name in ended.stdout
        assert command.summary in ended.stdout


def test_the_version_says_whether_it_is_compiled_and_on_which_python() -> None:
    ended = run("--version")
    assert ended.stdout == version_line() + "\n"
    assert rocketq.__version__ in ended.stdout
    form = "compiled" if is_compiled(reader) else "uncompiled"
    assert form in re.findall(r"\w+", ended.stdout)
    assert platform.python_version() in ended.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    ended = run("upp")
    assert ended.returncode == 2
    assert ended.stderr == "rocketq: there is no command upp. Did you mean up?\n"


def test_no_command_at_all_shows_what_there_is() -> None:
    assert run().stdout == run("--help").stdout


def test_help_is_there_before_anything_heavy_is_loaded() -> None:
    code = (
        "import sys; sys.argv = ['rocketq', '--help']; from rocketq.cli import main; main();"
        "heavy = [name for name in ('asyncio', 'orjson', 'uvloop') if name in sys.modules];"
        "sys.exit(len(heavy))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
