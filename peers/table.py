"""The table: what works between whom; on the terminal, in docs/compatibility.md, and as promised.

peers/expected.json remembers which cells were green, column by column. A cell that was green and
is not any more fails the run; a cell that turned green is added.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peers.outcomes import Column, Outcomes

EXPECTED = Path(__file__).resolve().parent / "expected.json"


@dataclass(frozen=True, slots=True)
class Table:
    """The outcomes of the columns that were run."""

    columns: Sequence[Column]
    outcomes: Mapping[str, Outcomes]

    def rows(self) -> list[str]:
        """The features in the order in which the columns name them first."""
        return list(dict.fromkeys(row for found in self.outcomes.values() for row in found))

    def cell(self, row: str, column: Column) -> str:
        outcome = self.outcomes[column.name].get(row)
        if outcome is None:
            return ""
        return "yes" if outcome.ok else "NO"

    def failures(self) -> list[str]:
        return [
            f"{column.title}: {row}: {outcome.detail}"
            for column in self.columns
            for row, outcome in self.outcomes[column.name].items()
            if not outcome.ok
        ]

    def text(self) -> str:
        """For a terminal: a number for each column, the titles above."""
        width = max((len(row) for row in self.rows()), default=0)
        lines = [f"{number}  {column.title}" for number, column in enumerate(self.columns, 1)]
        numbers = range(1, len(self.columns) + 1)
        lines += ["", " " * width + "".join(f"{number:>5}" for number in numbers)]
        for row in self.rows():
            cells = "".join(f"{self.cell(row, column):>5}" for column in self.columns)
            lines.append(f"{row:<{width}}{cells}")
        return "\n".join(lines)

    def markdown(self, rows: Sequence[str], columns: Sequence[Column]) -> list[str]:
        """A part of the table, for the page."""
        lines = ["| | " + " | ".join(column.title for column in columns) + " |"]
        lines.append("|---" * (len(columns) + 1) + "|")
        for row in rows:
            cells = " | ".join(self.cell(row, column) for column in columns)
            lines.append(f"| {row} | {cells} |")
        return lines


def read_expected() -> dict[str, list[str]]:
    """Column name -> rows that were green."""
    try:
        expected: dict[str, list[str]] = json.loads(EXPECTED.read_text())
    except FileNotFoundError:
        return {}
    return expected


def regressions(table: Table, rows: Sequence[str]) -> list[str]:
    """The cells that were green and are not, among those that were run."""
    lost = []
    for column in table.columns:
        for row in read_expected().get(column.name, []):
            outcome = table.outcomes[column.name].get(row)
            if (not rows or row in rows) and (outcome is None or not outcome.ok):
                lost.append(f"{column.title}: {row}: {outcome.detail if outcome else 'not run'}")
    return lost


def remember(table: Table) -> None:
    """Add what is green now to what has to stay green."""
    expected = read_expected()
    for column in table.columns:
        green = expected.setdefault(column.name, [])
        found = table.outcomes[column.name]
        green += [row for row, outcome in found.items() if outcome.ok and row not in green]
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")
