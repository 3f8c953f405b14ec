"""`make bench`: rocketq and Apache RocketMQ in turn, under the same official Java client.

The systems alternate (A B A B ...), each round on a fresh store, so that what the machine does
meanwhile hits them alike; medians and the spread are reported, and every goal is a ratio between
the two in one run. Broker CPU seconds per million messages decides: client and broker share the
cores, so throughput says as much about the client.

    python -m benchmarks.compare [--rounds 3] [--quick] [--without-java] [--only NAME ...]

Writes docs/benchmarks.md, the charts beside it and every raw result to build/benchmarks.jsonl.
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
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import charts, systems
from benchmarks.systems import ROOT, Running

RAW = ROOT / "build" / "benchmarks.jsonl"
PAGE = ROOT / "docs" / "benchmarks.md"
BACKLOG = "produce --mode batch --threads 4 --batch 32 --size 128 --warmup 0 --topic backlog"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a scenario must reach, as ratios rocketq / Java."""

    tps: float | None = None
    cpu: float | None = None
    p50: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load: the arguments of Load.java, and what to reach."""

    name: str
    title: str
    arguments: str
    goal: Goal
    settings: tuple[str, ...] = ()
    needs_backlog: bool = False


def timed(quick: bool) -> str:
    return "--warmup 3 --seconds 4" if quick else "--warmup 8 --seconds 10"


def scenarios(quick: bool) -> list[Scenario]:
    for_a_while = timed(quick)
    backlog = 200_000 if quick else 1_000_000
    produce = "produce --size 128 --mode"
    return [
        Scenario(
            "sync-64",
            "sync, 64 threads",
            f"{produce} sync --threads 64 {for_a_while}",
            Goal(tps=4, cpu=1 / 7, p50=1 / 4, p99=1 / 4),
        ),
        Scenario(
            "async-4000",
            "async, 4,000 in flight",
            f"{produce} async --threads 1 --inflight 4000 {for_a_while}",
            Goal(tps=5, cpu=1 / 9),
        ),
        Scenario(
            "sync-1",
            "sync, 1 thread",
            f"{produce} sync --threads 1 {for_a_while}",
            Goal(tps=2, cpu=1 / 5),
        ),
        Scenario(
            "batch-32",
            "batch of 32, 4 threads",
            f"{produce} batch --threads 4 --batch 32 {for_a_while}",
            Goal(tps=2, cpu=1 / 6),
        ),
        Scenario(
            "push",
            f"push consume, {backlog:,} backlog",
            f"consume --count {backlog} --topic backlog",
            Goal(tps=1.3, cpu=1 / 4),
            needs_backlog=True,
        ),
        Scenario(
            "lite-pull",
            f"lite pull, {backlog:,} backlog",
            f"pull --count {backlog} --topic backlog",
            Goal(tps=1.3, cpu=1 / 4),
            needs_backlog=True,
        ),
        Scenario(
            "paced-2000",
            "paced 2,000 msgs/s",
            f"latency --rate 2000 --e2e {for_a_while}",
            Goal(cpu=1 / 7, p50=0.6, p99=1 / 5),
        ),
        Scenario(
            "async-1k",
            "async 1 KB, 1,000 in flight",
            f"produce --mode async --threads 1 --inflight 1000 --size 1024 {for_a_while}",
            Goal(tps=5),
        ),
        Scenario(
            "oneway",
            "one-way flood, 1 thread",
            f"{produce} oneway --threads 1 {for_a_while}",
            Goal(),
        ),
        Scenario(
            "sync-64-flush",
            "sync, 64 threads, SYNC_FLUSH",
            f"{produce} sync --threads 64 {for_a_while}",
            Goal(tps=3, cpu=1 / 5),
            settings=("flushDiskType=SYNC_FLUSH",),
        ),
    ]


# ------------------------------------------------------------------------ runs

Starter = Callable[[Path, tuple[str, ...]], AbstractContextManager[Running]]


def starters(with_java: bool, with_pure: bool) -> dict[str, Starter]:
    chosen: dict[str, Starter] = {
        "rocketq": lambda folder, settings: systems.rocketq(folder, settings=settings)
    }
    if with_java:
        chosen["java"] = lambda folder, settings: systems.java(folder, settings=settings)
    if with_pure:
        chosen["pure"] = lambda folder, settings: systems.rocketq(
            folder, settings=settings, pure=True
        )
    return chosen


def idle_cpu_percent(running: Running, seconds: float) -> float:
    before, began = running.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return round(100 * (running.cpu_s() - before) / (time.monotonic() - began), 2)


def run_round(
    label: str, start: Starter, wanted: list[Scenario], folder: Path, number: int, quick: bool
) -> list[dict[str, object]]:
    """One system through all scenarios: those of one setting on one start."""
    results: list[dict[str, object]] = []

    def note(name: str, figures: dict[str, object]) -> None:
        line = {"system": label, "scenario": name, "round": number, **figures}
        results.append(line)
        print(json.dumps(line), flush=True)

    for settings in dict.fromkeys(scenario.settings for scenario in wanted):
        with start(folder / label, settings) as running:
            if not settings:
                note("start", {"first_ack_s": running.first_ack_s, **running.memory_mb()})
                note("idle", {"cpu_percent": idle_cpu_percent(running, 3 if quick else 15)})
            group = [scenario for scenario in wanted if scenario.settings == settings]
            if any(scenario.needs_backlog for scenario in group):
                count = 200_000 if quick else 1_000_000
                systems.load(running, f"{BACKLOG} --count {count}")
            for scenario in group:
                try:
                    figures: dict[str, object] = dict(systems.load(running, scenario.arguments))
                except (RuntimeError, subprocess.TimeoutExpired) as failure:
                    figures = {"failed": str(failure)}
                note(scenario.name, figures)
            if not settings:
                note("memory", dict(running.memory_mb()))
    return results


# ----------------------------------------------------------------------- report


def medians(lines: list[dict[str, object]]) -> dict[tuple[str, str], dict[str, float]]:
    """(system, scenario) -> figure -> median over the rounds, with the spread beside it."""
    gathered: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in lines:
        figures = gathered.setdefault((str(line["system"]), str(line["scenario"])), {})
        for name, value in line.items():
            if isinstance(value, int | float) and name != "round":
                figures.setdefault(name, []).append(float(value))
    table: dict[tuple[str, str], dict[str, float]] = {}
    for key, figures in gathered.items():
        table[key] = {name: statistics.median(values) for name, values in figures.items()}
        for name, values in figures.items():
            table[key][f"{name}:low"], table[key][f"{name}:high"] = min(values), max(values)
    return table


def spread(figures: dict[str, float], name: str, digits: int = 0) -> str:
    if name not in figures:
        return "-"
    low, high = figures[f"{name}:low"], figures[f"{name}:high"]
    text = f"{figures[name]:,.{digits}f}"
    return text if low == high else f"{text} ({low:,.{digits}f}-{high:,.{digits}f})"


def against(goal: float | None, ours: float, theirs: float, *, more_is_better: bool) -> str:
    if not theirs or not ours:
        return "-"
    ratio = ours / theirs
    text = f"{ratio:.1f}x" if ratio >= 1 else f"1/{1 / ratio:.1f}"
    if goal is None:
        return text
    reached = ratio >= goal if more_is_better else ratio <= goal
    return f"{text} {'reached' if reached else 'missed'}"


def page(lines: list[dict[str, object]], wanted: list[Scenario], rounds: int) -> str:
    table = medians(lines)
    names = [name for name in ("java", "rocketq", "pure") if any(k[0] == name for k in table)]
    titles = {"java": "RocketMQ 5.5.0", "rocketq": "rocketq", "pure": "rocketq uncompiled"}
    out = ["# Benchmarks", ""]
    out += [
        "Made by `make bench`. The same official Java client (RocketMQ 5.5.0) drives each system",
        "in turn on the same two cores; medians over the rounds, lowest and highest in brackets.",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Python {platform.python_version()}, {java_version()}",
        f"- {rounds} rounds, {time.strftime('%Y-%m-%d')}",
        "",
        "| load (128 B bodies, ASYNC_FLUSH) | system | msgs/s | broker CPU s per million | p50 ms "
        "| p99 ms | errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for scenario in wanted:
        for name in names:
            figures = table.get((name, scenario.name), {})
            out.append(
                f"| {scenario.title} | {titles[name]} | {spread(figures, 'tps')} "
                f"| {spread(figures, 'broker_cpu_s_per_million', 1)} "
                f"| {spread(figures, 'p50_ms', 2)} | {spread(figures, 'p99_ms', 2)} "
                f"| {spread(figures, 'errors')} |"
            )
    out += ["", "## Start, memory, idle", ""]
    out += ["| system | start to first ack s | RSS after start MB | anonymous after the loads MB |"]
    out += ["|---|---|---|---|"]
    for name in names:
        start, memory = table.get((name, "start"), {}), table.get((name, "memory"), {})
        out.append(
            f"| {titles[name]} | {spread(start, 'first_ack_s', 2)} | {spread(start, 'rss')} "
            f"| {spread(memory, 'anon')} |"
        )
    out += ["", "| system | CPU when idle, % of a core |", "|---|---|"]
    for name in names:
        out.append(
            f"| {titles[name]} | {spread(table.get((name, 'idle'), {}), 'cpu_percent', 2)} |"
        )
    if "java" in names:
        out += ["", "## Ratios to the Java broker in this run", ""]
        out += ["| load | msgs/s | CPU per message | p50 | p99 |", "|---|---|---|---|---|"]
        for scenario in wanted:
            ours = table.get(("rocketq", scenario.name), {})
            theirs = table.get(("java", scenario.name), {})
            cells = [
                against(goal, ours.get(key, 0), theirs.get(key, 0), more_is_better=better)
                for key, goal, better in (
                    ("tps", scenario.goal.tps, True),
                    ("broker_cpu_s_per_million", scenario.goal.cpu, False),
                    ("p50_ms", scenario.goal.p50, False),
                    ("p99_ms", scenario.goal.p99, False),
                )
            ]
            out.append(f"| {scenario.title} | {' | '.join(cells)} |")
    out += ["", "## Charts", ""]
    out += [f"![{title}](charts/{file})" for title, file in draw(table, wanted, names, titles)]
    return "\n".join(out) + "\n"


def draw(
    table: dict[tuple[str, str], dict[str, float]],
    wanted: list[Scenario],
    names: list[str],
    titles: dict[str, str],
) -> list[tuple[str, str]]:
    folder = PAGE.parent / "charts"
    folder.mkdir(exist_ok=True)
    drawn = []
    for title, file, key in (
        ("Throughput, messages per second", "throughput.svg", "tps"),
        ("Broker CPU seconds per million messages", "cpu.svg", "broker_cpu_s_per_million"),
        ("Latency p99, ms", "latency.svg", "p99_ms"),
    ):
        rows = [
            (
                scenario.title,
                {titles[n]: table.get((n, scenario.name), {}).get(key, 0.0) for n in names},
            )
            for scenario in wanted
            if any(key in table.get((n, scenario.name), {}) for n in names)
        ]
        if rows:
            (folder / file).write_text(charts.bars(title, rows))
            drawn.append((title, file))
    return drawn


def java_version() -> str:
    if not shutil.which("java"):
        return "no Java"
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return (answer.stderr or answer.stdout).splitlines()[0].replace('"', "")


# ------------------------------------------------------------------------- main


def alone_on_loopback(arguments: list[str]) -> None:
    """Go on in a network namespace with nothing but loopback, where that can be had.

    Java's replication port listens on every interface whatever it is told.
    """
    if os.environ.get("ROCKETQ_ON_LOOPBACK") or not shutil.which("unshare"):
        return
    inner = [sys.executable, "-m", "benchmarks.compare", *arguments]
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inner]
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0:
        os.environ["ROCKETQ_ON_LOOPBACK"] = "1"
        os.execvp(command[0], command)


def install_java() -> bool:
    """Whether the Java peer is there, after trying to fetch it."""
    if not shutil.which("java") or not shutil.which("mvn"):
        print("Java 17 and Maven are needed for the comparison; measuring rocketq alone")
        return False
    cache = Path(os.environ.get("ROCKETQ_PEERS") or Path.home() / ".cache" / "rocketq-peers")
    if not (cache / "rocketmq-5.5.0").is_dir():
        subprocess.run([sys.executable, str(systems.LAUNCHER), "install"], check=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the harness")
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--without-pure", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="SCENARIO")
    parser.add_argument("--no-page", action="store_true", help="print, leave docs alone")
    options = parser.parse_args()
    with_java = not options.without_java and install_java()
    alone_on_loopback(sys.argv[1:])
    wanted = [
        scenario
        for scenario in scenarios(options.quick)
        if not options.only or scenario.name in options.only
    ]
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="rocketq-bench-") as folder:
        for number in range(1, options.rounds + 1):
            for label, start in starters(with_java, not options.without_pure).items():
                lines += run_round(label, start, wanted, Path(folder), number, options.quick)
                shutil.rmtree(Path(folder) / label, ignore_errors=True)
    RAW.parent.mkdir(exist_ok=True)
    RAW.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not options.no_page:
        PAGE.write_text(page(lines, wanted, options.rounds))
        print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
