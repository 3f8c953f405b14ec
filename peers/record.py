"""The last results of every column, so that a run of some columns leaves the others in place."""

import json
import time
from pathlib import Path
from typing import Any

from peers.outcomes import Column, Outcome, Outcomes
from peers.table import Table

RECORD = Path(__file__).resolve().parent.parent / "build" / "peers.json"


def keep(table: Table) -> None:
    """Remember complete columns."""
    known = _read()
    for column in table.columns:
        rows = {row: [each.ok, each.detail] for row, each in table.outcomes[column.name].items()}
        known[column.name] = {"date": time.strftime("%Y-%m-%d"), "rows": rows}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(known, indent=1) + "\n")


def newest(columns: list[Column]) -> tuple[Table, dict[str, str]]:
    """The last results of every column that has any, and the day of each."""
    known = _read()
    found = [column for column in columns if column.name in known]
    outcomes: dict[str, Outcomes] = {
        column.name: {
            row: Outcome(ok, detail) for row, (ok, detail) in known[column.name]["rows"].items()
        }
        for column in found
    }
    return Table(found, outcomes), {name: each["date"] for name, each in known.items()}


def _read() -> dict[str, dict[str, Any]]:
    try:
        known: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())
    except FileNotFoundError:
        return {}
    return known
