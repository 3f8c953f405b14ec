"""`rocketq pipeline`: projects of Spark's declarative pipelines, made and run."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, group
from rocketq.cli.failures import fail, log_to_stderr
from rocketq.cli.interrupts import first_calls, raise_keyboard_interrupt
from rocketq.common.errors import RocketqError
from rocketq.spark.run import pipeline
from rocketq.spark.wire.tally import READ, WRITTEN, Tallies

_INTERVAL_S: Final = 0.5


def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Where; a new or empty folder.")],
    name_servers: options.NameServers = None,
    source: Annotated[
        str, Option("--source", metavar="TOPIC", help="The topic that is read.")
    ] = "orders",
    result: Annotated[
        str, Option("--result", metavar="TOPIC", help="The topic that is written.")
    ] = "order-totals",
) -> None:
    """Write a small pipeline that works: topic, cleaned stream, sums, result topic."""
    try:
        pipeline.init(
            folder,
            namesrv=options.known_name_servers(name_servers),
            source=source,
            result=result,
        )
    except (RocketqError, OSError) as error:
        fail(error)
    print(f"{folder} is ready: README.md tells what is in it")
    print(f"  python {folder / 'send_orders.py'}    some orders to work on")
    print(f"  rocketq pipeline run {folder}    read what has come, and write the sums")


def run_pipeline(
    folder: Annotated[Path, Argument(metavar="DIR", help="A pipeline project.")] = Path(),
    remote: Annotated[
        str,
        Option("--remote", metavar="URL", help="local[N], or a Connect server: sc://host:port."),
    ] = "local[*]",
    full_refresh: Annotated[
        list[str] | None,
        Option("--full-refresh", metavar="TABLE", help="Compute it anew; may be repeated."),
    ] = None,
    full_refresh_all: Annotated[
        bool, Option("--full-refresh-all", help="Compute everything anew.")
    ] = False,
) -> None:
    """Run a pipeline project: what has come since the last run is worked on."""
    log_to_stderr(0)
    arguments = [f"--full-refresh={table}" for table in full_refresh or ()]
    if full_refresh_all:
        arguments.append("--full-refresh-all")
    began = time.monotonic()
    rejected: dict[str, int] = {}
    try:
        with first_calls(raise_keyboard_interrupt), Tallies() as tallies, _shown(tallies):
            code = pipeline.run(
                folder,
                remote=remote,
                arguments=arguments,
                tallied_at=tallies.address,
                on_rejected=rejected.__setitem__,
            )
    except RocketqError as error:
        fail(error)
    if code:
        raise SystemExit(code)
    seconds = time.monotonic() - began
    print(f"{_line(tallies)} in {seconds:.1f} s", file=sys.stderr)
    for table, count in rejected.items():
        print(f"{count:,} rows were left out: they are in table {table}", file=sys.stderr)


def _line(tallies: Tallies) -> str:
    return ", ".join(
        f"{tallies.rows[what]:,} rows ({tallies.bytes[what] / 1e6:,.1f} MB) {what}"
        for what in (READ, WRITTEN)
    )


@contextmanager
def _shown(tallies: Tallies) -> Iterator[None]:
    """Keep a line on the terminal up to date while something happens."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def keep_current() -> None:
        last = 0
        while not over.wait(_INTERVAL_S):
            total = sum(tallies.bytes.values())
            if total != last:
                rate = (total - last) / _INTERVAL_S / 1e6
                last = total
                line = f"\r\x1b[K{_line(tallies)}, {rate:,.1f} MB/s"
                print(line, end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=keep_current, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


run = group("Declarative pipelines of Spark on topics.", {"init": init, "run": run_pipeline})
