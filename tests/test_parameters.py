"""Time, sockets and threads come from outside: what a simulation decides must be handed in.

Whoever needs the time asks its clock or its loop, whoever needs a connection asks the loop, and
whoever must wait for a disk has a thread of the disk. The few places that may do otherwise are
listed here, each with its reason; a place that is no longer needed must leave the list.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import rocketq

SOURCES: Final = Path(rocketq.__file__).parent

PACKAGES: Final = (
    *("common", "message", "remoting", "filter", "store", "client"),
    *("namesrv", "controller", "broker", "proxy", "admin"),
)
"""All below the command line. Spark's programs and the console are not: Spark runs its own
processes and threads, and the console is a program for people."""

AMBIENT: Final = {
    "time": {
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        "sleep",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "socket": {"socket", "create_connection", "create_server", "socketpair"},
    "threading": {"Thread", "Timer"},
    "futures": {"ThreadPoolExecutor", "ProcessPoolExecutor"},
}
BARE: Final = {"ThreadPoolExecutor", "ProcessPoolExecutor", "Thread"}

ALLOWED: Final = {
    "common/clock.py": "is the system's clock",
    "common/ticks.py": "is the system's clock, for compiled modules",
    "common/loop/promptness.py": "how long a collection of garbage took",
    "common/loop/turns.py": "how long work has kept the processor, unless a clock is handed in",
    "common/metrics/monitoring.py": "the age of figures that were made for a scraper",
    "common/metrics/process.py": "when this process began, and how long its collections take",
    "common/metrics/pushing.py": "when figures were taken, for the one they are pushed to",
    "remoting/link/handling.py": "how long a request took, for figures alone",
    "remoting/link/meter.py": "how many requests there are, to time only some of them",
    "remoting/link/entrance.py": "how long one turn may take, and strangers at the door",
    "remoting/tls/self_signed.py": "from when on a certificate that is made now is valid",
    "message/ids.py": "which address this host has",
    "broker/config.py": "which address this host has",
    "broker/cluster/addresses.py": "which ports are free, where the configuration says 0",
    "store/files/disk.py": "is the disk, which hands out its threads",
    "store/files/disk_thread.py": "is the disk's thread",
    "client/config.py": "a name that no other client of this host has",
    "client/producer/quick_send.py": "the short way, which is gone only with the system's clock",
    "client/consumer/pull/schedule.py": "threads for tasks that are plain functions",
    "client/blocking/loop_thread.py": "the thread that runs the loop of blocking clients",
    "client/consumer/push/runner.py": "threads for listeners that are plain functions",
    "client/producer/transaction.py": "threads for transactions that are plain functions",
    "admin/exports.py": "when an export was made, in its own text",
    "admin/cluster/send_times.py": "measures",
}


def ambient_uses(tree: ast.AST) -> Iterator[str]:
    """Everything in a module that takes time, sockets or threads from nowhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = (
                owner.id
                if isinstance(owner, ast.Name)
                else owner.attr
                if isinstance(owner, ast.Attribute)
                else ""
            )
            if node.attr in AMBIENT.get(name, ()):
                yield f"{name}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in AMBIENT.get(node.module or "", ()) or alias.name in BARE:
                    yield f"{node.module}.{alias.name}"


def test_time_sockets_and_threads_are_parameters() -> None:
    found = {}
    for package in PACKAGES:
        for path in sorted((SOURCES / package).rglob("*.py")):
            uses = sorted(set(ambient_uses(ast.parse(path.read_text()))))
            if uses:
                found[path.relative_to(SOURCES).as_posix()] = uses
    stray = {name: uses for name, uses in found.items() if name not in ALLOWED}
    assert not stray, stray
    assert not ALLOWED.keys() - found.keys(), "no longer needed"


def test_the_scan_finds_what_it_looks_for() -> None:
    text = """
import time, socket, threading
from time import monotonic
from concurrent.futures import ThreadPoolExecutor
now = time.time()
one = socket.socket()
two = threading.Thread(target=print)
"""
    assert set(ambient_uses(ast.parse(text))) == {
        "time.time",
        "time.monotonic",
        "socket.socket",
        "threading.Thread",
        "concurrent.futures.ThreadPoolExecutor",
    }
