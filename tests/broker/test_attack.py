"""Hostile peers and honest clients at once: how long do the honest ones wait?

The short form runs a broker in a thread and measures each step of its loop in time of the
processor, which does not depend on what else the machine does: while a step runs, everybody
waits. The long form runs a broker as a process of its own, and measures what honest clients
see, and its memory. It wants a quiet machine.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from rocketq.broker import Broker, BrokerConfig
from rocketq.remoting import RemotingClient
from rocketq.store import StoreConfig
from tests.broker.attacks import ATTACKS, attack, prepare
from tests.broker.harness import pull_request, send_request
from tests.steps import ATTEMPTS, Steps, measured_server


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[str]:
    broker = Broker(
        BrokerConfig(
            broker_name="attacked",
            broker_ip1="127.0.0.1",
            bind_address="127.0.0.1",
            listen_port=0,
            namesrv_addr="",
            enable_property_filter=True,
            max_made_per_connection=2_000,
        ),
        StoreConfig(
            store_path_root_dir=str(folder),
            mapped_file_size_commit_log=8 << 20,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=1_000,
            max_index_num=40_000,
        ),
    )
    async with broker.serving():
        yield broker.address


@pytest.mark.parametrize("name", ATTACKS)
def test_no_step_of_the_loop_keeps_the_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def go(address: str, steps: Steps) -> None:
        await prepare(address)
        steps.is_measuring = True
        under_attack = asyncio.create_task(attack(address, name, rounds=2))
        client = RemotingClient()
        try:
            while not under_attack.done():
                reply = await client.call(address, send_request("honest"), 60.0)
                assert reply.code == 0, reply
        finally:
            await client.close()
        await under_attack
        steps.is_measuring = False

    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"{attempt}"
        with measured_server(partial(serving, folder), monkeypatch) as (address, steps):
            asyncio.run(go(address, steps))
        if steps.are_short:
            return
    pytest.fail(str(steps))


# The long form


@contextmanager
def broker_process(folder: Path) -> Iterator[tuple[str, int]]:
    settings = {
        "storePathRootDir": str(folder),
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "enablePropertyFilter": "true",
        "mappedFileSizeCommitLog": str(64 << 20),
    }
    arguments = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketq.cli", "broker", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = re.match(r"ready broker=(\S+) pid=(\d+)", process.stdout.readline())
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


async def honest(address: str, waits: list[float], stop: asyncio.Event) -> None:
    """Sends a message and reads it back, a hundred times a second."""
    client = RemotingClient()
    try:
        offset = 0
        while not stop.is_set():
            began = time.perf_counter()
            sent = await client.call(address, send_request("honest", queue_id=1), 30.0)
            waits.append(time.perf_counter() - began)
            assert sent.code == 0, sent
            began = time.perf_counter()
            pulled = await client.call(address, pull_request("honest", offset, queue_id=1), 30.0)
            waits.append(time.perf_counter() - began)
            assert pulled.code == 0, pulled
            offset += 1
            await asyncio.sleep(0.01)
    finally:
        await client.close()


@pytest.mark.slow
def test_honest_clients_among_hostile_ones(tmp_path: Path) -> None:
    seconds = float(os.environ.get("ROCKETQ_ATTACK_SECONDS", "300"))

    async def measured(address: str, attacks: list[str], for_s: float) -> list[float]:
        waits: list[float] = []
        stop = asyncio.Event()
        good = asyncio.create_task(honest(address, waits, stop))
        bad = subprocess_attacks(address, attacks, for_s) if attacks else None
        await asyncio.sleep(for_s)
        stop.set()
        await good
        if bad is not None:
            assert await asyncio.to_thread(bad.wait, 120) == 0
        return sorted(waits)

    report = []
    with broker_process(tmp_path) as (address, pid):
        asyncio.run(prepare(address))
        control = asyncio.run(measured(address, [], 5.0))
        calm_mib = memory_mib(pid)
        each_s = seconds / (len(ATTACKS) + 1)
        worst = {}
        for attacks in (*([name] for name in ATTACKS), list(ATTACKS)):
            waits = asyncio.run(measured(address, attacks, each_s))
            name = attacks[0] if len(attacks) == 1 else "all at once"
            worst[name] = waits[-1]
            report.append(
                f"{name:28} median {waits[len(waits) // 2] * 1000:6.1f} ms, "
                f"worst {waits[-1] * 1000:7.1f} ms, {memory_mib(pid):6.0f} MiB"
            )
        grown_mib = memory_mib(pid) - calm_mib
    print(f"\ncontrol: worst {control[-1] * 1000:.1f} ms, {calm_mib:.0f} MiB", *report, sep="\n")
    assert grown_mib < 1_024, f"{grown_mib:.0f} MiB more"
    too_long = {name: wait for name, wait in worst.items() if wait > 0.05 + control[-1]}
    assert not too_long, {name: f"{wait * 1000:.0f} ms" for name, wait in too_long.items()}


def subprocess_attacks(address: str, names: list[str], for_s: float) -> subprocess.Popen[bytes]:
    """The hostile ones in a process of their own: what they compute must not delay the honest."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.broker.attacks", address, str(for_s), *names],
        cwd=Path(__file__).parents[2],
    )
