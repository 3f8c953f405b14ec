"""docs/benchmarks.md: the figures of one run of `make bench`, as tables and charts."""

import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import charts
from benchmarks.scenarios import Scenario

Line = dict[str, object]
Table = Mapping[tuple[str, str], Mapping[str, float]]

TITLES = {
    "java": "RocketMQ 5.5.0",
    "rocketq": "rocketq",
    "pure": "rocketq uncompiled",
    "two": "rocketq, 2 brokers",
}


def medians(lines: Sequence[Line]) -> Table:
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


def spread(figures: Mapping[str, float], name: str, digits: int = 0) -> str:
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


def page(lines: Sequence[Line], wanted: Sequence[Scenario], rounds: int, charts_in: Path) -> str:
    table = medians(lines)
    names = [name for name in ("java", "rocketq", "pure") if any(k[0] == name for k in table)]
    out = [
        "# Benchmarks",
        "",
        "Made by `make bench`. The same official Java client (RocketMQ 5.5.0) drives each system",
        "in turn on the same cores; medians over the rounds, lowest and highest in brackets.",
        "Client and broker share the cores, so that messages per second say as much about the",
        "client; the CPU a broker spends on a message is the steadiest figure. Each system is",
        "first loaded until a message costs the same three times in a row. A measurement during",
        "which others took more than 0.15 cores, or the host more than 0.1, is made again, twice",
        "at most; the least disturbed one counts.",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Python {platform.python_version()}, {java_version()}",
        f"- {time.strftime('%Y-%m-%d')}, rounds: {rounds} (uncompiled, restart and two brokers: 1)",
        f"- commit: {commit()}",
        "- again: `make bench`",
        *beside(charts_in.parent),
        "",
    ]
    if "java" in names:
        out += ratios(table, wanted)
    out += loads(table, wanted, names)
    out += start_and_memory(table, names)
    out += one_way(table, names)
    if any(key[0] == "two" for key in table):
        out += two_brokers(table, wanted)
    out += ["## Charts", ""]
    for title, file in draw(table, wanted, names, charts_in):
        out += [f"![{title}](charts/{file})", ""]
    return "\n".join(out).rstrip() + "\n"


def beside(folder: Path) -> list[str]:
    """The pages of the other measurements, where they have been made."""
    pages = {
        "benchmarks-growth.md": "how cost grows",
        "benchmarks-spark.md": "Spark beside Kafka's connector",
        "benchmarks-sdk.md": "the SDK beside the Java client",
        "benchmarks-pop.md": "pop beside the Java broker",
    }
    return [
        f"- {title}: [{name}]({name})" for name, title in pages.items() if (folder / name).exists()
    ]


def loads(table: Table, wanted: Sequence[Scenario], names: Sequence[str]) -> list[str]:
    out = ["## Loads", ""]
    out += [
        "| load (128 B bodies, ASYNC_FLUSH) | system | msgs/s | broker CPU s per million | p50 ms "
        "| p99 ms | errors | cores others took | cores the host took |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario in wanted:
        for name in names:
            figures = table.get((name, scenario.name), {})
            out.append(
                f"| {scenario.title} | {TITLES[name]} | {spread(figures, 'tps')} "
                f"| {spread(figures, 'broker_cpu_s_per_million', 1)} "
                f"| {spread(figures, 'p50_ms', 2)} | {spread(figures, 'p99_ms', 2)} "
                f"| {spread(figures, 'errors')} | {spread(figures, 'other_cores', 2)} "
                f"| {spread(figures, 'steal_cores', 2)} |"
            )
    return [*out, ""]


def ratios(table: Table, wanted: Sequence[Scenario]) -> list[str]:
    out = ["## rocketq to the Java broker", "", "Each goal is a ratio in one run.", ""]
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
    return [*out, ""]


def start_and_memory(table: Table, names: Sequence[str]) -> list[str]:
    out = ["## Start, memory, idle", ""]
    out += [
        "Seconds from the start of NameServer and broker to the first acknowledged message: on an",
        "empty store, and after kill -9 with a log of 4.5 GB (page cache warm).",
        "",
        "| system | start s | restart s | RSS after start MB | anonymous after the loads MB "
        "| CPU when idle, % of a core |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        start, memory = table.get((name, "start"), {}), table.get((name, "memory"), {})
        idle, restart = table.get((name, "idle"), {}), table.get((name, "restart"), {})
        out.append(
            f"| {TITLES[name]} | {spread(start, 'first_ack_s', 2)} "
            f"| {spread(restart, 'first_ack_s', 2)} | {spread(start, 'rss')} "
            f"| {spread(memory, 'anon')} | {spread(idle, 'cpu_percent', 2)} |"
        )
    return [*out, ""]


def one_way(table: Table, names: Sequence[str]) -> list[str]:
    out = ["## A flood of one-way messages", ""]
    out += [
        "Over one blocking socket (`benchmarks/flood.py`), so that every message did reach the",
        "broker. The official client cannot show this: it keeps a flood in its own memory.",
        "",
        "| system | sent | stored | % | stored per second |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        figures = table.get((name, "flood"), {})
        out.append(
            f"| {TITLES[name]} | {spread(figures, 'sent')} | {spread(figures, 'stored')} "
            f"| {spread(figures, 'stored_percent', 1)} | {spread(figures, 'tps')} |"
        )
    return [*out, ""]


def two_brokers(table: Table, wanted: Sequence[Scenario]) -> list[str]:
    one, two = (spread(table.get((name, "flood"), {}), "tps") for name in ("rocketq", "two"))
    out = ["## Two broker processes", ""]
    out += [
        "`rocketq up --brokers 2` beside one broker. With the Java client on the same two cores",
        "there is none left for the second broker, and each has fewer messages to handle together:",
        "a message costs more. A client that only writes prepared bytes leaves room for both: the",
        f"flood above is stored at {two} a second by two brokers, at {one} by one.",
        "",
    ]
    return (
        out + loads(table, [s for s in wanted if ("two", s.name) in table], ["rocketq", "two"])[2:]
    )


def draw(
    table: Table, wanted: Sequence[Scenario], names: Sequence[str], folder: Path
) -> list[tuple[str, str]]:
    """One chart a question; their titles and files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    parts = (
        ("Start to first acknowledgement, s", "start.svg", "first_ack_s", "start"),
        ("Resident memory after start, MB", "memory.svg", "rss", "start"),
        ("Anonymous memory after the loads, MB", "memory-loaded.svg", "anon", "memory"),
    )
    for title, file, key in (
        ("Throughput, messages per second", "throughput.svg", "tps"),
        ("Broker CPU seconds per million messages", "cpu.svg", "broker_cpu_s_per_million"),
        ("Latency p99, ms", "latency.svg", "p99_ms"),
    ):
        rows = [
            (
                scenario.title,
                {TITLES[n]: table.get((n, scenario.name), {}).get(key, 0.0) for n in names},
            )
            for scenario in wanted
            if any(key in table.get((n, scenario.name), {}) for n in names)
        ]
        if rows:
            (folder / file).write_text(charts.bars(title, rows))
            drawn.append((title, file))
    for title, file, key, scenario_name in parts:
        values = {TITLES[n]: table.get((n, scenario_name), {}).get(key, 0.0) for n in names}
        (folder / file).write_text(charts.bars(title, [("", values)]))
        drawn.append((title, file))
    return drawn


def commit() -> str:
    """What was measured; a page that does not say so cannot be checked."""
    git = ["git", "-C", str(Path(__file__).parent)]
    name = subprocess.run(
        [*git, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return name.stdout.strip() or "unknown"


def java_version() -> str:
    if not shutil.which("java"):
        return "no Java"
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return (answer.stderr or answer.stdout).splitlines()[0].replace('"', "")
