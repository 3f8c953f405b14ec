"""gRPC sends and receives, with the CPU that all server processes spend for a message.

    python -m benchmarks.grpc [--rounds 3] [--quick] [--without-java] [--count 100000]

    rocketq          `rocketq up`: NameServer, broker and gRPC in one process
    rocketq, proxy   `rocketq proxy` before a broker, two processes
    RocketMQ 5.5.0   its NameServer, its broker and its proxy

The load is bare calls by a program in Go (peers/grpc/load.go): sends of 128 bytes with 64 in
flight, then receives of 32 messages with their acknowledgements; a fourth of the messages go
before, unmeasured. Then sends of the other protocol, 200 a second, alone and while that load of
gRPC sends is on: how long they take from the moment when they were due.

One line of JSON for each, and the medians in the end.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from peers.grpc.columns import go_client

from benchmarks import frames
from benchmarks.pop import BODY, alone_on_loopback, broker_of, medians
from benchmarks.systems import ROOT, Running, children

IN_FLIGHT: Final = 64
PACED_PER_S: Final = 200
CLUSTER: Final = ROOT / "peers" / "rocketmq" / "cluster"
MAY_FAIL: Final = 0.001
"""Which part of the calls may fail; a proxy may be told that its broker is busy."""
GRPC: Final = "grpc"
"""Where a system serves gRPC, in what it tells about itself."""


# Systems


@contextmanager
def ours(folder: Path, *, has_proxy: bool = False) -> Iterator[Running]:
    up = [sys.executable, "-m", "rocketq.cli", "up", "--dir", str(folder / "data")]
    up += ["--namesrv-port", "0", "--broker-port", "0"]
    up += ["--grpc-port", "-1" if has_proxy else "0"]
    programs = [subprocess.Popen(up, stdout=subprocess.PIPE, text=True)]
    try:
        facts = _ready(programs[0])
        if has_proxy:
            proxy = [sys.executable, "-m", "rocketq.cli", "proxy", "-n", facts["namesrv"]]
            proxy += ["--host", "127.0.0.1", "--grpc-port", "0"]
            programs.append(subprocess.Popen(proxy, stdout=subprocess.PIPE, text=True))
            facts |= _ready(programs[1])
        pids = [pid for each in programs for pid in (each.pid, *children(each.pid))]
        label = "rocketq, proxy" if has_proxy else "rocketq"
        yield Running(label, facts["namesrv"], pids, 0.0, folder, {GRPC: facts[GRPC]})
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait(30)


def _ready(program: "subprocess.Popen[str]") -> dict[str, str]:
    assert program.stdout is not None
    return dict(word.split("=", 1) for word in program.stdout.readline().split()[1:])


@contextmanager
def java(folder: Path) -> Iterator[Running]:
    cluster = [sys.executable, str(CLUSTER), "--dir", str(folder)]
    start = [*cluster, "start", "proxy"]
    told = subprocess.run(start, check=True, capture_output=True, text=True, timeout=300).stdout
    try:
        state = json.loads(told.strip().splitlines()[-1])
        pids = [int(pid) for pid in state["pids"].values()]
        extra: dict[str, object] = {GRPC: "127.0.0.1:18081"}
        yield Running("RocketMQ 5.5.0", state["namesrv"], pids, 0.0, folder, extra)
    finally:
        subprocess.run([*cluster, "stop"], capture_output=True, timeout=120, check=False)


SYSTEMS: Final[dict[str, Callable[[Path], AbstractContextManager[Running]]]] = {
    "rocketq": ours,
    "proxy": lambda folder: ours(folder, has_proxy=True),
    "java": java,
}


# Loads


class GoLoad:
    """The program in Go, which does one thing after the other."""

    def __init__(self, target: str, topic: str) -> None:
        group = f"load-{time.time_ns()}"
        words = [*go_client(), "load", target, topic, group, str(IN_FLIGHT)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, what: str, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, float]:
        found: dict[str, float] = json.loads(self._line())
        return found

    def run(self, what: str, count: int) -> dict[str, float]:
        self.start(what, count)
        return self.result()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def make_topic(namesrv: str, topic: str) -> None:
    words = [sys.executable, "-m", "rocketq.cli", "admin", "updateTopic", "-n", namesrv]
    words += ["-c", "DefaultCluster", "-t", topic, "-r", "8", "-w", "8"]
    words += ["-a", "+message.type=NORMAL"]
    subprocess.run(words, check=True, capture_output=True)


async def paced(running: Running, topic: str, seconds: float) -> dict[str, float]:
    """Sends of remoting, one after the other, each at its moment."""
    address, _ = await broker_of(running)
    pipe = await frames.Pipe.connected(address)
    requests = [frames.send_frame(topic, number % 8, BODY, {}) for number in range(8)]
    took_ms = []
    began = time.perf_counter()
    for number in range(round(seconds * PACED_PER_S)):
        due = began + number / PACED_PER_S
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        await pipe.ask(requests[number % 8])
        took_ms.append((time.perf_counter() - due) * 1000)
    pipe.close()
    took_ms.sort()
    return {
        "p50_ms": round(took_ms[len(took_ms) // 2], 2),
        "p99_ms": round(took_ms[len(took_ms) * 99 // 100], 2),
    }


def measured(running: Running, count: int) -> Iterator[dict[str, object]]:
    """A line for each load."""
    topic = f"bench-{time.time_ns()}"
    make_topic(running.namesrv, topic)
    load = GoLoad(str(running.extra[GRPC]), topic)
    per_s: dict[str, float] = {}
    try:
        for what in ("send", "receive"):
            load.run(what, count // 4)
        for what in ("send", "receive"):
            before = running.cpu_s()
            found = load.run(what, count)
            if found["failed"] > found["messages"] * MAY_FAIL:
                raise RuntimeError(f"{running.label}: {found}")
            per_s[what] = found["messages"] / found["seconds"]
            yield {
                "system": running.label,
                "load": what,
                "messages_per_s": round(per_s[what]),
                "cpu_s_per_million": round((running.cpu_s() - before) / found["messages"] * 1e6, 1),
                "p50_ms": round(found.get("p50_ms", 0.0), 2),
                "p99_ms": round(found.get("p99_ms", 0.0), 2),
                "memory_mb": running.memory_mb()["rss"],
                "failed": found["failed"],
            }
        seconds = max(min(count / 10_000, 8.0), 1.0)
        asyncio.run(paced(running, topic, 1.0))
        for name, grpc_sends in (("remoting alone", 0), ("remoting beside gRPC", per_s["send"])):
            if grpc_sends:
                load.start("send", round(grpc_sends * (seconds + 2)))
                time.sleep(0.5)
            figures = asyncio.run(paced(running, topic, seconds))
            if grpc_sends:
                load.result()
            yield {
                "system": running.label,
                "load": name,
                "messages_per_s": PACED_PER_S,
                "cpu_s_per_million": 0.0,
                **figures,
                "memory_mb": running.memory_mb()["rss"],
            }
    finally:
        load.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the harness")
    parser.add_argument("--without-java", action="store_true")
    options = parser.parse_args()
    if not os.environ.get("ROCKETQ_ON_LOOPBACK"):
        go_client()  # built where there is a network
    alone_on_loopback("benchmarks.grpc")
    count = 10_000 if options.quick else options.count
    names = [name for name in SYSTEMS if name != "java" or not options.without_java]
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="rocketq-grpc-") as place:
        for number in range(1 if options.quick else options.rounds):
            for name in names:
                folder = Path(place) / f"{name}-{number}"
                with SYSTEMS[name](folder) as running:
                    for line in measured(running, count):
                        lines.append(line)
                        print(json.dumps(line), flush=True)
                shutil.rmtree(folder, ignore_errors=True)
    keys = ("messages_per_s", "cpu_s_per_million", "p50_ms", "p99_ms", "memory_mb")
    for line in medians(lines, keys):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
