"""When messages become durable, and who waits for that."""

import asyncio
import errno
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from rocketq.common.clock import ManualClock
from rocketq.message.message import Message
from rocketq.message.record.batch import encode_batch
from rocketq.store import FlushDiskType, GetStatus, MessageStore, PutStatus, StoreConfig
from rocketq.store.durability.checkpoint import Checkpoint
from rocketq.store.durability.flush import DerivedFlush
from rocketq.store.durability.running_flags import Flag
from rocketq.store.files.disk import Disk
from rocketq.store.queues.consume_queue import QueueSync
from tests.store.disks import FaultyDisk, SlowDisk
from tests.store.support import bodies, message, small_config
from tests.waiting import eventually


def sync_config(root: Path, **settings: object) -> StoreConfig:
    return small_config(root, flush_disk_type=FlushDiskType.SYNC_FLUSH, **settings)


async def test_with_async_flush_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        result = store.append(message())
        assert store.durable(result.end) is None
        assert bodies(store) == [b"body"]


class FolderDisk(Disk):
    """Remembers which directories were synced."""

    def __init__(self) -> None:
        self.folders: list[Path] = []

    def sync_folder(self, folder: Path) -> None:
        self.folders.append(folder)
        super().sync_folder(folder)


async def test_what_is_durable_has_a_durable_name(tmp_path: Path) -> None:
    disk = FolderDisk()
    async with MessageStore(sync_config(tmp_path), disk=disk) as store:
        disk.folders.clear()
        durable = store.durable(store.append(message()).end)
        assert durable is not None
        assert await durable is PutStatus.PUT_OK
        assert tmp_path / "commitlog" in disk.folders
        assert tmp_path in disk.folders


async def test_the_log_is_flushed_at_intervals(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_interval_commit_log=1, flush_commit_log_least_pages=1)
    async with MessageStore(config) as store:
        for _ in range(100):
            store.append(message(bytes(100)))
        await eventually(lambda: store.flushed_position == store.max_physical_offset)


async def test_a_few_bytes_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small_config(tmp_path, flush_interval_commit_log=1)
    async with MessageStore(config, clock=clock) as store:
        store.append(message())
        await asyncio.sleep(0.05)
        assert store.flushed_position == 0
        clock.advance(10_001)
        await eventually(lambda: store.flushed_position == store.max_physical_offset)


async def test_what_comes_during_a_flush_waits_for_the_next_interval(tmp_path: Path) -> None:
    """Under load something always comes: flushing on and on would keep the disk busy for ever."""
    disk = SlowDisk()
    config = small_config(
        tmp_path, flush_interval_commit_log=60_000, flush_consume_queue_thorough_interval=60_000
    )
    async with MessageStore(config, disk=disk) as store:
        first = store.append(message())
        disk.gate.clear()
        flushing = asyncio.ensure_future(store._flush.flush())  # the log alone
        await eventually(disk.is_waiting.is_set)
        store.append(message())
        disk.gate.set()
        await flushing
        await asyncio.sleep(0)
        assert store.flushed_position == first.end
        assert len([path for path in disk.syncs if "commitlog" in path]) == 1


async def test_closing_makes_everything_durable(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path))
    await store.open()
    store.append(message())
    await store.close()
    assert store.flushed_position == store.max_physical_offset > 0
    assert not (tmp_path / "abort").exists()


# SYNC_FLUSH


async def test_who_comes_late_to_a_flush_that_nobody_waits_for_is_told(tmp_path: Path) -> None:
    disk = SlowDisk()
    config = sync_config(tmp_path, sync_flush_timeout=60_000)
    async with MessageStore(config, disk=disk) as store:
        disk.gate.clear()
        end = store.append(message()).end
        store.flush_soon()
        await eventually(disk.is_waiting.is_set)
        durable = store.durable(end)
        assert durable is not None
        disk.gate.set()
        async with asyncio.timeout(30):
            assert await durable is PutStatus.PUT_OK


async def test_a_message_is_invisible_until_it_is_flushed(tmp_path: Path) -> None:
    disk = SlowDisk()
    heard: list[int] = []
    async with MessageStore(sync_config(tmp_path), disk=disk) as store:
        store.arrival_listener = lambda *arrival: heard.append(arrival[2])
        disk.gate.clear()
        result = store.append(message(b"new"))
        assert result.status is PutStatus.PUT_OK
        future = store.durable(result.end)
        assert future is not None
        await eventually(disk.is_waiting.is_set)
        assert store.max_offset("orders", 0) == 0
        assert store.get("orders", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert heard == []
        disk.gate.set()
        assert await future is PutStatus.PUT_OK
        assert heard == [1]
        assert bodies(store) == [b"new"]


async def test_all_who_wait_share_one_flush(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with MessageStore(sync_config(tmp_path), disk=disk) as store:
        first = store.append(message(b"first"))
        future = store.durable(first.end)
        assert future is not None
        await future
        disk.gate.clear()
        running = store.durable(store.append(message(b"running")).end)
        await eventually(disk.is_waiting.is_set)
        syncs = len([path for path in disk.syncs if "commitlog" in path])
        # While that one is under way everybody else gathers for the next.
        waiting = [store.durable(store.append(message(b"%d" % n)).end) for n in range(50)]
        assert len(set(map(id, waiting))) == 1
        assert waiting[0] is not running
        disk.gate.set()
        assert running is not None
        assert waiting[0] is not None
        assert await running is PutStatus.PUT_OK
        assert await waiting[0] is PutStatus.PUT_OK
        assert len([path for path in disk.syncs if "commitlog" in path]) == syncs + 2
        assert len(bodies(store)) == 52


async def test_one_who_gives_up_does_not_take_the_others_along(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with MessageStore(sync_config(tmp_path), disk=disk) as store:
        disk.gate.clear()
        result = store.append(message())

        async def wait() -> PutStatus:
            future = store.durable(result.end)
            assert future is not None
            return await future

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        await eventually(disk.is_waiting.is_set)
        impatient.cancel()
        await asyncio.sleep(0)
        disk.gate.set()
        assert await patient is PutStatus.PUT_OK
        await asyncio.wait([impatient])
        assert impatient.cancelled()


async def test_what_is_flushed_already_need_not_be_waited_for(tmp_path: Path) -> None:
    async with MessageStore(sync_config(tmp_path)) as store:
        result = store.append(message())
        future = store.durable(result.end)
        assert future is not None
        assert await future is PutStatus.PUT_OK
        assert store.durable(result.end) is None


async def test_messages_that_nobody_waits_for_are_flushed_too(tmp_path: Path) -> None:
    async with MessageStore(sync_config(tmp_path)) as store:
        store.append(message(b"one way", wait_store=False))
        await eventually(lambda: store.max_offset("orders", 0) == 1)
        assert store.flushed_position == store.max_physical_offset


async def test_a_late_flush_is_reported_and_the_message_stays(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with MessageStore(sync_config(tmp_path, sync_flush_timeout=20), disk=disk) as store:
        disk.gate.clear()
        future = store.durable(store.append(message(b"late")).end)
        assert future is not None
        assert await future is PutStatus.FLUSH_DISK_TIMEOUT
        disk.gate.set()
        await eventually(lambda: bodies(store) == [b"late"])


async def test_a_flush_covers_several_files(tmp_path: Path) -> None:
    config = sync_config(tmp_path, mapped_file_size_commit_log=1024)
    async with MessageStore(config) as store:
        for number in range(30):
            result = store.append(message(b"%d" % number, keys=f"k{number}"))
        future = store.durable(result.end)
        assert future is not None
        assert await future is PutStatus.PUT_OK
        assert bodies(store) == [b"%d" % number for number in range(30)]
        assert len(store.query_keys("orders", "k7", 9, 0, 1 << 60).buffers) == 1


async def test_batches_become_visible_together(tmp_path: Path) -> None:
    async with MessageStore(sync_config(tmp_path)) as store:
        parts = [Message("orders", b"%d" % n) for n in range(5)]
        result = store.append_batch(message(encode_batch(parts)))
        assert store.max_offset("orders", 0) == 0
        future = store.durable(result.end)
        assert future is not None
        await future
        assert bodies(store) == [b"0", b"1", b"2", b"3", b"4"]


# A flush that fails


async def test_a_failed_flush_is_never_followed_by_an_acknowledgement(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = MessageStore(sync_config(tmp_path), disk=disk)
    await store.open()
    good = store.append(message(b"good"))
    future = store.durable(good.end)
    assert future is not None
    assert await future is PutStatus.PUT_OK

    disk.fail("sync", errno.EIO, only="commitlog")
    bad = store.append(message(b"bad"))
    also_bad = store.append(message(b"also bad"))
    futures = [store.durable(bad.end), store.durable(also_bad.end)]
    for waiting in futures:
        assert waiting is not None
        assert await waiting is PutStatus.SERVICE_NOT_AVAILABLE
    # The disk seems to work again; what it lost, it lost.
    disk.mend()
    assert store.append(message(b"refused")).status is PutStatus.SERVICE_NOT_AVAILABLE
    later = store.durable(bad.end)
    assert later is not None
    assert await later is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.flags.has(Flag.NOT_WRITEABLE)
    assert store.flushed_position == good.end
    assert bodies(store) == [b"good"]
    await store.close()
    # The next start looks at what is really there.
    assert (tmp_path / "abort").exists()
    async with MessageStore(sync_config(tmp_path)) as store:
        assert store.append(message(b"after")).is_stored


async def test_a_failed_flush_in_the_background_stops_writing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = small_config(tmp_path, flush_interval_commit_log=1, flush_commit_log_least_pages=1)
    async with MessageStore(config, disk=disk) as store:
        disk.fail("sync", errno.EIO, only="commitlog")
        store.append(message(bytes(10_000)))
        await eventually(lambda: store.flags.has(Flag.NOT_WRITEABLE))
        assert store.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        disk.mend()
    assert (tmp_path / "abort").exists()


async def test_a_failed_flush_of_a_queue_stops_writing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = MessageStore(small_config(tmp_path), disk=disk)
    await store.open()
    store.append(message())
    disk.fail("sync", errno.EIO, only="consumequeue")
    await store.flush()
    assert store.flags.has(Flag.NOT_WRITEABLE)
    disk.mend()
    await store.close()
    assert (tmp_path / "abort").exists()


# The checkpoint


def checkpoint_of(root: Path) -> Checkpoint:
    checkpoint = Checkpoint(root / "checkpoint", Disk())
    checkpoint.load()
    return checkpoint


async def test_the_checkpoint_is_never_ahead_of_what_is_flushed(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    store = MessageStore(small_config(tmp_path), clock=clock)
    await store.open()
    first = store.append(message(b"first"))
    await store.flush()
    clock.advance(60_000)
    store.append(message(b"second"))
    store._write_checkpoint()
    checkpoint = checkpoint_of(tmp_path)
    assert checkpoint.physic_msg_timestamp == 1_700_000_000_000
    assert checkpoint.logics_msg_timestamp == 1_700_000_000_000
    assert checkpoint.logics_physical_offset == first.physical_offset
    assert checkpoint.progress is not None
    assert checkpoint.progress.log_durable == first.end
    assert checkpoint.progress.queues_durable == first.end
    assert not checkpoint.progress.is_clean
    await store.close()
    checkpoint = checkpoint_of(tmp_path)
    assert checkpoint.physic_msg_timestamp == 1_700_000_060_000
    assert checkpoint.logics_msg_timestamp == 1_700_000_060_000
    assert checkpoint.logics_physical_offset == first.end
    assert checkpoint.progress is not None
    assert checkpoint.progress.is_clean


async def test_queues_are_flushed_when_the_log_has_grown_by_a_file(tmp_path: Path) -> None:
    config = small_config(
        tmp_path, mapped_file_size_commit_log=2048, flush_interval_consume_queue=1
    )
    async with MessageStore(config) as store:
        for _ in range(100):
            store.append(message(bytes(100)))
        await eventually(lambda: store._derived.queues_durable == store.max_physical_offset)


class _Turns:
    """A queue that says in which turn of the loop it was looked at."""

    def __init__(self) -> None:
        self.number = 0
        self.seen: list[int] = []

    def unsynced(self) -> QueueSync:
        self.seen.append(self.number)
        return QueueSync([], [])

    def take_dirty(self) -> list["_Turns"]:
        return [self] * 1_000

    async def count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)


async def test_a_flush_of_many_queues_leaves_turns_to_others(tmp_path: Path) -> None:
    turns = _Turns()
    config = small_config(tmp_path)

    async def flush_log() -> None:
        pass

    flush = DerivedFlush(
        config,
        turns,  # type: ignore[arg-type]
        None,
        SimpleNamespace(position=0, last_start=-1, last_timestamp=0),  # type: ignore[arg-type]
        Checkpoint(tmp_path / "checkpoint", Disk()),
        ManualClock(0),
        Disk(),
        flush_log=flush_log,
        on_failure=lambda error: None,
    )
    counting = asyncio.create_task(turns.count())
    await flush.flush()
    counting.cancel()
    assert len(turns.seen) == 1_000
    assert max(Counter(turns.seen).values()) <= 200
