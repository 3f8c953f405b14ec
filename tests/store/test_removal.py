"""Topics with very many queues are deleted without keeping anybody waiting."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from rocketq.store import MessageStore, StoreConfig
from rocketq.store.upkeep import mending
from tests.steps import ATTEMPTS, measured_steps
from tests.store.disks import FaultyDisk
from tests.store.support import bodies, message, small_config
from tests.waiting import eventually

QUEUES = 6_000


def roomy(root: Path) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=16 << 20, max_index_num=100_000)


async def fill(store: MessageStore, queues: int) -> None:
    for queue_id in range(queues):
        assert store.append(message(b"old", topic="wide", queue_id=queue_id)).is_stored


def is_empty(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


async def test_a_topic_with_thousands_of_queues_is_deleted_in_short_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MessageStore(roomy(tmp_path)) as store:
        for _ in range(ATTEMPTS):
            await fill(store, QUEUES)
            with measured_steps(threading.current_thread(), monkeypatch) as steps:
                steps.is_measuring = True
                await asyncio.sleep(0)
                assert await store.delete_topic("wide") == QUEUES
                store.append(message(b"new", topic="wide", queue_id=7))
                await eventually(lambda: is_empty(tmp_path / "deleted"), "the files to be removed")
            assert store.queues("wide") == [7]
            assert bodies(store, "wide", 7) == [b"new"]
            if steps.are_short:
                break
        assert steps.are_short, str(steps)
    async with MessageStore(roomy(tmp_path)) as store:
        assert store.queues("wide") == [7]
        assert bodies(store, "wide", 7) == [b"new"]


async def test_what_a_crash_leaves_of_a_deleted_topic_goes_after_the_next_start(
    tmp_path: Path,
) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    async with MessageStore(small_config(root)) as store:
        await fill(store, 20)
        await store.delete_topic("wide")
        assert not (root / "consumequeue" / "wide").exists()
        shutil.copytree(root, copy)  # before the thread has begun
    assert not is_empty(copy / "deleted")
    async with MessageStore(small_config(copy)) as store:
        assert store.queues("wide") == []
        await fill(store, 3)
        await store.delete_topic("wide")
        await eventually(lambda: is_empty(copy / "deleted"), "the files to be removed")
        assert store.queues("wide") == []


async def test_a_folder_that_cannot_be_moved_is_removed_where_it_is(tmp_path: Path) -> None:
    class OtherDisk(FaultyDisk):
        def move_folder(self, folder: Path, goal: Path) -> bool:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    async with MessageStore(small_config(tmp_path), disk=OtherDisk()) as store:
        await fill(store, 5)
        assert await store.delete_topic("wide") == 5
        assert not (tmp_path / "consumequeue" / "wide").exists()
        store.append(message(b"new", topic="wide"))
        assert bodies(store, "wide") == [b"new"]


async def test_a_queue_deleted_while_it_is_made_again_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is waited for between two parts of the log: that is when it is deleted."""
    monkeypatch.setattr(mending, "_AT_ONCE", 1_000)
    fetching, go_on = asyncio.Event(), asyncio.Event()

    async def fetch(self: mending.Mending, start: int, stop: int) -> None:
        fetching.set()
        await go_on.wait()

    async with MessageStore(roomy(tmp_path)) as store:
        await fill(store, 50)
        queue = store._queues.find("wide", 7)
        assert queue is not None
        monkeypatch.setattr(mending.Mending, "_fetch", fetch)
        assert store._queues.suspect(queue, 0)
        await fetching.wait()
        await store.delete_topic("wide")
        go_on.set()
        await store.mended()
        assert not (tmp_path / "consumequeue" / "wide").exists()
        assert store.append(message(b"new", topic="wide", queue_id=7)).queue_offset == 0
        assert bodies(store, "wide", 7) == [b"new"]


async def test_a_queue_with_very_many_files_loses_them_in_several_rounds(tmp_path: Path) -> None:
    config = small_config(
        tmp_path,
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=20,
        delete_commit_log_files_interval=1,
    )
    removed: list[int] = []

    class CountingDisk(FaultyDisk):
        def remove(self, path: Path) -> None:
            removed[-1:] = [removed[-1] + ("consumequeue" in str(path))]
            super().remove(path)

    disk = CountingDisk()
    async with MessageStore(config, disk=disk) as store:
        for number in range(800):
            store.append(message(b"%d" % number))
        await store.flush()
        disk.ratio = 0.87  # full enough to delete whatever there is
        for _ in range(30):
            removed.append(0)
            await store.clean()
        gone = store.min_offset("orders", 0)
    assert sum(removed) == gone > 400
    assert max(removed) <= 64
