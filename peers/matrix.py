"""The compatibility matrix: rocketq and real Apache RocketMQ, each against the other.

    python -m peers.matrix [--only COLUMN ...] [--rows ROW ...] [--list]

Needs Java 17 and Maven; without them it says so and ends. Columns that were run with all rows
are written to docs/compatibility.md; any run fails when a cell that was green before is not.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import java, page, record, security
from peers.columns import COLUMNS
from peers.grpc import columns as grpc
from peers.outcomes import Outcome, Outcomes
from peers.servers import NEEDS_NO_OTHER_INTERFACE
from peers.table import Table, regressions, remember


def alone_on_loopback() -> None:
    """Go on in a network namespace with nothing but loopback, where that can be had.

    Java's brokers listen on every interface: 5.x with its replication port, 4.9 with all of them.
    """
    if os.environ.get(NEEDS_NO_OTHER_INTERFACE) or not shutil.which("unshare"):
        return
    inner = [sys.executable, "-m", "peers.matrix", *sys.argv[1:]]
    enter = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode == 0:
        os.environ[NEEDS_NO_OTHER_INTERFACE] = "1"
        os.execvp(enter[0], [*enter, *inner])


def run_columns(names: list[str], rows: list[str]) -> Table:
    columns = [column for column in COLUMNS if not names or column.name in names]
    outcomes: dict[str, Outcomes] = {}
    with tempfile.TemporaryDirectory(prefix="rocketq-peers-") as folder:
        for column in columns:
            began = time.monotonic()
            print(f"{column.title} ...", end=" ", flush=True)
            place = Path(folder) / column.name
            place.mkdir()
            try:
                found = column.run(place, rows)
            except Exception as failure:  # one column that cannot run leaves the others
                found = {"starts": Outcome(False, f"{type(failure).__name__}: {failure}")}
            green = sum(outcome.ok for outcome in found.values())
            print(f"{green} of {len(found)} in {time.monotonic() - began:.0f} s", flush=True)
            outcomes[column.name] = found
            shutil.rmtree(place, ignore_errors=True)
    return Table(columns, outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="COLUMN")
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW")
    parser.add_argument("--list", action="store_true", help="name the columns, run nothing")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{column.name:<24}{column.title}" for column in COLUMNS))
        return
    if unknown := set(options.only) - {column.name for column in COLUMNS}:
        parser.error(f"no column {', '.join(sorted(unknown))}; see --list")
    if missing := java.missing_tools():
        print(f"skipped: the matrix needs Java 17 and Maven, not found: {', '.join(missing)}")
        return
    if not os.environ.get(NEEDS_NO_OTHER_INTERFACE):
        java.install([java.V5, java.V4, java.CLIENT_4])
        if not options.only or any(name.startswith("grpc-") for name in options.only):
            grpc.install()
        if not options.only or {"users-go", "users-cpp"} & set(options.only):
            security.install()
        alone_on_loopback()

    table = run_columns(options.only, options.rows)
    print(f"\n{table.text()}\n")
    for failure in table.failures():
        print(f"not green: {failure}")
    lost = regressions(table, options.rows)
    if not options.rows:
        record.keep(table)
        page.write(*record.newest(COLUMNS))
    if lost:
        sys.exit("\n".join(["was green before:", *lost]))
    remember(table)


if __name__ == "__main__":
    main()
