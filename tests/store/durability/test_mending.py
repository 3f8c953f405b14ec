"""Queues whose files are damaged, found out while the store is open."""

import asyncio
import shutil
import struct
from pathlib import Path

import pytest

from rocketq.store import GetStatus, MessageStore, PutStatus, StoreConfig
from rocketq.store.errors import QueueUnavailable
from rocketq.store.inspect.check import Severity, check_store
from rocketq.store.upkeep import mending
from rocketq.store.upkeep.mending import FILE_NAME, read_notes
from tests.store.support import message, read_queue, read_when_whole, small_config
from tests.waiting import eventually

MESSAGES = 130
ENTRY = struct.Struct(">qiq")


def config_of(root: Path) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=1 << 20)


async def fill(root: Path) -> None:
    """A queue whose messages lie so far back that no start reads them."""
    async with MessageStore(config_of(root)) as store:
        for number in range(MESSAGES):
            store.append(message(b"%d" % number))
        for _ in range(120):
            store.append(message(bytes(60_000), topic="others"))


def whole() -> list[bytes]:
    return [b"%d" % number for number in range(MESSAGES)]


def change_entry(root: Path, number: int, entry: bytes) -> None:
    """Entries lie 20 to a file of 400 bytes."""
    path = root / "consumequeue" / "orders" / "0" / f"{number // 20 * 400:020d}"
    data = bytearray(path.read_bytes())
    data[number % 20 * 20 : number % 20 * 20 + len(entry)] = entry
    path.write_bytes(data)


GARBAGE = [
    b"\xff" * 20,
    bytes(20),
    b"\x00" * 6 + b"\x7f" * 14,
    ENTRY.pack(1 << 40, 100, 0),
    ENTRY.pack(200_000, 100, 0),
    ENTRY.pack(5, -3, 0),
]


@pytest.mark.parametrize("number", [0, 1, 60, 64, 119, 128, 129])
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_in_an_entry_costs_nothing(
    tmp_path: Path, number: int, garbage: bytes
) -> None:
    await fill(tmp_path)
    change_entry(tmp_path, number, garbage)
    for also in range(2):
        async with MessageStore(config_of(tmp_path)) as store:
            found = await read_when_whole(store)
            assert [one.body for one in found][:MESSAGES] == whole()
            assert [one.queue_offset for one in found] == list(range(MESSAGES + also))
            assert store.min_offset("orders", 0) == 0
            assert store.append(message(b"more")).queue_offset == MESSAGES + also
    findings = check_store(tmp_path, config_of(tmp_path))
    assert [f for f in findings if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize("garbage", [b"\x00" * 6 + b"\x01" * 14, ENTRY.pack(3_000, 109, 0)])
@pytest.mark.parametrize("distance", [0, 1, 5])
async def test_garbage_behind_the_last_entry_is_no_entry(
    tmp_path: Path, distance: int, garbage: bytes
) -> None:
    await fill(tmp_path)
    change_entry(tmp_path, MESSAGES + distance, garbage)
    for also in range(2):
        async with MessageStore(config_of(tmp_path)) as store:
            found = await read_when_whole(store)
            assert [one.body for one in found][:MESSAGES] == whole()
            assert store.max_offset("orders", 0) == MESSAGES + also
            assert store.append(message(b"more")).queue_offset == MESSAGES + also


async def test_the_first_offset_is_right_at_once_when_the_log_has_lost_its_front(
    tmp_path: Path,
) -> None:
    await fill(tmp_path)
    change_entry(tmp_path, 64, ENTRY.pack(1 << 50, 100, 0))
    async with MessageStore(config_of(tmp_path)) as store:
        await read_when_whole(store)
        assert store.min_offset("orders", 0) == 0


async def test_while_a_queue_is_mended_nothing_is_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "_AT_ONCE", 1000)
    await fill(tmp_path)
    change_entry(tmp_path, 70, b"\xff" * 20)
    copy = tmp_path.with_name("killed")
    async with MessageStore(config_of(tmp_path)) as store:
        at, got = 0, []
        while not store._queues.mending:
            result = store.get("orders", 0, at, 32)
            got.append(result.message_count)
            at = result.next_offset
        assert at == sum(got) == 70  # up to the damage, and not a step further
        result = store.get("orders", 0, at, 32)
        assert (result.status, result.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 70)
        assert store.append(message(b"more")).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.append(message(b"more", queue_id=1)).is_stored
        with pytest.raises(QueueUnavailable):
            store.max_offset("orders", 0)
        await eventually(lambda: read_notes(tmp_path) != [])
        for _ in range(20):
            await asyncio.sleep(0)
        assert store._queues.mending
        shutil.copytree(tmp_path, copy)
        await store.mended()
        assert not (tmp_path / FILE_NAME).exists()
        assert [one.body for one in read_queue(store)] == whole()
        assert store.append(message(b"more")).queue_offset == MESSAGES
    # Killed in the middle of it.
    async with MessageStore(config_of(copy)) as store:
        assert [one.body for one in read_queue(store)] == whole()
        assert store.append(message(b"more")).queue_offset == MESSAGES
        await store.mended()
    assert not (copy / FILE_NAME).exists()


async def test_a_store_that_is_closed_while_it_mends_goes_on_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path)
    change_entry(tmp_path, 129, b"\xff" * 20)
    with monkeypatch.context() as patched:
        patched.setattr(mending, "_AT_ONCE", 1000)
        async with MessageStore(config_of(tmp_path)) as store:
            store.get("orders", 0, 0, 1)
            assert store._queues.mending
    async with MessageStore(config_of(tmp_path)) as store:
        assert [one.body for one in await read_when_whole(store)] == whole()
        assert store.append(message(b"more")).queue_offset == MESSAGES


async def test_a_topic_that_is_deleted_while_its_queue_is_mended_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "_AT_ONCE", 1000)
    await fill(tmp_path)
    change_entry(tmp_path, 129, b"\xff" * 20)
    async with MessageStore(config_of(tmp_path)) as store:
        store.get("orders", 0, 0, 1)
        for _ in range(10):
            await asyncio.sleep(0)
        await store.delete_topic("orders")
        await store.mended()
        assert store.topics() == ["others"]
        assert store.append(message(b"new")).queue_offset == 0
        assert [one.body for one in read_queue(store)] == [b"new"]
    async with MessageStore(config_of(tmp_path)) as store:
        assert [one.body for one in read_queue(store)] == [b"new"]


async def test_a_damaged_record_is_not_looked_for_again_and_again(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with MessageStore(config_of(tmp_path)) as store:
        place = next(iter(store.entries("orders", 0, 50, 1)))
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[place.position + 4] ^= 0xFF  # its magic
    path.write_bytes(data)
    for _ in range(2):
        async with MessageStore(config_of(tmp_path)) as store:
            found = await read_when_whole(store)
            assert [one.body for one in found] == whole()[:50] + whole()[51:]
            assert [one.queue_offset for one in found] == [n for n in range(130) if n != 50]
            queue = store._queues.find("orders", 0)
            assert queue is not None
            assert len(queue.suspected) <= 1


async def test_a_copy_that_is_told_late_of_a_new_life_makes_its_queues_again(
    tmp_path: Path,
) -> None:
    config, copy = config_of(tmp_path / "master"), config_of(tmp_path / "copy")
    async with MessageStore(config) as store:
        for number in range(60):
            store.append(message(b"old %d" % number, queue_id=number % 3))
        await store.delete_topic("orders")
        for number in range(20):
            store.append(message(b"new %d" % number, queue_id=number % 2))
        marks = store.beginnings.marks()
    shutil.copytree(config.root / "commitlog", copy.root / "commitlog")
    async with MessageStore(copy) as store:
        assert read_queue(store)[0].body == b"old 0"
        assert await store.begin_topic("orders", marks["orders"])
        await store.mended()
        assert store.queues("orders") == [0, 1]
    for _ in range(2):
        async with MessageStore(copy) as store:
            for queue_id in (0, 1):
                found = [one.body for one in read_queue(store, queue_id=queue_id)]
                assert found == [b"new %d" % number for number in range(queue_id, 20, 2)]
            assert store.queues("orders") == [0, 1]
