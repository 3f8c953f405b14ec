"""Deleting what is too old, and what the disk has no room for."""

import asyncio
import itertools
import os
import time
from pathlib import Path

import pytest

from rocketq.common.clock import ManualClock
from rocketq.message.record.reader import decode_records
from rocketq.store import GetStatus, MessageStore, StoreConfig
from rocketq.store.durability.running_flags import Flag
from tests.store.disks import FaultyDisk
from tests.store.support import bodies, message, read_queue, small_config

HOUR_MS = 3_600_000
FILES = 6


def config_of(root: Path, **settings: object) -> StoreConfig:
    # Three hours in which nothing is deleted by the clock, whatever the time zone.
    return small_config(
        root, mapped_file_size_commit_log=2048, delete_commit_log_files_interval=1, **settings
    )


def log_files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "commitlog").iterdir())


async def fill(store: MessageStore, files: int = FILES) -> int:
    """Messages until the log has so many files; returns how many messages."""
    number = 0
    while len(store._log.segments) < files:
        store.append(message(b"%d" % number, queue_id=number % 2, keys=f"k{number}"))
        number += 1
    await store.flush()
    return number


def count(root: Path, pattern: str) -> int:
    return len(list(root.glob(pattern)))


def age(root: Path, clock: ManualClock, hours: dict[int, float]) -> None:
    """Let files look as if they had been written so long ago."""
    for number, old in hours.items():
        path = root / "commitlog" / f"{number * 2048:020d}"
        changed = clock.now_ms() / 1000 - old * 3600
        os.utime(path, (changed, changed))


@pytest.fixture
def clock() -> ManualClock:
    now = ManualClock(int(time.time() * 1000))
    # Twelve noon, local time: not an hour at which files are deleted.
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    now.set_wall(int(midnight * 1000) + 12 * HOUR_MS)
    return now


async def test_expired_files_are_deleted_when_somebody_asks(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with MessageStore(config_of(tmp_path), clock=clock, disk=FaultyDisk()) as store:
        count = await fill(store)
        age(tmp_path, clock, {0: 80, 1: 73, 2: 71, 3: 1, 4: 1, 5: 1})
        assert await store.clean() == 0  # not now
        assert await store.delete_expired_files() == 2
        assert store.min_physical_offset == 2 * 2048
        assert log_files(tmp_path)[0] == f"{4096:020d}"
        # Queues begin where the log begins.
        for queue_id in (0, 1):
            found = read_queue(store, queue_id=queue_id)
            assert found[0].physical_offset >= 4096
            assert found[0].queue_offset == store.min_offset("orders", queue_id) > 0
            assert found[-1].queue_offset == store.max_offset("orders", queue_id) - 1
        kept = sum(len(bodies(store, queue_id=queue_id)) for queue_id in (0, 1))
        assert 0 < kept < count
        assert store.get("orders", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
        assert store.message_at(0) is None
        assert store.query_keys("orders", "k0", 9, 0, 1 << 60).buffers == []


async def test_expired_files_are_deleted_at_the_hour(tmp_path: Path, clock: ManualClock) -> None:
    async with MessageStore(config_of(tmp_path), clock=clock, disk=FaultyDisk()) as store:
        await fill(store)
        age(tmp_path, clock, dict.fromkeys(range(FILES), 200))
        assert await store.clean() == 0
        clock.set_wall(clock.now_ms() - 8 * HOUR_MS)  # 04, as configured
        assert await store.clean() == FILES - 1
        assert log_files(tmp_path) == [f"{(FILES - 1) * 2048:020d}"]


async def test_a_full_disk_deletes_expired_files_at_any_hour(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    async with MessageStore(config_of(tmp_path), clock=clock, disk=disk) as store:
        await fill(store)
        age(tmp_path, clock, {0: 80, 1: 1, 2: 80})
        disk.ratio = 0.75
        assert await store.clean() == 0
        disk.ratio = 0.76
        assert await store.clean() == 1  # the second has not expired, and stops it
        assert store.flags.is_writeable


async def test_a_fuller_disk_deletes_files_whatever_their_age(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    config = config_of(tmp_path, delete_file_batch_max=3)
    async with MessageStore(config, clock=clock, disk=disk) as store:
        await fill(store)
        disk.ratio = 0.86
        assert await store.clean() == 3
        assert store.flags.is_writeable
        disk.ratio = 0.95
        assert await store.clean() == 2
        assert store.flags.has(Flag.DISK_FULL)
        disk.ratio = 0.5
        assert await store.clean() == 0
        assert store.flags.is_writeable
        assert store.append(message()).is_stored


async def test_files_stay_when_forced_cleaning_is_off(tmp_path: Path, clock: ManualClock) -> None:
    disk = FaultyDisk()
    config = config_of(tmp_path, clean_file_forcibly_enable=False)
    async with MessageStore(config, clock=clock, disk=disk) as store:
        await fill(store)
        disk.ratio = 0.95
        assert await store.clean() == 0


async def test_readers_keep_what_they_hold_of_a_deleted_file(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    async with MessageStore(config_of(tmp_path), clock=clock, disk=disk) as store:
        await fill(store)
        held = store.get("orders", 0, 0, 5)
        disk.ratio = 0.86
        assert await store.clean() > 0
        assert not (tmp_path / "commitlog" / f"{0:020d}").exists()
        found = [m.body for buffer in held.buffers for m in decode_records(buffer)]
        assert found == [b"0", b"2", b"4", b"6", b"8"]


async def test_queue_and_index_files_follow_the_log(tmp_path: Path, clock: ManualClock) -> None:
    disk = FaultyDisk()
    async with MessageStore(config_of(tmp_path), clock=clock, disk=disk) as store:
        await fill(store, files=12)
        queue_files = count(tmp_path, "consumequeue/*/0/*")
        index_files = count(tmp_path, "index/*")
        assert queue_files > 2
        assert index_files > 2
        disk.ratio = 0.86
        await store.clean()
        assert count(tmp_path, "consumequeue/*/0/*") < queue_files
        assert count(tmp_path, "index/*") < index_files
        disk.ratio = 0.1
        rest = bodies(store)
    config = config_of(tmp_path)
    async with MessageStore(config, clock=clock, disk=disk) as store:
        assert bodies(store) == rest
        assert store.recovery is not None
        assert store.recovery.rebuilt_queues == []


async def test_numbers_go_on_when_all_messages_of_a_queue_are_gone(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    config = config_of(tmp_path)
    async with MessageStore(config, clock=clock, disk=disk) as store:
        for _ in range(3):
            store.append(message(topic="rare"))
        await fill(store)
        disk.ratio = 0.86
        await store.clean()
        assert store.min_offset("rare", 0) == store.max_offset("rare", 0) == 3
        assert store.get("rare", 0, 3, 9).status is GetStatus.OFFSET_OVERFLOW_ONE
        assert store.append(message(topic="rare")).queue_offset == 3
    async with MessageStore(config, clock=clock, disk=disk) as store:
        assert (store.min_offset("rare", 0), store.max_offset("rare", 0)) == (3, 4)


async def test_queues_without_messages_are_deleted_on_request(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    async with MessageStore(config_of(tmp_path), clock=clock, disk=disk) as store:
        store.append(message(topic="rare"))
        store.append(message(topic="SCHEDULE_TOPIC_XXXX"))
        await fill(store)
        for queue_id in (0, 1):
            store.append(message(queue_id=queue_id))  # in the file that stays
        assert await store.clean_expired_queues() == 0
        disk.ratio = 0.86
        await store.clean()
        assert await store.clean_expired_queues() == 1
        assert sorted(store.topics()) == ["SCHEDULE_TOPIC_XXXX", "orders"]
        assert not (tmp_path / "consumequeue" / "rare").exists()
        assert store.append(message(topic="rare")).queue_offset == 0


async def test_others_get_their_turn_while_queues_are_deleted(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    async with MessageStore(config_of(tmp_path), clock=clock, disk=disk) as store:
        for queue_id in range(20):
            store.append(message(topic="rare", queue_id=queue_id))
        await fill(store)
        store.append(message())  # in the file that stays
        disk.ratio = 0.86
        await store.clean()
        left: list[int] = []
        cleaning = asyncio.ensure_future(store.clean_expired_queues())
        again = asyncio.ensure_future(store.clean_expired_queues())
        while not cleaning.done():
            left.append(len(store.queues("rare")))
            if len(left) == 5:
                # A queue that gets a message meanwhile stays, and so does the message.
                assert store.append(message(topic="rare", queue_id=19)).queue_offset == 1
            await asyncio.sleep(0)
        assert await cleaning + await again == 19
        assert max(a - b for a, b in itertools.pairwise(left)) <= 2
        assert store.queues("rare") == [19]


async def test_deleting_a_topic_forgets_its_numbers(tmp_path: Path, clock: ManualClock) -> None:
    config = config_of(tmp_path)
    async with MessageStore(config, clock=clock, disk=FaultyDisk()) as store:
        for number in range(10):
            store.append(message(b"%d" % number, queue_id=number % 2))
            store.append(message(b"other", topic="other"))
        assert await store.delete_topic("orders") == 2
        assert store.topics() == ["other"]
        assert not (tmp_path / "consumequeue" / "orders").exists()
        assert store.get("orders", 0, 0, 9).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
        assert await store.delete_topic("orders") == 0
        assert len(bodies(store, "other")) == 10


@pytest.mark.parametrize("cleanings", [2, 3, 7])
async def test_cleanings_at_the_same_time_leave_what_has_not_expired(
    tmp_path: Path, clock: ManualClock, cleanings: int
) -> None:
    config = config_of(tmp_path)
    async with MessageStore(config, clock=clock, disk=FaultyDisk()) as store:
        await fill(store, files=4)
        age(tmp_path, clock, {0: 80, 1: 80, 2: 80, 3: 1})
        kept = [
            (queue_id, found.queue_offset, found.body)
            for queue_id in (0, 1)
            for found in read_queue(store, queue_id=queue_id)
            if found.physical_offset >= 3 * 2048
        ]
        rounds = [store.delete_expired_files() for _ in range(cleanings - 1)] + [store.clean()]
        assert sum(await asyncio.gather(*rounds)) == 3
        assert log_files(tmp_path) == [f"{3 * 2048:020d}"]
        assert store.append(message(b"next")).is_stored
        kept.append((0, store.max_offset("orders", 0) - 1, b"next"))
    async with MessageStore(config, clock=clock, disk=FaultyDisk()) as store:
        found = [
            (queue_id, one.queue_offset, one.body)
            for queue_id in (0, 1)
            for one in read_queue(store, queue_id=queue_id)
        ]
        assert sorted(found) == sorted(kept)
