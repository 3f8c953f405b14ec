"""What a column of the matrix finds out: one outcome a row."""

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a feature works, and otherwise why not."""

    ok: bool
    detail: str = ""


Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Column:
    """One pair of programs that have to understand each other."""

    name: str
    title: str
    run: Callable[[Path, Sequence[str]], Outcomes]
    """Given an empty folder and the rows wanted (none: all), what works."""


def read_lines(lines: Iterable[str]) -> dict[str, Outcome]:
    """The JSON lines that the feature programs print, Java's and ours: feature, ok, ms, detail."""
    found = {}
    for line in lines:
        if line.startswith('{"feature"'):
            result = json.loads(line)
            found[result["feature"]] = Outcome(result["ok"], result["detail"])
    return found


def run_program(command: Sequence[str], folder: Path, within_s: float) -> dict[str, Outcome]:
    """Run a feature program to its end and collect its lines."""
    with open(folder / "features.log", "ab") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, text=True
        )
    try:
        output, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return read_lines(output.splitlines())
