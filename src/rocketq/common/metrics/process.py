"""Figures of the process itself: time, memory, pauses.

The names that Prometheus' own clients use where they have one, so that dashboards for any
process work; ours for what an event loop adds to it. Loop lag is how much later than planned a
timer runs: everything a broker does waits as long.
"""

import asyncio
import gc
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rocketq.common.loop.service import asked_to_stop
from rocketq.common.metrics.family import Histogram, Point, counter, gauge, histogram

_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LOOK_EVERY_S: Final = 0.1
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")

CPU = counter("process_cpu_seconds_total", "CPU time used, in seconds.")
START = gauge("process_start_time_seconds", "When it started, in seconds since 1970.")
RESIDENT = gauge(
    "process_resident_memory_bytes", "Memory in RAM, mapped files in the page cache included."
)
FILES = gauge("process_open_fds", "Open file descriptors: files and connections.")
MOST_FILES = gauge("process_max_fds", "How many it may open.")
FAULTS = counter(
    "rocketq_page_faults_total",
    "Pages that were not there when touched; a major one waits for the disk.",
    "kind",
)
SWITCHES = counter(
    "rocketq_context_switches_total", "Times the process gave up the CPU, or lost it.", "kind"
)
LOOP_LAG = histogram(
    "rocketq_loop_lag_seconds", "How late a timer of the event loop runs, every 0.1 s.", _SECONDS
)
GC_PAUSE = histogram(
    "rocketq_gc_pause_seconds", "Time a garbage collection took.", _SECONDS, "generation"
)

FAMILIES: Final = (
    CPU,
    START,
    RESIDENT,
    FILES,
    MOST_FILES,
    FAULTS,
    SWITCHES,
    LOOP_LAG,
    GC_PAUSE,
)


class ProcessFigures:
    """Watches the loop and the garbage collector while it runs."""

    def __init__(self) -> None:
        self._started_s = time.time()
        self._lag = Histogram(_SECONDS)
        self._pauses = [Histogram(_SECONDS) for _ in range(3)]
        self._collecting_since = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with self._watching_gc():
            planned = loop.time() + _LOOK_EVERY_S
            while not await asked_to_stop(stop, within_s=max(planned - loop.time(), 0)):
                now = loop.time()
                self._lag.observe(max(now - planned, 0.0))
                planned = now + _LOOK_EVERY_S

    @contextmanager
    def _watching_gc(self) -> Iterator[None]:
        gc.callbacks.append(self._on_gc)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_gc)

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting_since = time.perf_counter()
        else:
            pause = time.perf_counter() - self._collecting_since
            self._pauses[min(info["generation"], 2)].observe(pause)

    def collect(self) -> Iterator[Point]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield Point(CPU, (), usage.ru_utime + usage.ru_stime)
        yield Point(START, (), self._started_s)
        yield Point(RESIDENT, (), _resident(usage.ru_maxrss))
        yield Point(FILES, (), _open_files())
        yield Point(MOST_FILES, (), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        yield Point(FAULTS, ("major",), usage.ru_majflt)
        yield Point(FAULTS, ("minor",), usage.ru_minflt)
        yield Point(SWITCHES, ("voluntary",), usage.ru_nvcsw)
        yield Point(SWITCHES, ("involuntary",), usage.ru_nivcsw)
        yield Point(LOOP_LAG, (), self._lag)
        for generation, pauses in enumerate(self._pauses):
            yield Point(GC_PAUSE, (str(generation),), pauses)


def _resident(peak_kib: int) -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_SIZE
    except OSError:
        return peak_kib * 1024  # the most it ever was, where nobody tells what it is


def _open_files() -> int:
    """Without looking at each: there may be a hundred thousand. 0 where nobody tells."""
    try:
        return os.stat("/proc/self/fd").st_size
    except OSError:
        return 0
