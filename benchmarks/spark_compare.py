"""`python -m benchmarks.spark_compare`: topics in Spark, beside Spark's own Kafka connector.

A rocketq broker and a Kafka broker run on this machine, and one Spark session (local[2], the
Spark version of the connector) reads and writes eight queues of each in turn: batch read,
AvailableNow stream and batch write, bodies of 128 B and 1 KB. Every goal is a ratio between the
two in one run.

    python -m benchmarks.spark_compare [--quick] [--rounds 3] [--only batch-write]
                                       [--without-kafka] [--no-page]

The first run fetches Kafka, its connector and a pyspark of their own into the cache of peers/.
Writes docs/benchmarks-spark.md, and every raw result to build/benchmarks-spark.jsonl.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks import systems
from benchmarks.page_cache import full_page_cache
from benchmarks.report import commit
from benchmarks.systems import ROOT

RAW = ROOT / "build" / "benchmarks-spark.jsonl"
PAGE = ROOT / "docs" / "benchmarks-spark.md"
KAFKA = ROOT / "peers" / "kafka" / "kafka"
CACHE = Path(os.environ.get("ROCKETQ_PEERS") or Path.home() / ".cache" / "rocketq-peers")
SPARK = os.environ.get("SPARK_VERSION", "4.2.0")
# What rocketq needs beside pyspark, in the connector's environment.
PACKAGES = ["pyarrow>=18", "pandas<3", "orjson>=3.10", "uvloop>=0.19", "Cython>=3.1"]

TITLES = {
    "batch-crc32": "batch read, checksum of every body",
    "batch-noop": "batch read, all rows taken",
    "stream-noop": "stream, AvailableNow",
    "batch-write": "batch write",
}
MEASURES = [*TITLES, "batch-noop-all", "batch-noop-ready"]
# rocketq / Kafka, at 128 B and at 1 KB
GOALS = {
    "batch-crc32": (3.0, 4.0),
    "batch-noop": (3.0, 4.0),
    "stream-noop": (3.0, 4.0),
    "batch-write": (1.5, 1.5),
}


@contextmanager
def kafka(folder: Path) -> Iterator[dict[str, Any]]:
    """A Kafka node with an empty store."""
    base = [sys.executable, str(KAFKA)]
    where = ["--dir", str(folder / "kafka")]
    command = [*base, "start", *where, "--fresh"]
    started = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    try:
        state: dict[str, Any] = json.loads(started.stdout.strip().splitlines()[-1])
        yield state
    finally:
        subprocess.run([*base, "stop", *where], capture_output=True, timeout=120, check=False)


@contextmanager
def without_kafka() -> Iterator[dict[str, Any]]:
    yield {}


def install_kafka() -> Path:
    """Fetch what is missing; the Python that has the connector's Spark."""
    python = CACHE / f"venv-spark-{SPARK}" / "bin" / "python"
    if not python.exists() or not (CACHE / f"spark-kafka-{SPARK}").is_dir():
        subprocess.run([sys.executable, str(KAFKA), "install"], check=True)
    has_all = [str(python), "-c", "import pyarrow, pandas, orjson, uvloop, cython"]
    if subprocess.run(has_all, capture_output=True, check=False).returncode:
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    python = Path(sys.executable) if options.without_kafka else install_kafka()
    with (
        systems.rocketq(folder / "rocketq") as ours,
        without_kafka() if options.without_kafka else kafka(folder) as theirs,
    ):
        command = [str(python), "-m", "benchmarks.spark_session", "--namesrv", ours.namesrv]
        command += ["--rocketq-pids", *map(str, ours.pids)]
        command += ["--rounds", str(options.rounds), "--warm", str(options.warm)]
        command += ["--only", options.only] if options.only else []
        command += ["--size", str(options.size)]
        command += ["--rows-128", str(options.rows_128), "--rows-1024", str(options.rows_1024)]
        if theirs:
            jars = ",".join(
                str(jar) for jar in sorted((CACHE / f"spark-kafka-{SPARK}").glob("*.jar"))
            )
            command += ["--bootstrap", theirs["bootstrap"], "--kafka-pids", str(theirs["pid"])]
            command += ["--jars", jars]
        variables = dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}")
        # Spark starts Python again and again: without kept bytecode that is all one measures.
        unwanted = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
        for name in (*unwanted, "PYTHONDONTWRITEBYTECODE"):
            variables.pop(name, None)
        lines = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT
        ) as session:
            assert session.stdout is not None
            for line in session.stdout:
                print(line, end="", flush=True)
                if line.startswith("{"):
                    lines.append(json.loads(line))
        if session.returncode:
            sys.exit(f"the session ended with {session.returncode}")
        return lines


# Report


def spread(lines: list[dict[str, Any]], figure: str, digits: int = 0) -> str:
    values = [float(line[figure]) for line in lines]
    if not values:
        return "-"
    text = f"{statistics.median(values):,.{digits}f}"
    low, high = min(values), max(values)
    return text if low == high else f"{text} ({low:,.{digits}f}-{high:,.{digits}f})"


def page(lines: list[dict[str, Any]], rounds: int) -> str:
    def of(measure: str, size: int, system: str) -> list[dict[str, Any]]:
        return [
            line
            for line in lines
            if (line["measure"], line["size"], line["system"]) == (measure, size, system)
        ]

    rows = {
        size: next(line["rows"] for line in lines if line["size"] == size) for size in (128, 1024)
    }
    out = ["# Benchmarks on Spark", ""]
    out += [
        "Made by `python -m benchmarks.spark_compare`. One Spark session reads and writes topics",
        "of rocketq and of Kafka in turn, eight queues each, both brokers on the same machine;",
        "medians over the rounds, lowest and highest in brackets. The columns are those that",
        "both have: key, body, topic, queue, offset, time. The times are of whole queries: one of",
        "ours costs 0.2 s before its first row, a stream a second (Spark starts a Python of its",
        "own for it), one of Kafka's less. The page cache is full when it begins, as on a broker",
        "that has run for a while. Spark and its workers talk over Unix sockets (docs/spark.md).",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Spark {lines[0]['spark']}, local[2]; Python {platform.python_version()}",
        f"- {rows[128]:,} rows of 128 B, {rows[1024]:,} of 1 KB; {rounds} rounds; "
        f"{time.strftime('%Y-%m-%d')}, commit {commit()}",
        "",
        "| work | body | system | rows/s | MB/s | Spark CPU s per million "
        "| broker CPU s per million | other cores |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for measure, title in TITLES.items():
        for size in (128, 1024):
            for system in ("kafka", "rocketq"):
                found = of(measure, size, system)
                if found:
                    out.append(
                        f"| {title} | {size} | {system} | {spread(found, 'rows_per_s')} "
                        f"| {spread(found, 'mb_per_s', 1)} "
                        f"| {spread(found, 'spark_cpu_s_per_million', 2)} "
                        f"| {spread(found, 'broker_cpu_s_per_million', 2)} "
                        f"| {spread(found, 'other_cores', 2)} |"
                    )
    out += ["", "With all fifteen columns, the map of properties among them:", ""]
    out += ["| work | body | rows/s |", "|---|---|---|"]
    for size in (128, 1024):
        found = of("batch-noop-all", size, "rocketq")
        out.append(f"| batch read, all rows taken | {size} | {spread(found, 'rows_per_s')} |")
    out += [
        "",
        "Spark alone, with a source in Python whose rows are ready beforehand",
        "(benchmarks/ready_source.py); no such source can be faster:",
        "",
    ]
    out += ["| work | body | rows/s | Spark CPU s per million |", "|---|---|---|---|"]
    for size in (128, 1024):
        found = of("batch-noop-ready", size, "none")
        cpu = spread(found, "spark_cpu_s_per_million", 2)
        rows_per_s = spread(found, "rows_per_s")
        out.append(f"| batch read, all rows taken | {size} | {rows_per_s} | {cpu} |")
    if any(line["system"] == "kafka" for line in lines):
        out += ["", "## Ratios to the Kafka connector in this run", ""]
        out += ["| work | 128 B | 1 KB |", "|---|---|---|"]
        for measure, title in TITLES.items():
            cells = []
            for size, goal in zip((128, 1024), GOALS[measure], strict=True):
                ours, theirs = (
                    statistics.median([line["rows_per_s"] for line in of(measure, size, system)])
                    for system in ("rocketq", "kafka")
                )
                ratio = ours / theirs
                word = "reached" if ratio >= goal else "missed"
                cells.append(f"{ratio:.1f}x (goal {goal:g}x: {word})")
            out.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds that are not counted")
    # Enough for seconds of work: a stream takes about one to start.
    parser.add_argument("--rows-128", type=int, default=4_000_000)
    parser.add_argument("--rows-1024", type=int, default=1_200_000)
    parser.add_argument("--only", default="", choices=MEASURES, help="no page then")
    parser.add_argument("--size", type=int, default=0, choices=(128, 1024), help="no page then")
    parser.add_argument("--quick", action="store_true", help="few rows, to try the harness")
    parser.add_argument("--without-kafka", action="store_true", help="rocketq alone, own pyspark")
    parser.add_argument("--no-page", action="store_true", help="print, leave docs alone")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warm = 1, 1
        options.rows_128, options.rows_1024 = 50_000, 20_000
    if not options.without_kafka and not (shutil.which("java") and shutil.which("mvn")):
        sys.exit("Java 17 and Maven are needed for the comparison; --without-kafka does without")
    with (
        tempfile.TemporaryDirectory(prefix="rocketq-spark-bench-") as name,
        nullcontext() if options.quick else full_page_cache(Path(name)),
    ):
        lines = measure(options, Path(name))
    RAW.parent.mkdir(exist_ok=True)
    RAW.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not (options.no_page or options.only or options.size):
        PAGE.write_text(page(lines, options.rounds))
        print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
