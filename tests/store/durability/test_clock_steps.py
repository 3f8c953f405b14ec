"""Clocks that are set back, and damage: nothing that was on the disk is thrown away."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.message.record.reader import decode_records
from rocketq.store import MessageStore, StoreConfig
from rocketq.store.inspect.check import Severity, check_store
from tests.store.support import message, read_queue, small_config

FILE_SIZE = 4096


def config_of(root: Path, **settings: object) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=FILE_SIZE, **settings)


async def fill(config: StoreConfig, copy: Path | None = None) -> dict[int, int]:
    """Number -> position of messages; the clock is set back by two seconds in their midst."""
    clock = ManualClock()
    positions = {}
    async with MessageStore(config, clock=clock) as store:
        for number in range(150):
            if number == 60:
                clock.set_wall(clock.now_ms() - 2_000)
            clock.set_wall(clock.now_ms() + 1)
            result = store.append(message(b"%d" % number, keys=f"k{number}"))
            positions[result.queue_offset] = result.physical_offset
        if copy is not None:
            await store.flush()
            store._write_checkpoint()
            shutil.copytree(config.root, copy)
    return positions


def damage(root: Path, position: int) -> None:
    path = root / "commitlog" / f"{position // FILE_SIZE * FILE_SIZE:020d}"
    data = bytearray(path.read_bytes())
    data[position % FILE_SIZE + 88] ^= 0xFF  # in the body
    path.write_bytes(data)


async def found_in(config: StoreConfig) -> dict[int, int]:
    async with MessageStore(config) as store:
        return {found.queue_offset: found.physical_offset for found in read_queue(store)}


@pytest.mark.parametrize("lost", [None, "checkpoint"])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("number", [20, 59, 61, 100])
def test_a_bad_byte_costs_its_record_whatever_the_clock_did(
    tmp_path: Path, number: int, is_killed: bool, lost: str | None
) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    positions = asyncio.run(fill(config_of(root), copy))
    root = copy if is_killed else root
    damage(root, positions.pop(number))
    if lost is not None:
        (root / lost).unlink()
    for _ in range(2):
        found = asyncio.run(found_in(config_of(root)))
        found.pop(number, None)  # still there if no start had a reason to read that part
        assert found == positions
    errors = [f for f in check_store(root, config_of(root)) if f.severity is Severity.ERROR]
    assert any("damaged" in error.text for error in errors)


def test_what_nobody_vouches_for_is_kept_aside(tmp_path: Path) -> None:
    """Neither checkpoint nor queues, and a clock that went back: it may be something old."""
    positions = asyncio.run(fill(config_of(tmp_path)))
    damage(tmp_path, positions[59])
    before = {path.name: path.read_bytes() for path in (tmp_path / "commitlog").iterdir()}
    (tmp_path / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "consumequeue")

    async def read() -> dict[int, int]:
        async with MessageStore(config_of(tmp_path)) as store:
            assert store.recovery is not None
            assert store.recovery.set_aside
            found = read_queue(store)
            store.append(message(b"next"))
            return {one.queue_offset: one.physical_offset for one in found}

    found = asyncio.run(read())
    assert found == {number: at for number, at in positions.items() if number < 59}
    # Every byte from there on is still to be had.
    aside = tmp_path / "aside"
    cut = positions[59]
    first = cut // FILE_SIZE * FILE_SIZE
    kept = (aside / f"commitlog-{cut:020d}").read_bytes()
    assert before[f"{first:020d}"][cut - first :].rstrip(b"\0") == kept.rstrip(b"\0")
    for name, content in before.items():
        if int(name) > cut and any(content):
            assert (aside / name).read_bytes() == content


@pytest.mark.parametrize("seed", range(3))
def test_a_torn_record_at_the_end_is_not_kept(tmp_path: Path, seed: int) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"

    async def make() -> int:
        async with MessageStore(config_of(root)) as store:
            for number in range(10):
                result = store.append(message(b"%d" % number * 30, keys="key"))
            shutil.copytree(root, copy)
            return result.physical_offset

    position = asyncio.run(make())
    path = copy / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    cut = position + random.Random(seed).randrange(40, 120)
    data[cut:] = bytes(len(data) - cut)
    path.write_bytes(data)
    (copy / "checkpoint").unlink()
    assert len(asyncio.run(found_in(config_of(copy)))) == 9
    assert not (copy / "aside").exists()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_checksum_that_is_wanted_from_now_on_costs_no_message_from_before(
    tmp_path: Path, is_killed: bool
) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    positions = asyncio.run(fill(config_of(root), copy))
    root = copy if is_killed else root
    strict = config_of(root, force_verify_prop_crc=True)

    async def more(number: int, next_copy: Path) -> None:
        async with MessageStore(strict) as store:
            result = store.append(message(b"%d" % number))
            positions[number] = result.physical_offset
            shutil.copytree(root, next_copy)

    asyncio.run(more(150, tmp_path / "again"))
    strict = config_of(tmp_path / "again", force_verify_prop_crc=True)
    assert asyncio.run(found_in(strict)) == positions


def test_the_index_follows_the_log_and_not_the_clock(tmp_path: Path) -> None:
    """Its files are named by the time; a clock that is set back must not change their order."""
    clock = ManualClock()
    config = small_config(tmp_path)

    async def put(start: int, stop: int) -> None:
        async with MessageStore(config, clock=clock) as store:
            for number in range(start, stop):
                clock.set_wall(clock.now_ms() - 60_000)
                store.append(message(b"%d" % number, keys=f"key{number}"))

    async def find() -> int:
        async with MessageStore(config, clock=clock) as store:
            assert store._index is not None
            for number in range(400):
                found = store.query_keys("orders", f"key{number}", 8, 0, 1 << 60).buffers
                bodies = [m.body for buffer in found for m in decode_records(buffer)]
                assert b"%d" % number in bodies
            return len(store._index.files)

    asyncio.run(put(0, 300))
    asyncio.run(put(300, 400))
    assert asyncio.run(find()) == asyncio.run(find()) == 7


def test_an_index_file_with_a_damaged_head_is_made_again(tmp_path: Path) -> None:
    config = small_config(tmp_path)

    async def put() -> None:
        async with MessageStore(config) as store:
            for number in range(200):
                store.append(message(b"%d" % number, keys=f"key{number}"))

    asyncio.run(put())
    last = max((tmp_path / "index").iterdir())
    data = bytearray(last.read_bytes())
    data[24:32] = b"\x7f" * 8  # where its last message lies
    last.write_bytes(data)

    async def find() -> None:
        async with MessageStore(config) as store:
            store.append(message(b"200", keys="key200"))
            for number in range(201):
                found = store.query_keys("orders", f"key{number}", 8, 0, 1 << 60).buffers
                assert b"%d" % number in [m.body for b in found for m in decode_records(b)], number

    asyncio.run(find())


def test_a_lost_index_file_is_made_again_where_names_leave_no_room(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small_config(tmp_path)

    async def put() -> None:
        async with MessageStore(config, clock=clock) as store:
            for number in range(400):
                clock.set_wall(clock.now_ms() - 60_000)
                store.append(message(b"%d" % number, keys=f"key{number}"))

    async def find() -> None:
        async with MessageStore(config, clock=clock) as store:
            for number in range(400):
                found = store.query_keys("orders", f"key{number}", 8, 0, 1 << 60).buffers
                assert b"%d" % number in [m.body for b in found for m in decode_records(b)], number

    asyncio.run(put())
    sorted((tmp_path / "index").iterdir())[3].unlink()
    asyncio.run(find())
    asyncio.run(find())
