"""A server process, honest clients, and hostile ones in a process of their own.

Three things are measured: the longest turn of the server's loop, how long honest clients wait,
and the server's memory. What the hostile ones themselves do with a processor is not the server's:
it has one to itself where there are two, and they come last on the other, behind the honest. It
wants a machine that does nothing else; what the host takes from it now and then counts as ours, so
that an attack with a long wait is tried again: what really takes long takes long each time.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.beat import LongestTurn, Notes
from tests.steps import ATTEMPTS

WORST_WAIT_S: Final = 0.05
MOST_GROWN_MIB: Final = 1_024

Attack = Callable[[str, str, int, asyncio.Event], Awaitable[int]]
"""Rounds of a named attack against an address, until it is told to stop; returns how many."""
Honest = Callable[[str, list[float], asyncio.Event], Awaitable[None]]
"""A client that notes how long it waits for each answer, until it is told to stop."""


class Besieged(NamedTuple):
    """A server under attack."""

    address: str
    pid: int
    notes: Notes

    @property
    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        anonymous = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert anonymous is not None
        return int(anonymous[1]) / 1024


class Seen(NamedTuple):
    """What was seen of one attack."""

    name: str
    waits: list[float]  # from the shortest to the longest
    turn: LongestTurn
    memory_mib: float

    @property
    def is_short(self) -> bool:
        return max(self.waits[-1], self.turn.worked_s) < WORST_WAIT_S

    def __str__(self) -> str:
        median_ms, worst_ms = self.waits[len(self.waits) // 2] * 1000, self.waits[-1] * 1000
        worked_ms, held_ms = self.turn.worked_s * 1000, self.turn.held_s * 1000
        return (
            f"{self.name:28} median {median_ms:6.1f} ms, worst {worst_ms:7.1f} ms, "
            f"longest turn {worked_ms:6.1f} ms of {held_ms:6.1f}, {self.memory_mib:6.0f} MiB"
        )


@contextmanager
def server_process(kind: str, settings: dict[str, str]) -> Iterator[Besieged]:
    """`rocketq broker` or `rocketq namesrv`, with the beat of its loop taken."""
    arguments = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beat"
        notes = Notes(path)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.beat", str(path), kind, *arguments],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            ready = re.match(r"ready \w+=(\S+) pid=(\d+)", process.stdout.readline())
            assert ready is not None
            yield Besieged(ready[1], int(ready[2]), notes)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            assert process.returncode == 0


@contextmanager
def apart(server: Besieged) -> Iterator[None]:
    """Give the server a processor, and this process and its children the others."""
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    if others:
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {first})
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def besiege(server: Besieged, module: str, names: list[str], honest: Honest) -> None:
    """Each attack, then all at once; `module` runs them with `attack_for`."""
    seconds = float(os.environ.get("ROCKETQ_ATTACK_SECONDS", "300"))
    chosen = os.environ.get("ROCKETQ_ATTACKS", "").split() or names
    address = server.address

    async def measured(name: str, attacks: list[str], for_s: float) -> Seen:
        waits: list[float] = []
        stop = asyncio.Event()
        good = asyncio.ensure_future(honest(address, waits, stop))
        await asyncio.sleep(0.1)
        server.notes.reset()
        bad = _hostile(module, address, attacks, for_s) if attacks else None
        await asyncio.sleep(for_s)
        stop.set()
        await good
        seen = Seen(name, sorted(waits), server.notes.read(), server.memory_mib)
        if bad is not None:
            assert await asyncio.to_thread(bad.wait, 120) == 0
        return seen

    def tried(name: str, attacks: list[str], for_s: float) -> Seen:
        """The best of a few attempts, if the first one is not good."""
        attempts: list[Seen] = []
        while len(attempts) < ATTEMPTS and not (attempts and attempts[-1].is_short):
            attempts.append(asyncio.run(measured(name, attacks, for_s)))
            print(attempts[-1], flush=True)
            if not attempts[-1].is_short:
                print(attempts[-1].turn.where, flush=True)
        return min(attempts, key=lambda each: max(each.waits[-1], each.turn.worked_s))

    with apart(server):
        print()
        before = tried("nobody", [], 5.0)
        seen = [tried(each, [each], seconds / (len(chosen) + 1)) for each in chosen]
        seen.append(tried("all at once", chosen, seconds / (len(chosen) + 1)))
    too_long = [str(each) for each in seen if not each.is_short]
    assert not too_long, "\n".join(too_long)
    grown_mib = max(each.memory_mib for each in seen) - before.memory_mib
    assert grown_mib < MOST_GROWN_MIB, f"{grown_mib:.0f} MiB more"


def _hostile(
    module: str, address: str, attacks: list[str], for_s: float
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", module, address, str(for_s), *attacks],
        cwd=Path(__file__).parents[1],
    )


async def attack_for(attack: Attack, arguments: list[str]) -> None:
    """What the process of the hostile ones does: ADDRESS SECONDS NAME..."""
    os.nice(19)
    address, seconds, *names = arguments
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(attack(address, name, 1_000_000, stop)) for name in names]
    await asyncio.wait(tasks, timeout=float(seconds))
    stop.set()
    _, late = await asyncio.wait(tasks, timeout=40)
    for task in late:
        task.cancel()
