"""Killed at any moment, with topics deleted, files cleaned, clocks and settings changed.

Nothing that was acknowledged is lost, but with its file; nothing that was deleted comes back.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketq.store import MessageStore
from rocketq.store.inspect.check import Severity, check_store
from tests.store.durability.life_writer import TOPICS, dangerous_config
from tests.store.support import read_queue

ROOT = Path(__file__).parents[3]

Place = tuple[int, int]
"""Queue id and number."""


class Promises:
    """What was promised to whoever wrote."""

    def __init__(self) -> None:
        self.lives = dict.fromkeys(TOPICS, 0)
        self.kept: dict[str, dict[Place, tuple[int, bytes]]] = {topic: {} for topic in TOPICS}
        self.in_doubt: str | None = None
        """A topic whose deletion was begun, and not known to have ended."""
        self.count = 0

    def take(self, line: bytes) -> None:
        kind, topic, *rest = line.rstrip(b"\n").split(b" ", 5)
        name = topic.decode()
        if kind == b"-":
            self.in_doubt = name
        elif kind == b"+":
            self.in_doubt = None
            self._end_life(name)
        else:
            queue_id, offset, position, body = rest
            place = int(queue_id), int(offset)
            assert place not in self.kept[name], f"{name} {place}: the number was given twice"
            self.kept[name][place] = int(position), body
            self.count += 1

    def _end_life(self, topic: str) -> None:
        self.lives[topic] += 1
        self.kept[topic] = {}

    def compare(self, topic: str, found: dict[Place, bytes], log_min: int) -> None:
        if topic == self.in_doubt and not found:
            self._end_life(topic)
        lives = {int(body.split(b":")[0]) for body in found.values()}
        assert lives <= {self.lives[topic]}, f"{topic} is in its life {self.lives[topic]}: {lives}"
        expected = {
            place: body
            for place, (position, body) in self.kept[topic].items()
            if position >= log_min
        }
        missing = [place for place, body in expected.items() if found.get(place) != body]
        assert not missing, (topic, len(missing), missing[:3])
        self.kept[topic] = {
            place: kept for place, kept in self.kept[topic].items() if kept[0] >= log_min
        }


def write_until_killed(root: Path, turn: int, seconds: float, promises: Promises) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.store.durability.life_writer"),
            *(str(root), str(turn), json.dumps(promises.lives)),
        ],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    output = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            output.append(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    for line in [*output, *rest.splitlines(keepends=True)]:
        if line.endswith(b"\n"):  # the last one may be half a line
            promises.take(line)


async def compare(root: Path, turn: int, promises: Promises) -> None:
    async with MessageStore(dangerous_config(root, turn)) as store:
        assert store.damages == []
        for topic in TOPICS:
            found: dict[Place, bytes] = {}
            for queue_id in store.queues(topic):
                for one in read_queue(store, topic, queue_id):
                    found[queue_id, one.queue_offset] = one.body
            promises.compare(topic, found, store.min_physical_offset)
        promises.in_doubt = None


def live_dangerously(root: Path, rounds: int) -> Promises:
    choose = random.Random(rounds)
    promises = Promises()
    for turn in range(rounds):
        write_until_killed(root, turn, choose.uniform(0, 0.4), promises)
        asyncio.run(compare(root, turn, promises))
    findings = list(check_store(root, dangerous_config(root, rounds)))
    assert [f for f in findings if f.severity is Severity.ERROR] == []
    # A kill in the middle of a batch leaves a torn one at the end of the log, and nothing else.
    assert all(kept.name.startswith("commitlog-") for kept in (root / "aside").glob("*"))
    return promises


def test_promises_are_kept_in_six_crashes(tmp_path: Path) -> None:
    promises = live_dangerously(tmp_path, rounds=6)
    assert promises.count > 100
    assert sum(promises.lives.values()) > 0


@pytest.mark.slow
def test_promises_are_kept_in_two_hundred_crashes(tmp_path: Path) -> None:
    live_dangerously(tmp_path, rounds=200)
