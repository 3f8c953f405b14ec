"""`make bench`: rocketq and Apache RocketMQ in turn, under the same official Java client.

The systems alternate (A B A B ...), each round on a fresh store, so that what the machine does
meanwhile hits them alike; medians and the spread are reported, and every goal is a ratio between
the two in one run. Each is warmed until it is steady: a JVM needs the better part of a minute.
Broker CPU seconds per million messages decides: client and broker share the cores, so throughput
says as much about the client.

    python -m benchmarks.compare [--rounds 3] [--quick] [--without-java] [--only NAME ...]

Writes docs/benchmarks.md, the charts beside it and every raw result to build/benchmarks.jsonl.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from benchmarks import flood, systems
from benchmarks.report import Line, page
from benchmarks.scenarios import BACKLOG, LONG_LOG, Scenario, scenarios
from benchmarks.systems import ROOT, Running

RAW = ROOT / "build" / "benchmarks.jsonl"
PAGE = ROOT / "docs" / "benchmarks.md"

MOST_OTHERS = 0.15
"""Cores that other programs may take during a measurement."""
MOST_STEAL = 0.1
"""Cores that the host may give to its other guests meanwhile."""
ATTEMPTS = 3

WARMING = "produce --size 128 --mode sync --threads 64 --warmup 1 --seconds 6"
MOST_WARMINGS = 12
STEADY = 1.07
"""What the dearest of three loads in a row may cost beside the cheapest."""

System = Callable[..., AbstractContextManager[Running]]


def systems_under_test(*, with_java: bool, with_pure: bool) -> dict[str, System]:
    chosen: dict[str, System] = {"rocketq": systems.rocketq}
    if with_java:
        chosen["java"] = systems.java
    if with_pure:
        chosen["pure"] = partial(systems.rocketq, pure=True)
    return chosen


class Run:
    """All results so far, and where the next ones come from."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.lines: list[Line] = []
        self._folder = folder
        self._quick = quick
        self._flood = 50_000 if quick else 500_000

    def note(self, label: str, number: int, name: str, figures: Mapping[str, object]) -> None:
        line = {"system": label, "scenario": name, "round": number, **figures}
        self.lines.append(line)
        print(json.dumps(line), flush=True)

    def round(self, label: str, system: System, wanted: list[Scenario], number: int) -> None:
        """One system through all scenarios: those of one setting on one start."""
        note = partial(self.note, label, number)
        for settings in dict.fromkeys(scenario.settings for scenario in wanted):
            group = [scenario for scenario in wanted if scenario.settings == settings]
            with self._fresh(label, system, settings=settings) as running:
                if not settings:
                    note("start", {"first_ack_s": running.first_ack_s, **running.memory_mb()})
                note("warming", warm(running, quick=self._quick))
                if any(scenario.needs_backlog for scenario in group):
                    count = 200_000 if self._quick else 1_000_000
                    systems.load(running, f"{BACKLOG} --count {count}")
                for scenario in group:
                    note(scenario.name, load(running, scenario))
                if not settings:
                    note("flood", flood.flood(running.namesrv, self._flood))
                    note("memory", running.memory_mb())
                    note("idle", {"cpu_percent": idle_cpu_percent(running, self._quick)})

    def restart(self, label: str, system: System) -> None:
        """From the start to the first acknowledgement, after kill -9, with a long log."""
        count = 50_000 if self._quick else 1_050_000
        with self._fresh(label, system) as running:
            systems.load(running, f"{LONG_LOG} --count {count}")
            for pid in running.pids:
                os.kill(pid, signal.SIGKILL)
        with system(self._folder / label, fresh=False) as running:
            self.note(
                label, 1, "restart", {"first_ack_s": running.first_ack_s, "log_mb": count // 235}
            )

    def two_brokers(self, wanted: list[Scenario]) -> None:
        """What a second broker process on the same machine gives."""
        with self._fresh("two", systems.rocketq, brokers=2) as running:
            for scenario in wanted:
                if scenario.name in ("sync-64", "async-4000", "batch-32"):
                    self.note("two", 1, scenario.name, load(running, scenario))
            self.note("two", 1, "flood", flood.flood(running.namesrv, self._flood))

    @contextmanager
    def _fresh(self, label: str, system: System, **options: object) -> Iterator[Running]:
        shutil.rmtree(self._folder / label, ignore_errors=True)
        with system(self._folder / label, **options) as running:
            yield running


def load(running: Running, scenario: Scenario) -> dict[str, object]:
    """One measurement; again, if somebody else had the processor meanwhile.

    The least disturbed one counts, and says how much it was disturbed.
    """
    best: dict[str, float] | None = None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            figures = systems.load(running, scenario.arguments)
        except (RuntimeError, subprocess.TimeoutExpired) as failure:
            return {"failed": str(failure)}
        figures["attempts"] = attempt
        if best is None or disturbance(figures) < disturbance(best):
            best = figures
        if disturbance(figures) <= 1 or scenario.needs_backlog:
            break
    assert best is not None
    return dict(best)


def disturbance(figures: Mapping[str, float]) -> float:
    """By others and by the host, each as a part of what is allowed; above 1 is too much."""
    return max(figures["other_cores"] / MOST_OTHERS, figures["steal_cores"] / MOST_STEAL)


def warm(running: Running, *, quick: bool) -> dict[str, object]:
    """Load until a message costs the same three times in a row; how long that took."""
    began = time.monotonic()
    costs: list[float] = []
    for _ in range(2 if quick else MOST_WARMINGS):
        costs.append(systems.load(running, WARMING)["broker_cpu_s_per_million"])
        last = costs[-3:]
        if len(last) == 3 and max(last) <= STEADY * min(last):
            break
    return {"seconds": round(time.monotonic() - began), "costs": costs}


def idle_cpu_percent(running: Running, quick: bool) -> float:
    """Of one core, after everything has come to rest."""
    time.sleep(2 if quick else 10)
    before, began = running.cpu_s(), time.monotonic()
    time.sleep(3 if quick else 15)
    return round(100 * (running.cpu_s() - before) / (time.monotonic() - began), 2)


# Main


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
    chosen = systems_under_test(with_java=with_java, with_pure=not options.without_pure)
    with tempfile.TemporaryDirectory(prefix="rocketq-bench-") as folder:
        run = Run(Path(folder), quick=options.quick)
        for number in range(1, options.rounds + 1):
            for label, system in chosen.items():
                # The uncompiled build once: it is to show an order of magnitude.
                if label != "pure" or number == 1:
                    run.round(label, system, wanted, number)
        if not options.only:
            for label, system in chosen.items():
                run.restart(label, system)
            run.two_brokers(wanted)
    RAW.parent.mkdir(exist_ok=True)
    RAW.write_text("".join(json.dumps(line) + "\n" for line in run.lines))
    if not options.no_page:
        PAGE.write_text(page(run.lines, wanted, options.rounds, PAGE.parent / "charts"))
        print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
