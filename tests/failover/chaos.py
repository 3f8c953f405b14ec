"""Faults by chance, one after the other, for as long as wanted, on real processes.

    python -m tests.failover.chaos --minutes 60 --seed 1

As root, because it runs in a network of its own, which can be made narrow (`tc`), and because each
broker gets a disk of its own, which can be full (tmpfs). Everything else is as in `faults`: cuts,
kills, freezes, wrong clocks. Official Java clients are among the load where their jars are at hand.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.failover import java_witness
from tests.failover.etcd_sets import EtcdSet, etcd_set
from tests.failover.faults import FAULTS, Fault, master_killed, strike, together
from tests.failover.sets import stubborn_history, verdict

DISK_MB: Final = 4_096
BROKERS: Final = 3
LONGEST_S: Final = 20.0
# Enough for what is sent, and so little that what goes beyond waits, and is lost when it is much.
NARROW: Final = "tbf rate 20mbit burst 64kbit latency 50ms".split()


async def _run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0, words


async def _limit(folder: Path, size: int) -> None:
    await _run("mount", "-o", f"remount,size={size}", str(folder))


def _used(folder: Path) -> int:
    status = os.statvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


@asynccontextmanager
async def _full(folder: Path) -> AsyncIterator[None]:
    await _limit(folder, max(_used(folder), 1 << 20))
    try:
        yield
    finally:
        await _limit(folder, DISK_MB << 20)


@asynccontextmanager
async def master_disk_full(brokers: EtcdSet) -> AsyncIterator[None]:
    async with _full(brokers.member_at(await brokers.complete()).folder):
        yield


@asynccontextmanager
async def slave_disk_full(brokers: EtcdSet) -> AsyncIterator[None]:
    master = await brokers.complete()
    slave = next(member for member in brokers.members if member.address != master)
    async with _full(slave.folder):
        yield


@asynccontextmanager
async def network_narrow(_: EtcdSet) -> AsyncIterator[None]:
    await _run("tc", "qdisc", "add", "dev", "lo", "root", *NARROW)
    try:
        yield
    finally:
        await _run("tc", "qdisc", "del", "dev", "lo", "root")


OURS: Final[list[Fault]] = [
    master_disk_full,
    slave_disk_full,
    network_narrow,
    together(network_narrow, master_killed),
    together(slave_disk_full, master_killed),
]


@asynccontextmanager
async def _disks(root: Path) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for number in range(BROKERS):
            folder = root / f"broker-{number}"
            folder.mkdir()
            await _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "rocketq", str(folder))
            stack.push_async_callback(_run, "umount", "--lazy", str(folder))
        yield


async def chaos(
    root: Path, minutes: float, seed: int, faults: list[Fault], *, with_java: bool
) -> None:
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    began = time.monotonic()
    async with (
        _disks(root),
        # A disk that is nearly full loses its oldest files, which nobody here allows for.
        etcd_set(root, seed=seed, brokers=BROKERS, cleanResourceInterval=86_400_000) as brokers,
        stubborn_history(brokers) as history,
        AsyncExitStack() as stack,
    ):
        await history.next_acknowledged(60)
        witness = None
        if with_java:
            witness = await stack.enter_async_context(
                java_witness.java_witness(root, brokers.namesrv, history)
            )
        waiting: list[Fault] = []
        while not struck or time.monotonic() - began < minutes * 60:
            waiting = waiting or chance.sample(faults, len(faults))
            fault = waiting.pop()
            await strike(brokers, history, fault, round(chance.uniform(0.5, LONGEST_S), 1))
            struck[fault.__name__] += 1
        if witness is not None:
            await witness.send_no_more()
            await brokers.complete(120)
            await witness.has_consumed_everything()
            print(f"Java: {len(witness.acknowledged):,} acknowledged, and all consumed")
        await verdict(brokers, history)
        print(
            f"{struck.total()} faults of {len(struck)} kinds in {time.monotonic() - began:.0f} s:"
            f" {len(history.acknowledged):,} acknowledged, {len(history.read):,} read, all there",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-new", action="store_true", help="full disks and narrow networks")
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--dir", type=Path, help="keep everything there, logs above all")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        words = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.failover.chaos"]
        os.execvp(words[0], [*words, "--inside", *sys.argv[1:]])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    faults = OURS[:3] if options.only_new else [*FAULTS, *OURS]
    with_java = not options.without_java and java_witness.is_possible()
    with ExitStack() as stack:
        folder = options.dir
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketq-chaos-"))
            folder = Path(made)
        asyncio.run(chaos(folder, options.minutes, options.seed, faults, with_java=with_java))


if __name__ == "__main__":
    main()
