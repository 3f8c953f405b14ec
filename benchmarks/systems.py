"""The systems under comparison, started and stopped the same way.

Each runs NameServer and broker on loopback with a fresh store, says when the first message was
acknowledged, and tells its process ids, so that the load can charge it with its CPU seconds.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = ROOT / "peers" / "rocketmq" / "rocketmq"
PROBE = ROOT / "peers" / "rocketmq" / "probe.py"


@dataclass(slots=True)
class Running:
    """A started system."""

    label: str
    namesrv: str
    pids: list[int]
    first_ack_s: float
    folder: Path
    extra: dict[str, object] = field(default_factory=dict)

    def memory_mb(self) -> dict[str, float]:
        """Resident memory of all its processes: in all, and the anonymous part."""
        total = {"rss": 0.0, "anon": 0.0}
        for pid in self.pids:
            status = Path(f"/proc/{pid}/status").read_text()
            for name, key in (("rss", "VmRSS"), ("anon", "RssAnon")):
                match = re.search(rf"^{key}:\s+(\d+)", status, re.MULTILINE)
                total[name] += int(match[1]) / 1024 if match else 0.0
        return {name: round(value, 1) for name, value in total.items()}

    def cpu_s(self) -> float:
        """CPU seconds all its processes have used so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def first_acknowledgement(namesrv: str, pid: int, timeout_s: float = 120.0) -> float:
    """Seconds from the start of a process to the first acknowledged message."""
    probe = subprocess.run(
        [sys.executable, str(PROBE), "--namesrv", namesrv, "--since-pid", str(pid)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    answer: dict[str, float] = json.loads(probe.stdout.strip().splitlines()[-1])
    return answer["first_ack_since_process_start_s"]


@contextmanager
def rocketq(
    folder: Path,
    *,
    settings: Sequence[str] = (),
    pure: bool = False,
    fresh: bool = True,
    brokers: int = 1,
) -> Iterator[Running]:
    """`rocketq up` in a process of its own."""
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, ROCKETQ_PURE="1" if pure else "0")
    command = [str(Path(sys.executable).parent / "rocketq"), "up"]
    command += ["--dir", str(folder / "data"), "--namesrv-port", "0", "--broker-port", "0"]
    if brokers > 1:
        command += ["--brokers", str(brokers)]
    for setting in ("enablePropertyFilter=true", *settings):
        command += ["--set", setting]
    with open(folder / "errors.log", "w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        match = re.search(r"namesrv=(\S+) broker=", line)
        if not match:
            raise RuntimeError(f"no ready line: {line!r} {(folder / 'errors.log').read_text()}")
        first_ack_s = first_acknowledgement(match[1], process.pid)
        pids = [process.pid, *children(process.pid)]
        label = "rocketq (uncompiled)" if pure else "rocketq"
        yield Running(label, match[1], pids, first_ack_s, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.stdout.close()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


@contextmanager
def java(
    folder: Path,
    *,
    settings: Sequence[str] = (),
    version: str = "5.5.0",
    fresh: bool = True,
    heap: str = "4g",
) -> Iterator[Running]:
    """Apache RocketMQ's own NameServer and broker."""
    base = [sys.executable, str(LAUNCHER), "--version", version]
    where = ["--dir", str(folder)]
    command = [*base, "start", *where, "--probe", "--heap", heap]
    command += ["--fresh"] if fresh else []
    command += ["--conf", *settings] if settings else []
    started = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    state = json.loads(started.stdout.strip().splitlines()[-1])
    try:
        # The broker alone is charged: that flatters Java by its name server's share.
        pids = [int(state["broker_pid"])]
        yield Running(
            f"RocketMQ {version}",
            state["namesrv"],
            pids,
            float(state["first_ack_s"]),
            folder,
            state,
        )
    finally:
        subprocess.run([*base, "stop", *where], capture_output=True, timeout=120, check=False)


def load(running: Running, arguments: str, timeout_s: float = 900.0) -> dict[str, float]:
    """One run of the official Java client against a system; its closing line as numbers."""
    words = arguments.split()
    if "--topic" not in words:
        words += ["--topic", f"bench{time.time_ns() // 1_000_000}"]
    words += ["--namesrv", running.namesrv, "--pid", ",".join(map(str, running.pids))]
    process = subprocess.run(
        [sys.executable, str(LAUNCHER), "load", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    lines = process.stdout.strip().splitlines()
    if process.returncode or not lines:
        raise RuntimeError(f"the load failed with {process.returncode}: {' '.join(words)}")
    result: dict[str, float] = json.loads(lines[-1])
    return result
