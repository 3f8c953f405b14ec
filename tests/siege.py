"""A server process, honest clients, and hostile ones in a process of their own.

What the honest ones see is measured, and the server's memory. It wants a quiet machine.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

WORST_WAIT_S: Final = 0.05
MOST_GROWN_MIB: Final = 1_024

Attack = Callable[[str, str, int, asyncio.Event], Awaitable[int]]
"""Rounds of a named attack against an address, until it is told to stop; returns how many."""
Honest = Callable[[str, list[float], asyncio.Event], Awaitable[None]]
"""A client that notes how long it waits for each answer, until it is told to stop."""


@contextmanager
def server_process(kind: str, settings: dict[str, str]) -> Iterator[tuple[str, int]]:
    """`rocketq broker` or `rocketq namesrv`: its address and process id."""
    arguments = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketq.cli", kind, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = re.match(r"ready \w+=(\S+) pid=(\d+)", process.stdout.readline())
        assert ready is not None
        yield ready[1], int(ready[2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


def memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    anonymous = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert anonymous is not None
    return int(anonymous[1]) / 1024


def besiege(server: tuple[str, int], module: str, names: list[str], honest: Honest) -> None:
    """Each attack, then all at once; `module` runs them with `attack_for`."""
    address, pid = server
    seconds = float(os.environ.get("ROCKETQ_ATTACK_SECONDS", "300"))

    def hostile(attacks: list[str], for_s: float) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", module, address, str(for_s), *attacks],
            cwd=Path(__file__).parents[1],
        )

    async def measured(attacks: list[str], for_s: float) -> list[float]:
        waits: list[float] = []
        stop = asyncio.Event()
        good = asyncio.ensure_future(honest(address, waits, stop))
        bad = hostile(attacks, for_s) if attacks else None
        await asyncio.sleep(for_s)
        stop.set()
        await good
        if bad is not None:
            assert await asyncio.to_thread(bad.wait, 120) == 0
        return sorted(waits)

    control = asyncio.run(measured([], 5.0))
    calm_mib = memory_mib(pid)
    report, worst = [], {}
    for attacks in (*([name] for name in names), names):
        waits = asyncio.run(measured(attacks, seconds / (len(names) + 1)))
        name = attacks[0] if len(attacks) == 1 else "all at once"
        worst[name] = waits[-1]
        report.append(
            f"{name:28} median {waits[len(waits) // 2] * 1000:6.1f} ms, "
            f"worst {waits[-1] * 1000:7.1f} ms, {memory_mib(pid):6.0f} MiB"
        )
    grown_mib = memory_mib(pid) - calm_mib
    print(f"\ncontrol: worst {control[-1] * 1000:.1f} ms, {calm_mib:.0f} MiB", *report, sep="\n")
    assert grown_mib < MOST_GROWN_MIB, f"{grown_mib:.0f} MiB more"
    too_long = {name: wait for name, wait in worst.items() if wait > WORST_WAIT_S + control[-1]}
    assert not too_long, {name: f"{wait * 1000:.0f} ms" for name, wait in too_long.items()}


async def attack_for(attack: Attack, arguments: list[str]) -> None:
    """What the process of the hostile ones does: ADDRESS SECONDS NAME..."""
    address, seconds, *names = arguments
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(attack(address, name, 1_000_000, stop)) for name in names]
    await asyncio.wait(tasks, timeout=float(seconds))
    stop.set()
    _, late = await asyncio.wait(tasks, timeout=40)
    for task in late:
        task.cancel()
