"""`rocketq completion`."""

import shutil
import subprocess

import pytest

from tests.cli.programs import run


def completed(*words: str) -> list[str]:
    """What bash offers when Tab is pressed after these words."""
    script = run("completion", "bash").stdout
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _rocketq\n"
    program += 'printf "%s\\n" "${COMPREPLY[@]}"'
    return subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()


def test_bash_completes_commands_sub_commands_and_options() -> None:
    assert completed("rocketq", "ta") == ["tail"]
    assert completed("rocketq", "topic", "de") == ["describe", "delete"]
    assert "--from" in completed("rocketq", "tail", "orders", "--f")
    assert completed("rocketq", "group", "reset", "g", "--to") == ["--to", "--topic"] or completed(
        "rocketq", "group", "reset", "g", "--to"
    ) == ["--topic", "--to"]
    assert "topicList" in completed("rocketq", "admin", "topicL")


def test_zsh_and_fish_have_scripts_too() -> None:
    assert "bashcompinit" in run("completion", "zsh").stdout
    assert "-l from" in run("completion", "fish").stdout


def test_another_shell_is_one_clear_line() -> None:
    ended = run("completion", "tcsh")
    assert ended.returncode == 1
    assert ended.stderr == (
        "rocketq: there is no completion for tcsh; there is bash, zsh and fish\n"
    )


pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
