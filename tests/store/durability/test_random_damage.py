"""Random damage to any file of a store: what is outside the damage is found under its number.

Each case takes a copy of a store with several topics, one of them deleted and made again, damages
one file of it at random, and opens it twice in a row.
"""

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.message.message import MessageExt
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import InvalidRecord
from rocketq.store import MessageStore, StoreConfig
from rocketq.store.errors import QueueUnavailable
from rocketq.store.inspect.check import Severity, check_store
from tests.store.support import message, small_config

FILE_SIZE = 1 << 18
QUEUES = 3
TOPICS = ("orders", "stock", "again", "SCHEDULE_TOPIC_XXXX")


@dataclass(frozen=True)
class Written:
    """A message as it was acknowledged."""

    topic: str
    queue_id: int
    number: int
    position: int
    size: int
    body: bytes


@dataclass(frozen=True)
class Template:
    """A directory, and what it holds."""

    root: Path
    messages: list[Written]


def config_of(root: Path) -> StoreConfig:
    # With a checksum over the whole record: without one nobody can tell that a topic is wrong.
    return small_config(
        root,
        mapped_file_size_commit_log=FILE_SIZE,
        mapped_file_size_consume_queue=800,
        enabled_append_prop_crc=True,
    )


async def fill(store: MessageStore, clock: ManualClock, choose: random.Random) -> list[Written]:
    written: list[Written] = []
    for number in range(900):
        if number == 300:
            await store.delete_topic("again")
            await store.delete_topic("gone")
            written = [one for one in written if one.topic not in ("again", "gone")]
        if number in (200, 500):
            clock.set_wall(clock.now_ms() - 2_000)
        clock.set_wall(clock.now_ms() + choose.randrange(3))
        topic = choose.choice(TOPICS if number >= 300 else (*TOPICS, "gone"))
        queue_id = choose.randrange(QUEUES)
        body = b"%d " % number + b"x" * choose.randrange(60)
        result = store.append(
            message(body, topic=topic, queue_id=queue_id, keys=f"k{number}", tags=f"t{number % 3}")
        )
        assert result.is_stored
        written.append(
            Written(topic, queue_id, result.queue_offset, result.physical_offset, result.size, body)
        )
    return written


def make(root: Path, *, is_killed: bool) -> Template:
    copy = root / "copy"
    clock = ManualClock()

    async def run() -> list[Written]:
        async with MessageStore(config_of(root / "store"), clock=clock) as store:
            written = await fill(store, clock, random.Random(7))
            if is_killed:
                await store.flush()
                store._write_checkpoint()
                shutil.copytree(root / "store", copy)
        if not is_killed:
            shutil.copytree(root / "store", copy)
        return written

    return Template(copy, asyncio.run(run()))


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> list[Template]:
    return [
        make(tmp_path_factory.mktemp(name), is_killed=name == "killed")
        for name in ("stopped", "killed")
    ]


# Damage


def flip_a_bit(data: bytearray, choose: random.Random) -> tuple[int, int]:
    at = choose.randrange(len(data))
    data[at] ^= 1 << choose.randrange(8)
    return at, at + 1


def overwrite(data: bytearray, choose: random.Random) -> tuple[int, int]:
    at = choose.randrange(len(data))
    end = min(len(data), at + choose.choice([1, 8, 20, 100, 700]))
    data[at:end] = choose.randbytes(end - at)
    return at, end


def zero(data: bytearray, choose: random.Random) -> tuple[int, int]:
    at = choose.randrange(len(data))
    end = min(len(data), at + choose.choice([1, 8, 20, 512, 4096]))
    data[at:end] = bytes(end - at)
    return at, end


DAMAGES: list[Callable[[bytearray, random.Random], tuple[int, int]]] = [
    flip_a_bit,
    overwrite,
    zero,
]


def damage(root: Path, choose: random.Random) -> tuple[str, int, int]:
    """Damage a file: which, and the part of the log that is hit, if any."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    # As often a file of each kind, although there are more queues than anything else.
    kinds = sorted({path.relative_to(root).parts[0] for path in files})
    kind = choose.choice(kinds)
    path = choose.choice([one for one in files if one.relative_to(root).parts[0] == kind])
    data = bytearray(path.read_bytes())
    if not data:
        return str(path), -1, -1
    is_derived = kind not in ("commitlog", "lock", "abort")
    number = choose.randrange(len(DAMAGES) + (2 if is_derived else 0))
    if number == len(DAMAGES):
        path.unlink()
        return f"{path} lost", -1, -1
    if number > len(DAMAGES):
        os.truncate(path, choose.randrange(len(data)))
        return f"{path} cut", -1, -1
    how = DAMAGES[number]
    start, end = how(data, choose)
    path.write_bytes(data)
    first = int(path.name) if kind == "commitlog" else -1
    what = f"{path} {how.__name__} {start} to {end}"
    return (what, first + start, first + end) if first >= 0 else (what, -1, -1)


async def read_each(store: MessageStore, topic: str, queue_id: int) -> dict[int, MessageExt]:
    """Every message by its number: one that is damaged must not hide the others."""
    found: dict[int, MessageExt] = {}
    number = 0
    while True:
        try:
            end = store.max_offset(topic, queue_id)
            result = store.get(topic, queue_id, number, 1)
        except QueueUnavailable:
            await store.mended()
            continue
        if number >= end:
            return found
        if result.message_count:
            try:
                one = decode_record(result.buffers[0])
                if one.queue_offset == result.next_offset - 1:
                    found[one.queue_offset] = one
            except InvalidRecord:
                pass
        elif result.next_offset == number:
            await store.mended()
            continue
        number = max(result.next_offset, number + 1)


async def served(config: StoreConfig) -> dict[tuple[str, int, int], tuple[int, bytes]]:
    found: dict[tuple[str, int, int], tuple[int, bytes]] = {}
    async with MessageStore(config) as store:
        for topic in set(store.topics()) - {"bulk"}:
            for queue_id in store.queues(topic):
                for number, one in (await read_each(store, topic, queue_id)).items():
                    found[topic, queue_id, number] = one.physical_offset, one.body
        for number in range(0, 900, 50):
            store.query_keys("orders", f"k{number}", 32, 0, 1 << 60)
    return found


def attack(template: Template, root: Path, seed: int) -> None:
    choose = random.Random(seed)
    shutil.copytree(template.root, root)
    what, start, end = damage(root, choose)
    expected = {
        (one.topic, one.queue_id, one.number): (one.position, one.body)
        for one in template.messages
        if not (one.position < end and one.position + one.size > start)
    }
    hit = {
        (one.topic, one.queue_id, one.number): (one.position, one.body) for one in template.messages
    }
    config = config_of(root)
    list(check_store(root, config))  # must not fail, whatever it finds
    for turn in range(2):
        found = asyncio.run(served(config))
        missing = {key: value for key, value in expected.items() if found.get(key) != value}
        assert not missing, (seed, turn, what, len(missing), next(iter(missing.items())))
        # Nothing is served that was never written, or deleted; what was hit may be served
        # where its checksum has become no checksum.
        strange = [key for key in found if key not in hit]
        assert not strange, (seed, turn, what, strange[:5])
    findings = list(check_store(root, config))
    derived = [f for f in findings if "consumequeue" in f.place and f.severity is Severity.ERROR]
    assert not derived or start >= 0, (seed, what, derived[:3])
    shutil.rmtree(root)


def attack_many(templates: list[Template], root: Path, seeds: range) -> None:
    failures = []
    for seed in seeds:
        try:
            attack(templates[seed % 2], root / str(seed), seed)
        except Exception as error:  # whatever it is: no damage keeps a store from opening
            failures.append(f"{seed}: {error!r:.400}")
    assert not failures, "\n".join([f"{len(failures)} of {len(seeds)}", *failures[:20]])


def test_what_is_outside_the_damage_is_found(templates: list[Template], tmp_path: Path) -> None:
    attack_many(templates, tmp_path, range(40))


@pytest.mark.parametrize("seed", [11_761])
def test_what_failed_once(templates: list[Template], tmp_path: Path, seed: int) -> None:
    """11761: an index file whose header is zeros, between files with neighbouring names."""
    attack(templates[seed % 2], tmp_path / "store", seed)


@pytest.mark.slow
def test_what_is_outside_the_damage_is_found_in_2000_stores(
    templates: list[Template], tmp_path: Path
) -> None:
    attack_many(templates, tmp_path, range(1_000, 3_000))
