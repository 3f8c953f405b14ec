"""What a message costs as everything around it grows: one curve for each question.

    python -m benchmarks.growth [--quick] [--only NAME ...] [--backlog-gb 20]

A broker runs in a process of its own; this process only writes prepared requests and counts
the answers. The figure that decides is the broker's CPU seconds per million messages; how many
messages per second that made stands beside it. A curve is flat when its last figure is about its
first; where it is not, the page says why.

Writes docs/benchmarks-growth.md with a chart for each curve, and every figure to
build/growth.jsonl, from where `--only` takes the curves that it does not measure again. With
--quick all of it goes to build/growth-quick: short runs show that the curves work, not what they
look like.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import charts, growth_curves, growth_later
from benchmarks.growth_curves import FULL, QUICK, Curve, Point, Scale, Site
from benchmarks.report import commit
from benchmarks.systems import ROOT
from rocketq.aio import run

FLAT_UP_TO = 1.3
FILES_WANTED = 30_000


@dataclass(frozen=True, slots=True)
class Question:
    """One curve: what grows, by which steps, and what to know about it."""

    title: str
    x_name: str
    curve: Curve
    steps: tuple[float, ...]
    quick_steps: tuple[float, ...]
    note: str
    what: str = "sent"
    grows_by_nature: bool = False


QUESTIONS = {
    "topics": Question(
        "Topics",
        "topics",
        growth_curves.topics,
        (1, 10, 100, 1_000, 4_000, 10_000),
        (1, 100, 1_000),
        "128 B messages to all topics in turn, one queue each. The more queues are written, the "
        "more pages of their indexes are touched for the same number of messages. Each index file "
        "in use takes a descriptor, so not more than `maxMappedQueueFiles` (16,384), or half "
        "of what the system allows, are open at a time; one that was let go is opened again for "
        "its next message. All topics in turn is the worst case of that: what is written often "
        "stays open.",
    ),
    "queues": Question(
        "Queues of a topic",
        "queues",
        growth_curves.queues,
        (1, 4, 16, 64, 256, 1_024),
        (1, 16, 256),
        "128 B messages to all queues of one topic in turn. Each queue has an index file of its "
        "own, so that more pages are touched for the same number of messages.",
    ),
    "idle-connections": Question(
        "Idle connections",
        "open connections",
        growth_curves.idle_connections,
        (0, 100, 1_000, 5_000),
        (0, 100, 1_000),
        "Messages over one connection, while others are open and say nothing.",
    ),
    "active-connections": Question(
        "Active connections",
        "connections",
        growth_curves.active_connections,
        (1, 10, 100, 1_000),
        (1, 10, 100),
        "Messages over all connections, eight on their way on each. What one connection brings in "
        "one read is handled together and answered with one write: with one on its way there is "
        "a read and a write for each message, which costs more, with any number of connections.",
    ),
    "groups": Question(
        "Consumer groups of a topic",
        "groups",
        growth_curves.groups,
        (1, 10, 50, 100, 200),
        (1, 20),
        "Every group pulls the same messages, 32 at a time, and commits its offset with each "
        "pull. Messages are deliveries.",
        what="delivered",
    ),
    "backlog": Question(
        "Backlog",
        "GB in the log",
        growth_curves.backlog,
        (0.25, 1, 4, 8),
        (0.05, 0.2),
        "4 KB messages are read from the far end of the log after a restart, none of it in the "
        "page cache.",
        what="read",
    ),
    "sizes": Question(
        "Message size",
        "bytes",
        growth_curves.sizes,
        (16, 128, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304),
        (16, 1_024, 65_536, 4_194_304),
        "Larger messages cost more each, and less for each byte: the bytes are copied once and "
        "their checksum is made once. How much a GB costs hangs on the memory as well: pages of "
        "the page cache that have not been used before are given by the host of a virtual "
        "machine one by one. Where this was measured, a program that only touches 12 GB of new "
        "memory takes 2.3 to 3.5 CPU seconds per GB, and the largest messages write the most.",
        grows_by_nature=True,
    ),
    "delayed": Question(
        "Delayed messages waiting",
        "messages waiting",
        growth_curves.delayed,
        (0, 10_000, 100_000, 1_000_000),
        (0, 10_000),
        "Ordinary messages are sent while others wait for a time two hours away.",
    ),
    "invisible": Question(
        "Popped messages that are hidden",
        "messages hidden",
        growth_later.invisible,
        (0, 10_000, 100_000, 1_000_000),
        (0, 10_000, 50_000),
        "Messages are popped 32 at a time and acknowledged one by one, while others are popped "
        "and hidden for a day and a half. What is hidden lies in the timer log, and is looked "
        "at when its time comes.",
        what="popped and acknowledged",
    ),
    "timers": Question(
        "Pending timers",
        "timers pending",
        growth_later.pending_timers,
        (0, 100_000, 1_000_000, 5_000_000),
        (0, 10_000, 50_000),
        "Timers of one second are sent, placed and delivered, while others wait for an hour of "
        "the next day.",
        what="sent and delivered",
    ),
    "held-pulls": Question(
        "Consumers waiting in long polls",
        "consumers waiting",
        growth_curves.held_pulls,
        (0, 100, 1_000, 10_000),
        (0, 100, 1_000),
        "Each has a connection and a pull that the broker holds, on a topic that gets no "
        "messages; the messages go to another one.",
    ),
}


async def answer(
    question: Question, steps: Sequence[float], scale: Scale, folder: Path
) -> list[Point]:
    """One curve, on a broker of its own."""
    try:
        async with Site(folder, scale) as site:
            return [point async for point in question.curve(site, steps)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line_of(name: str, point: Point) -> dict[str, object]:
    return {
        "curve": name,
        "x": point.x,
        "broker_cpu_s_per_million": round(point.cpu_s_per_million, 3),
        "messages_per_s": round(point.messages_per_s),
        **point.more,
    }


def measured_before(raw: Path) -> dict[str, list[Point]]:
    """The curves in a file of figures."""
    found: dict[str, list[Point]] = {}
    if raw.exists():
        for text in raw.read_text().splitlines():
            line = json.loads(text)
            name, x = line.pop("curve"), line.pop("x")
            cost, rate = line.pop("broker_cpu_s_per_million"), line.pop("messages_per_s")
            found.setdefault(name, []).append(Point(x, cost, rate, line))
    return found


# Page


def ratio(points: Sequence[Point]) -> float:
    """The last cost by the first."""
    return points[-1].cpu_s_per_million / points[0].cpu_s_per_million


def verdict(question: Question, points: Sequence[Point]) -> str:
    growth = ratio(points)
    if question.grows_by_nature and points[0].x:
        return (
            f"{growth:,.0f}, while {question.x_name} grow {points[-1].x / points[0].x:,.0f} times"
        )
    return f"{growth:.2f}, flat" if growth <= FLAT_UP_TO else f"{growth:.2f}"


def page(answers: dict[str, list[Point]]) -> str:
    out = [
        "# How costs grow",
        "",
        "Made by `python -m benchmarks.growth`. The broker's CPU seconds per million messages",
        "as each of these grows, with how many messages per second that made beside it. Prepared",
        "requests from another process on the same cores; 128 B bodies and ASYNC_FLUSH unless it",
        "says otherwise. Medians of slices.",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, commit {commit()}",
        "",
        "| what grows | from | to | CPU s per million: first | last | last / first |",
        "|---|---|---|---|---|---|",
    ]
    for name, points in answers.items():
        question, first, last = QUESTIONS[name], points[0], points[-1]
        out.append(
            f"| [{question.title}](#{question.title.lower().replace(' ', '-')}) "
            f"| {number(first.x)} | {number(last.x)} | {first.cpu_s_per_million:.2f} "
            f"| {last.cpu_s_per_million:.2f} | {verdict(question, points)} |"
        )
    for name, points in answers.items():
        out += ["", *section(name, points)]
    return "\n".join(out) + "\n"


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def section(name: str, points: Sequence[Point]) -> list[str]:
    question = QUESTIONS[name]
    columns = [
        question.x_name,
        "CPU s per million",
        f"messages {question.what} per s",
        *points[0].more,
    ]
    rows = [
        [
            number(point.x),
            f"{point.cpu_s_per_million:.2f}",
            f"{point.messages_per_s:,.0f}",
            *(number(value) for value in point.more.values()),
        ]
        for point in points
    ]
    return [
        f"## {question.title}",
        "",
        question.note,
        "",
        f"Last / first: {verdict(question, points)}.",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"![{question.title}](charts/growth-{name}.svg)",
    ]


def chart(name: str, points: Sequence[Point]) -> str:
    question = QUESTIONS[name]
    figures = [(point.x, point.cpu_s_per_million) for point in points]
    return charts.lines(
        f"{question.title}: broker CPU seconds per million messages",
        question.x_name,
        "CPU s",
        {f"per million {question.what}": figures},
    )


def write(answers: dict[str, list[Point]], pages: Path, raw: Path) -> None:
    """The page, its charts, and every figure."""
    (pages / "charts").mkdir(parents=True, exist_ok=True)
    for name, points in answers.items():
        (pages / "charts" / f"growth-{name}.svg").write_text(chart(name, points))
    (pages / "benchmarks-growth.md").write_text(page(answers))
    raw.parent.mkdir(parents=True, exist_ok=True)
    lines = [line_of(name, point) for name, points in answers.items() for point in points]
    raw.write_text("".join(json.dumps(line) + "\n" for line in lines))


# Main


def raise_file_limit() -> None:
    """Thousands of connections are as many files, here and in the broker, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def steps_of(question: Question, *, quick: bool, backlog_gb: float) -> tuple[float, ...]:
    if quick:
        return question.quick_steps
    if question.curve is growth_curves.backlog:
        return (*(step for step in question.steps if step < backlog_gb), backlog_gb)
    return question.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short, to see that it works")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--backlog-gb", type=float, default=20.0)
    parser.add_argument("--dir", type=Path, default=None, help="where the broker keeps its files")
    parser.add_argument("--no-page", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    raise_file_limit()
    answers = {}
    with tempfile.TemporaryDirectory(prefix="rocketq-growth-", dir=options.dir) as folder:
        for name in options.only:
            question = QUESTIONS[name]
            steps = steps_of(question, quick=options.quick, backlog_gb=options.backlog_gb)
            began = time.perf_counter()
            scale = QUICK if options.quick else FULL
            points = run(answer(question, steps, scale, Path(folder) / name))
            answers[name] = points
            for point in points:
                print(json.dumps(line_of(name, point)))
            print(
                f"# {name}: {verdict(question, points)}; {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    if options.no_page:
        return
    quick = ROOT / "build" / "growth-quick"
    pages, raw = (quick, quick) if options.quick else (ROOT / "docs", ROOT / "build")
    answers = measured_before(raw / "growth.jsonl") | answers
    in_order = {name: answers[name] for name in QUESTIONS if name in answers}
    write(in_order, pages, raw / "growth.jsonl")


if __name__ == "__main__":
    main()
