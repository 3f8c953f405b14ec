"""Topics that are deleted, and made again under the same name."""

import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.message.record.reader import decode_records
from rocketq.store import FlushDiskType, MessageStore, StoreConfig
from rocketq.store.durability.beginnings import FILE_NAME, read_beginnings
from rocketq.store.inspect.check import Severity, check_store
from rocketq.store.inspect.dump import dump_store
from tests.store.disks import FaultyDisk
from tests.store.support import bodies, message, read_everything, read_queue, small_config

FLUSHES = [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH]
OLD, NEW = 30, 12


async def put(store: MessageStore, bodies: list[bytes], topic: str = "orders") -> None:
    for number, body in enumerate(bodies):
        result = store.append(
            message(body, topic=topic, queue_id=number % 2, keys="key", unique_key=f"u{number}")
        )
        assert result.is_stored
    future = store.durable(result.end)
    if future is not None:
        await future


def life(name: str, count: int) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


async def live_twice(store: MessageStore) -> None:
    """A topic with an earlier life, one that was deleted for good, and one that stays."""
    await put(store, life("kept", 5), "kept")
    await put(store, life("old", OLD))
    await put(store, life("gone", OLD), "gone")
    await store.delete_topic("orders")
    await store.delete_topic("gone")
    await put(store, life("new", NEW))


def by_key(store: MessageStore, topic: str, key: str = "key") -> list[bytes]:
    found = store.query_keys(topic, key, 64, 0, 1 << 60).buffers
    return [one.body for buffer in found for one in decode_records(buffer)]


def assert_second_life(store: MessageStore, also: int = 0) -> None:
    new = life("new", NEW)
    assert sorted(store.topics()) == ["kept", "orders"]
    found = read_everything(store)
    assert found["orders", 0][: NEW // 2] == new[::2]
    assert found["orders", 1] == new[1::2]
    assert found["kept", 0] + found["kept", 1] == life("kept", 5)[::2] + life("kept", 5)[1::2]
    assert [m.queue_offset for m in read_queue(store)] == list(range(NEW // 2 + also))
    assert by_key(store, "orders")[:NEW] == new
    assert by_key(store, "gone") == []
    assert store.damages == []


def assert_in_order(root: Path, config: StoreConfig) -> None:
    findings = [f for f in check_store(root, config) if f.severity is not Severity.INFO]
    assert findings == []
    assert {m.topic for m in dump_store(root, config=config)} == {"kept", "orders"}
    assert not any(m.body.startswith(b"old") for m in dump_store(root, config=config))


async def start_again(config: StoreConfig) -> None:
    """Several starts one after another, each of which stores one message more."""
    for also in range(3):
        async with MessageStore(config) as store:
            assert_second_life(store, also)
            result = store.append(message(b"one more"))
            assert result.queue_offset == NEW // 2 + also
        assert_in_order(config.root, config)


@pytest.mark.parametrize("flush", FLUSHES)
async def test_the_second_life_is_there_after_a_stop(tmp_path: Path, flush: FlushDiskType) -> None:
    config = small_config(tmp_path, flush_disk_type=flush)
    async with MessageStore(config) as store:
        await live_twice(store)
        assert_second_life(store)
    await start_again(config)


@pytest.mark.parametrize("flush", FLUSHES)
async def test_the_second_life_is_there_after_a_crash(tmp_path: Path, flush: FlushDiskType) -> None:
    config = small_config(tmp_path / "running", flush_disk_type=flush)
    copy = small_config(tmp_path / "killed", flush_disk_type=flush)
    async with MessageStore(config) as store:
        await live_twice(store)
        shutil.copytree(config.root, copy.root)
    await start_again(copy)


@pytest.mark.parametrize(
    "lost",
    ["consumequeue", "index", "checkpoint", "consumequeue/orders", FILE_NAME, f"{FILE_NAME}.bak"],
)
async def test_what_is_made_again_is_of_the_second_life(tmp_path: Path, lost: str) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        await live_twice(store)
    path = tmp_path / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    await start_again(config)


async def test_files_of_the_earlier_life_that_were_not_yet_deleted_are_deleted(
    tmp_path: Path,
) -> None:
    """Killed after the deletion was written down and before the files were gone."""
    config = small_config(tmp_path / "running")
    copy = small_config(tmp_path / "killed")
    async with MessageStore(config) as store:
        await put(store, life("kept", 5), "kept")
        await put(store, life("old", OLD))
        store.beginnings.begin("orders", store.max_physical_offset)
        shutil.copytree(config.root, copy.root)
    for _ in range(2):
        async with MessageStore(copy) as store:
            assert store.topics() == ["kept"]
            assert store.max_offset("orders", 0) == 0
    async with MessageStore(copy) as store:
        assert store.append(message(b"new")).queue_offset == 0
    async with MessageStore(copy) as store:
        assert bodies(store) == [b"new"]


async def test_a_topic_that_is_deleted_before_its_messages_can_be_read_is_gone(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with MessageStore(config) as store:
        store.append(message(b"old"))
        assert store.append(message(b"old")).queue_offset == 1
        deletion = store.delete_topic("orders")
        await deletion
        assert store.topics() == []
        assert store.append(message(b"new")).queue_offset == 0
        await store.flush()
        assert bodies(store) == [b"new"]
    async with MessageStore(config) as store:
        assert bodies(store) == [b"new"]


async def test_many_lives_in_one_log(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    choose = random.Random(5)
    expected: dict[str, list[bytes]] = {}
    number = 0
    for _ in range(8):
        async with MessageStore(config) as store:
            for topic in ("a", "b", "c"):
                for _ in range(choose.randrange(3)):
                    await store.delete_topic(topic)
                    expected.pop(topic, None)
                    for _ in range(choose.randrange(20)):
                        number += 1
                        assert store.append(message(b"%d" % number, topic=topic)).is_stored
                        expected.setdefault(topic, []).append(b"%d" % number)
        async with MessageStore(config) as store:
            found = {topic: bodies(store, topic) for topic in store.topics()}
            assert found == expected
        assert all(f.severity is Severity.INFO for f in check_store(tmp_path, config))


async def test_without_the_notes_the_queues_tell_which_life_it_is(tmp_path: Path) -> None:
    """RocketMQ takes no notes of deletions."""
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        await put(store, life("old", OLD))
        await store.delete_topic("orders")
        await put(store, life("new", NEW))
    for name in (FILE_NAME, f"{FILE_NAME}.bak", "checkpoint"):
        (tmp_path / name).unlink()
    for also in range(3):
        async with MessageStore(config) as store:
            assert bodies(store, queue_id=0)[: NEW // 2] == life("new", NEW)[::2]
            assert bodies(store, queue_id=1) == life("new", NEW)[1::2]
            assert store.append(message(b"more")).queue_offset == NEW // 2 + also


# The notes


async def test_a_note_is_on_the_disk_before_any_message_behind_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = small_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with MessageStore(config, disk=disk) as store:
        await put(store, life("old", 4))
        disk.syncs.clear()
        store._lives.end("orders", store.max_physical_offset)
        await put(store, life("new", 4))
        names = [Path(path).name for path in disk.syncs]
        first_of_log = next(n for n, path in enumerate(disk.syncs) if "commitlog" in path)
        assert {FILE_NAME, f"{FILE_NAME}.bak"} <= set(names[:first_of_log])


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_deletion_that_cannot_be_written_down_is_no_deletion(
    tmp_path: Path, operation: str
) -> None:
    disk = FaultyDisk()
    async with MessageStore(small_config(tmp_path), disk=disk) as store:
        await put(store, life("old", 4))
        disk.fail(operation, errno.EIO, only=FILE_NAME)
        with pytest.raises(OSError, match="Input/output"):
            await store.delete_topic("orders")
        assert not store.append(message(b"new")).is_stored
        disk.mend()


@pytest.mark.parametrize("seed", range(20))
async def test_damage_to_one_copy_of_the_notes_changes_nothing(tmp_path: Path, seed: int) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        await live_twice(store)
    choose = random.Random(seed)
    path = tmp_path / choose.choice([FILE_NAME, f"{FILE_NAME}.bak"])
    damaged = bytearray(path.read_bytes())
    at = choose.randrange(len(damaged))
    damaged[at:] = choose.choice([b"", os.urandom(len(damaged) - at), bytes(len(damaged) - at)])
    path.write_bytes(damaged)
    await start_again(config)


async def test_notes_go_with_the_part_of_the_log_they_are_about(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small_config(
        tmp_path, mapped_file_size_commit_log=2048, delete_commit_log_files_interval=1
    )
    async with MessageStore(config, clock=clock, disk=FaultyDisk()) as store:
        await put(store, life("old", 4))
        await store.delete_topic("orders")
        assert list(store.beginnings.marks()) == ["orders"]
        await put(store, life("new", 60))
        await store.flush()
        for path in (tmp_path / "commitlog").iterdir():
            os.utime(path, (0, 0))
        assert await store.delete_expired_files() > 0
        assert store.beginnings.marks() == {}
    async with MessageStore(config, clock=clock, disk=FaultyDisk()) as store:
        assert read_beginnings(tmp_path) == {}
        assert (tmp_path / FILE_NAME).read_bytes() == b""


async def test_deleting_what_does_not_exist_leaves_no_note(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        await put(store, life("old", 4))
        assert await store.delete_topic("nothing") == 0
        assert store.beginnings.marks() == {}


# Copies of the log


async def test_a_copy_of_the_log_takes_over_where_topics_begin(tmp_path: Path) -> None:
    config = small_config(tmp_path / "master")
    async with MessageStore(config) as store:
        await live_twice(store)
        marks = store.beginnings.marks()
    copy = small_config(tmp_path / "copy")
    async with MessageStore(copy) as store:
        # Told before there is anything to be told about.
        assert await store.begin_topic("orders", marks["orders"])
        assert not await store.begin_topic("orders", marks["orders"])
    shutil.rmtree(copy.root / "commitlog", ignore_errors=True)
    shutil.copytree(config.root / "commitlog", copy.root / "commitlog")
    async with MessageStore(copy) as store:
        assert await store.begin_topic("gone", marks["gone"])
        assert_second_life(store)
    await start_again(copy)
