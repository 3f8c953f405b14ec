"""A process that is killed at any moment loses nothing that it acknowledged."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketq.store import MessageStore
from rocketq.store.inspect.check import Severity, check_store
from tests.store.durability.crash_writer import QUEUES, crash_config
from tests.store.support import read_queue

ROOT = Path(__file__).parents[3]


def write_until_killed(root: Path, turn: int, seconds: float) -> dict[tuple[int, int], bytes]:
    """Let a process write for a while, kill it, and return what it acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.durability.crash_writer", str(root), str(turn)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        timer = time.monotonic() + seconds
        output = []
        while time.monotonic() < timer:
            output.append(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    acknowledged = {}
    for line in (b"".join(output) + rest).splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last one may be half a line
            queue_id, offset, body = line.split(maxsplit=2)
            acknowledged[int(queue_id), int(offset)] = body.rstrip(b"\n")
    return acknowledged


async def stored(root: Path) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    async with MessageStore(crash_config(root)) as store:
        assert store.damages == []
        for queue_id in range(QUEUES):
            messages = read_queue(store, queue_id=queue_id)
            offsets = [m.queue_offset for m in messages]
            assert offsets == list(range(store.max_offset("orders", queue_id)))
            positions = [m.physical_offset for m in messages]
            assert positions == sorted(positions)
            found |= {(queue_id, m.queue_offset): m.body for m in messages}
    return found


def crash(root: Path, rounds: int) -> None:
    choose = random.Random(rounds)
    acknowledged: dict[tuple[int, int], bytes] = {}
    for turn in range(rounds):
        newly = write_until_killed(root, turn, choose.uniform(0, 0.3))
        assert not acknowledged.keys() & newly.keys(), "a number was given twice"
        acknowledged |= newly
        if turn % 3 == 2:
            # Most of the time the next writer does the recovery.
            found = asyncio.run(stored(root))
            missing = acknowledged.keys() - found.keys()
            assert not missing, sorted(missing)[:5]
            assert all(found[place] == body for place, body in acknowledged.items())
    found = asyncio.run(stored(root))
    assert all(found.get(place) == body for place, body in acknowledged.items())
    assert acknowledged
    findings = list(check_store(root, crash_config(root)))
    assert [f for f in findings if f.severity is not Severity.INFO] == []


def test_nothing_acknowledged_is_lost_in_ten_crashes(tmp_path: Path) -> None:
    crash(tmp_path, rounds=10)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_a_hundred_crashes(tmp_path: Path) -> None:
    crash(tmp_path, rounds=100)
