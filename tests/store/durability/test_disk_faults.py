"""Disks that are full or broken: what is refused, and what comes back by itself."""

import asyncio
import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketq import Message
from rocketq.common.clock import ManualClock
from rocketq.message.record.batch import encode_batch
from rocketq.store import MessageStore, PutStatus
from rocketq.store.durability.running_flags import Flag
from rocketq.store.files.segment import Segment
from tests.store.disks import FaultyDisk, LimitedDisk
from tests.store.support import bodies, message, read_everything, small_config


async def test_a_full_disk_refuses_messages_and_takes_them_again(tmp_path: Path) -> None:
    clock = ManualClock()
    disk = LimitedDisk(capacity=60_000)
    async with MessageStore(small_config(tmp_path), disk=disk, clock=clock) as store:
        stored = 0
        while (result := store.append(message(b"%d" % stored))).is_stored:
            stored += 1
        assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert store.append(message()).status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert not store.flags.has(Flag.NOT_WRITEABLE)
        assert bodies(store) == [b"%d" % number for number in range(stored)]
        # There is room again.
        disk.capacity += 20_000
        assert store.append(message()).status is PutStatus.CREATE_MAPPED_FILE_FAILED
        clock.advance(1_001)  # it is not tried for every message
        assert store.append(message(b"%d" % stored)).status is PutStatus.PUT_OK
        assert bodies(store) == [b"%d" % number for number in range(stored + 1)]
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store) == [b"%d" % number for number in range(stored + 1)]


async def test_half_a_large_batch_leaves_nothing_behind(tmp_path: Path) -> None:
    class TornWrites(FaultyDisk):
        is_tearing = False

        def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
            if self.is_tearing and len(data) > 32_768:
                super().write(descriptor, data[: len(data) // 2], offset)
                raise OSError(errno.ENOSPC, "no room for the other half")
            super().write(descriptor, data, offset)

    config = small_config(tmp_path, mapped_file_size_commit_log=2 << 20)
    clock, disk = ManualClock(), TornWrites()
    parts = [Message("orders", bytes([n]) * 10_000) for n in range(50)]
    large = message(encode_batch(parts))
    store = MessageStore(config, disk=disk, clock=clock)
    await store.open()
    store.append(message(b"before"))
    end = store.max_physical_offset
    disk.is_tearing = True
    assert store.append_batch(large).status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert store.max_physical_offset == end
    assert bodies(store) == [b"before"]
    (log,) = (tmp_path / "commitlog").iterdir()
    assert not any(log.read_bytes()[end:])
    disk.is_tearing = False
    clock.advance(1_001)
    assert store.append_batch(large).is_stored
    assert bodies(store) == [b"before", *(part.body for part in parts)]
    await store.close()
    async with MessageStore(config) as store:
        assert len(bodies(store)) == 51


async def test_no_room_for_a_queue_entry_loses_no_message(tmp_path: Path) -> None:
    clock = ManualClock()
    disk = FaultyDisk()
    async with MessageStore(small_config(tmp_path), disk=disk, clock=clock) as store:
        for number in range(20):  # as many as a file of the queue holds
            store.append(message(b"%d" % number))
        disk.fail("create", errno.ENOSPC, only="consumequeue")
        # It is in the log, so it is stored; it will be in its queue when there is room.
        assert store.append(message(b"20")).status is PutStatus.PUT_OK
        assert store.flags.has(Flag.LOGICS_QUEUE_ERROR)
        assert store.append(message(b"21")).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.max_offset("orders", 0) == 20
        store._catching_up.run()
        assert store.flags.has(Flag.LOGICS_QUEUE_ERROR)
        disk.mend()
        store._catching_up.run()  # once a second
        assert not store.flags.has(Flag.LOGICS_QUEUE_ERROR)
        assert store.append(message(b"21")).status is PutStatus.PUT_OK
        assert bodies(store) == [b"%d" % number for number in range(22)]


async def test_no_room_for_the_index_loses_no_key(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with MessageStore(small_config(tmp_path), disk=disk) as store:
        for number in range(63):  # as many as an index file holds
            store.append(message(b"%d" % number, keys=f"k{number}"))
        disk.fail("create", errno.ENOSPC, only="index")
        assert store.append(message(b"63", keys="k63")).status is PutStatus.PUT_OK
        assert store.flags.has(Flag.INDEX_FILE_ERROR)
        assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        disk.mend()
        store._catching_up.run()
        assert store.flags.is_writeable
        store.append(message(b"64", keys="k64"))
        for number in (62, 63, 64):
            assert len(store.query_keys("orders", f"k{number}", 9, 0, 1 << 60).buffers) == 1
        assert len(bodies(store)) == 65


@pytest.mark.parametrize("place", ["commitlog", "consumequeue", "index"])
@pytest.mark.parametrize("operation", ["create", "write"])
async def test_an_io_error_takes_the_store_offline(
    tmp_path: Path, operation: str, place: str
) -> None:
    disk = FaultyDisk()
    store = MessageStore(small_config(tmp_path), disk=disk)
    await store.open()
    for number in range(5):
        store.append(message(b"%d" % number, keys=f"k{number}"))
    disk.fail(operation, errno.EIO, only=place)
    stored = 5
    while store.append(message(b"%d" % stored, keys=f"k{stored}")).is_stored:
        stored += 1
        assert stored < 1000
    assert store.flags.has(Flag.NOT_WRITEABLE)
    disk.mend()
    assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    served = len(bodies(store))
    assert served >= stored - 1  # the one that met the error may not be in its queue yet
    await store.close()
    assert (tmp_path / "abort").exists()
    async with MessageStore(small_config(tmp_path)) as store:
        assert bodies(store) == [b"%d" % number for number in range(stored)]
        assert store.append(message()).is_stored


async def test_a_queue_that_cannot_be_opened_takes_nothing(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20)
    async with MessageStore(config) as store:
        store.append(message(topic="sleeping"))
        for _ in range(100):
            store.append(message(bytes(100_000)))
    disk = FaultyDisk()
    async with MessageStore(config, disk=disk) as store:
        disk.fail("open", errno.EMFILE, only="sleeping")
        before = store.max_physical_offset
        refused = store.append(message(topic="sleeping"))
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.max_physical_offset == before
        disk.mend()  # descriptors come back
        assert store.append(message(topic="sleeping")).queue_offset == 1
        assert bodies(store, "sleeping") == [b"body", b"body"]


async def test_above_the_warning_level_nothing_is_taken(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with MessageStore(small_config(tmp_path), disk=disk) as store:
        disk.ratio = 0.91
        await store.clean()
        assert store.flags.has(Flag.DISK_FULL)
        assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        disk.ratio = 0.9
        await store.clean()
        assert not store.flags.has(Flag.DISK_FULL)
        assert store.append(message()).status is PutStatus.PUT_OK


async def test_a_slow_page_cache_counts_as_busy(tmp_path: Path) -> None:
    clock = ManualClock()

    class SlowWrites(FaultyDisk):
        delay_ms = 0

        def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
            if "commitlog" in self._paths[descriptor]:
                clock.advance(self.delay_ms)
            super().write(descriptor, data, offset)

    disk = SlowWrites()
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20)
    async with MessageStore(config, disk=disk, clock=clock) as store:
        assert not store.is_page_cache_busy
        disk.delay_ms = 1_500
        assert store.append(message(bytes(100_000))).status is PutStatus.PUT_OK
        disk.delay_ms = 0
        assert store.is_page_cache_busy
        assert int(store.runtime_info()["pageCacheLockTimeMills"]) > 0
        while (result := store.append(message(bytes(100_000)))).is_stored:
            pass
        assert result.status is PutStatus.OS_PAGE_CACHE_BUSY
        clock.advance(60_000)
        assert not store.is_page_cache_busy
        assert store.append(message(bytes(100_000))).status is PutStatus.PUT_OK


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MB, where this user may make one."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "rocketq-test", str(mount)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system could be mounted: {error}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True, capture_output=True)


async def test_a_really_full_disk_is_survived(small_disk: Path) -> None:
    """Writing to mapped memory on a full disk would kill the process."""
    config = small_config(
        small_disk / "store",
        mapped_file_size_commit_log=131_072,
        mapped_file_size_consume_queue=40_000,
        disk_space_warning_level_ratio=90,
    )
    async with MessageStore(config) as store:
        stored = 0
        while store.append(
            message(b"%d" % stored, queue_id=stored % 7, keys=f"k{stored}")
        ).is_stored:
            stored += 1
            assert stored < 100_000
        # Somebody else takes what is left.
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(2 << 20))
        assert not store.append(message()).is_stored
        filler.unlink(missing_ok=True)
        deadline = time.monotonic() + 20
        while not store.append(message(b"again", queue_id=0)).is_stored:
            # As the administrator would: the oldest files make room.
            store.config = small_config(
                small_disk / "store",
                mapped_file_size_commit_log=131_072,
                mapped_file_size_consume_queue=40_000,
                file_reserved_time=0,
            )
            await store.delete_expired_files()
            await asyncio.sleep(0.05)
            assert time.monotonic() < deadline
        assert bodies(store, queue_id=0)[-1] == b"again"
        everything = read_everything(store)
    async with MessageStore(config) as store:
        assert read_everything(store) == everything


# Files that are waited for, made or given up at the wrong moment


class WatchedDisk(FaultyDisk):
    """Its syncs wait until they are let go, and tell whose descriptor they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.is_waiting = threading.Event()
        self.synced: list[str] = []

    def sync(self, descriptor: int) -> None:
        self.is_waiting.set()
        assert self.gate.wait(timeout=30)
        self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        super().sync(descriptor)


def test_a_file_that_is_let_go_of_stays_open_for_who_waits_for_it(tmp_path: Path) -> None:
    disk = WatchedDisk()
    path = tmp_path / f"{0:020d}"
    disk.create(path, 4096, reserve=False)
    segment = Segment(path, 0, 4096, disk)
    segment.hold_open()
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(segment.sync)
        assert disk.is_waiting.wait(timeout=30)
        segment.release_descriptor()
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(3)]  # would get its number
        disk.gate.set()
        waiting.result(timeout=30)
    for descriptor in others:
        os.close(descriptor)
    assert disk.synced == [str(path)]
    assert len(os.listdir("/proc/self/fd")) == before - 1


async def test_a_file_whose_making_failed_half_way_is_made_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = small_config(
        tmp_path, mapped_file_size_commit_log=2 << 20, warm_maped_file_enable=True
    )
    async with MessageStore(config, disk=disk) as store:
        store.append(message(b"first file"))
        disk.fail("sync", errno.ENOSPC, only=f"commitlog/{2 << 20:020d}")
        while (result := store.append(message(bytes(10_000)))).is_stored:
            pass
        assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert store.max_physical_offset > 2_000_000
        disk.mend()
        store._log._retry_at = 0.0
        assert store.append(message(bytes(10_000))).is_stored
        assert store.max_physical_offset > 2 << 20
        assert not store.flags.has(Flag.NOT_WRITEABLE)


async def test_a_file_that_cannot_be_opened_is_taken_when_it_can(tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = small_config(tmp_path, mapped_file_size_commit_log=4096)
    async with MessageStore(config, disk=disk) as store:
        disk.fail("open", errno.ENOSPC, only=f"commitlog/{4096:020d}")
        while (result := store.append(message(bytes(100)))).is_stored:
            pass
        assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        disk.mend()
        store._log._retry_at = 0.0
        assert store.append(message(b"next file")).is_stored
    async with MessageStore(config) as store:
        assert bodies(store)[-1] == b"next file"


async def test_a_file_in_the_way_is_kept_and_does_not_stop_the_store(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=1 << 20)
    async with MessageStore(config) as store:
        path = tmp_path / "commitlog" / f"{1 << 20:020d}"
        store.append(message(b"first"))
        path.write_bytes(b"somebody's")
        while store.max_physical_offset < 1 << 20:
            assert store.append(message(bytes(10_000))).is_stored
        assert (tmp_path / "aside" / path.name).read_bytes() == b"somebody's"
        assert not store.flags.has(Flag.NOT_WRITEABLE)
