"""`rocketq archive`: topics kept as Parquet, and brought back from there."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, group
from rocketq.cli.failures import fail, log_to_stderr
from rocketq.common.errors import RocketqError
from rocketq.common.extras import how_to_install

Directory = Annotated[Path, Argument(metavar="DIR", help="The archive's folder.")]


def run_archive(
    directory: Directory,
    topics: Annotated[str, Option("--topics", "-t", metavar="T,T", help="The topics to keep.")],
    name_servers: options.NameServers = None,
    once: Annotated[bool, Option("--once", help="Catch up with the topics and end.")] = False,
    interval_s: Annotated[
        int, Option("--interval", metavar="S", minimum=1, help="Seconds between two rounds.")
    ] = 60,
    file_mb: Annotated[
        int, Option("--file-mb", metavar="MB", minimum=1, help="How large files become.")
    ] = 128,
    keep_days: Annotated[
        int | None,
        Option("--keep-days", metavar="N", minimum=1, help="Let go of what is older."),
    ] = None,
    delta: Annotated[
        bool, Option("--delta", help="List the files as a Delta table as well: DIR/data.")
    ] = False,
    allow_gaps: Annotated[
        bool,
        Option("--allow-gaps", help="Go on where brokers have deleted what was not archived."),
    ] = False,
) -> None:
    """Keep topics as Parquet, by topic and day: all there is, then what comes, until Ctrl-C.

    It goes on where the archive ends, so it may be stopped and started at any time. Small files
    are made into large ones. Spark reads an archive and what brokers have as one table:
    option("archive", DIR).
    """
    _check_packages()
    from rocketq.spark.archive.archiver import Archiver

    log_to_stderr(0)
    given = {
        "namesrv": options.known_name_servers(name_servers),
        "subscribe": topics,
        "failOnDataLoss": "false" if allow_gaps else "true",
    }
    try:
        archiver = Archiver(
            directory, given, file_bytes=file_mb << 20, keep_days=keep_days, delta=delta
        )
        with closing(archiver), _stopped_by_signals() as stop:
            while True:
                done = archiver.round()
                if done.rows or once:
                    print(f"{done.rows:,} messages archived in {done.files} files", flush=True)
                if done.compacted:
                    print(f"{done.compacted} small files made into large ones", flush=True)
                if done.expired:
                    print(f"{done.expired} files let go", flush=True)
                if once or stop.wait(interval_s):
                    break
    except (RocketqError, OSError) as error:
        fail(error)


def replay_archive(
    directory: Directory,
    topic: Annotated[str, Option("--topic", "-t", metavar="T", help="The topic as archived.")],
    target: Annotated[
        str | None, Option("--to-topic", metavar="T", help="Where to; without it the same topic.")
    ] = None,
    since: Annotated[
        str | None,
        Option("--from", metavar="TIME", help="Stored then or later, like 2026-01-31T10:00:00Z."),
    ] = None,
    until: Annotated[
        str | None, Option("--to", metavar="TIME", help="Stored before; both are UTC unless said.")
    ] = None,
    rate: Annotated[
        int | None,
        Option("--rate", metavar="N", minimum=1, help="At most so many messages per second."),
    ] = None,
    name: Annotated[
        str | None,
        Option("--name", metavar="NAME", help="Replays of one name bring a message back once."),
    ] = None,
    name_servers: options.NameServers = None,
) -> None:
    """Bring archived messages back into a topic: order and keys kept, each once.

    Messages of one queue go to one queue. Started again after a failure it goes on where it was,
    and the same command once more brings nothing back twice; give it another --name to do so.
    """
    _check_packages()
    from rocketq.spark.archive.replay import Replay, run_replay, sink_for
    from rocketq.spark.options import sink_options

    log_to_stderr(0)
    try:
        replay = Replay(
            topic=topic,
            target=target or topic,
            since_ms=_milliseconds(since),
            until_ms=_milliseconds(until),
            rate=rate,
            name=name,
        )
        sink = sink_options({"namesrv": options.known_name_servers(name_servers)})
        rows = run_replay(directory, replay, sink_for(sink, replay.target))
    except (RocketqError, OSError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
    print(f"{rows:,} messages of {topic} are in {replay.target}")


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _check_packages() -> None:
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None or importlib.util.find_spec("pyspark") is None:
        fail(f"archives need the extra spark: {how_to_install('spark')}")


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set: a round that has begun is finished."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


run = group(
    "Topics kept as Parquet, and brought back.", {"run": run_archive, "replay": replay_archive}
)
