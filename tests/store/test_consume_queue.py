"""One consume queue, and tens of thousands of them."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketq import Message
from rocketq.common.loop.slices import at_once
from rocketq.message.record.batch import encode_batch
from rocketq.store import GetStatus, MessageStore, PutStatus, StoreConfig
from rocketq.store.files.disk import Disk
from rocketq.store.queues.consume_queue import FILLER_SIZE, ConsumeQueue, QueueEntry
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_table import FILE_NAME
from rocketq.store.queues.removal import Removal
from tests.store.support import bodies, message, read_when_whole, small_config

NO_END = 1 << 60


def queues_in(folder: Path, *, file_size: int = 100, max_mapped: int = 100) -> ConsumeQueues:
    queues = ConsumeQueues(folder, file_size, Disk(), max_mapped, Removal(folder, Disk()))
    queues.load()
    queues.set_log_range(0, NO_END)
    return queues


def entries_of(queue: ConsumeQueue) -> list[QueueEntry]:
    return list(queue.entries(0, 1 << 30))


positions = st.lists(st.integers(1, 1000), max_size=40).map(
    lambda steps: [sum(steps[:n]) for n in range(len(steps))]
)


@settings(max_examples=50, deadline=None)
@given(positions, st.integers(0, 2**63 - 1))
def test_entries_are_read_as_they_were_put(
    tmp_path_factory: pytest.TempPathFactory, where: list[int], tags_code: int
) -> None:
    folder = tmp_path_factory.mktemp("queues")
    queues = queues_in(folder)
    queue = queues.get("orders", 3)
    for position in where:
        assert queue.tail.put(position, 100, tags_code)
    expected = [QueueEntry(position, 100, tags_code) for position in where]
    assert entries_of(queue) == expected
    queues.close()
    reopened = queues_in(folder).find("orders", 3)
    assert (reopened is not None and entries_of(reopened) == expected) or not where


def test_a_file_has_its_full_size_and_takes_little_room(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, file_size=6_000_000)
    for queue_id in range(10):
        queues.get("orders", queue_id).tail.put(5, 100, 0)
    queues.close()
    for path in tmp_path.glob("*/*/*"):
        status = path.stat()
        assert status.st_size == 6_000_000
        assert status.st_blocks * 512 <= 16_384


def test_every_entry_is_written_where_there_is_room(tmp_path: Path) -> None:
    """Also one across two pages: on a full disk, the second would end the process (SIGBUS)."""
    queue = queues_in(tmp_path, file_size=6_000_000).get("orders", 0)
    for position in range(5_000):
        assert queue.tail.put(position, 100, 0)
        assert queue.tail.end <= queue.tail.limit


def test_a_queue_that_begins_late_has_fillers_before_it(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queue = queues.get("orders", 0)
    assert queue.put_at(7, 1000, 100, 5)
    assert queue.put_at(8, 1100, 100, 5)
    assert (queue.min_offset, queue.first_offset, queue.end_offset) == (7, 5, 9)
    raw = (tmp_path / "orders" / "0" / f"{100:020d}").read_bytes()
    filler = bytes(8) + FILLER_SIZE.to_bytes(4, "big") + bytes(8)
    assert raw[:40] == filler * 2
    queues.close()
    reopened = queues_in(tmp_path).find("orders", 0)
    assert reopened is not None
    assert (reopened.min_offset, reopened.end_offset) == (7, 9)
    assert reopened.read(7) == QueueEntry(1000, 100, 5)


def test_putting_again_changes_nothing_that_is_right(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queue = queues.get("orders", 0)
    for number in range(12):
        assert queue.tail.put_at(number, number * 100, 100, 1)
    before = entries_of(queue)
    for number in range(12):
        assert queue.tail.put_at(number, number * 100, 100, 1)
    assert entries_of(queue) == before
    assert queue.tail.put_at(3, 300, 99, 2)  # this one is different
    assert queue.read(3) == QueueEntry(300, 99, 2)
    assert queue.end_offset == 12


def test_the_front_follows_the_log(tmp_path: Path) -> None:
    queues = queues_in(tmp_path)
    queue = queues.get("orders", 0)
    for number in range(12):
        queue.tail.put(number * 100, 100, 0)
    queue.correct_min_offset(250)
    assert queue.min_offset == 3
    assert queue.remove_files_below(500) == 1
    assert (queue.min_offset, queue.first_offset) == (5, 5)
    assert queue.remove_files_below(5000) == 1  # never the last file
    assert queue.min_offset == queue.end_offset == 12


def test_files_are_mapped_when_used_and_let_go_of_when_there_are_many(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, max_mapped=20)
    for turn in range(5):
        for queue_id in range(100):
            assert queues.get("orders", queue_id).tail.put(turn * 10_000 + queue_id, 10, turn)
            assert queues.mapped_count <= 21
    for queue_id in range(100):
        entries = entries_of(queues.get("orders", queue_id))
        assert [entry.tags_code for entry in entries] == list(range(5))
    at_once(queues.unmap_idle())
    at_once(queues.unmap_idle())
    assert queues.mapped_count == 0
    assert queues.get("orders", 3).tail.put(99_999, 10, 9)
    assert len(entries_of(queues.get("orders", 3))) == 6


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_queue_goes_on_in_its_next_file_while_files_are_let_go_of(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, max_mapped=4)
    rows = [queues.get("orders", queue_id) for queue_id in range(2)]
    for number in range(200):
        for queue in rows:
            assert queue.tail.put(number * 100, 100, number)
    for queue in rows:
        assert entries_of(queue) == [QueueEntry(n * 100, 100, n) for n in range(200)]


async def test_a_thousand_queues_need_neither_descriptors_nor_address_space(
    tmp_path: Path,
) -> None:
    config = small_config(
        tmp_path, mapped_file_size_consume_queue=6_000_000, max_mapped_queue_files=64
    )
    at_most = open_descriptors() + 150
    async with MessageStore(config) as store:
        for queue_id in range(1000):
            store.append(message(b"%d" % queue_id, queue_id=queue_id))
        assert open_descriptors() < at_most
    async with MessageStore(config) as store:
        # The messages at the end of the log were looked at, and their queues.
        assert open_descriptors() < at_most
        assert len(store.queues("orders")) == 1000
        for queue_id in range(0, 1000, 7):
            assert bodies(store, queue_id=queue_id) == [b"%d" % queue_id]


@pytest.mark.parametrize(
    ("topic", "queue_id"),
    [
        *[(topic, 0) for topic in ("../evil", "a/b", "..", ".", ".orders", "a\0")],
        *[("orders", queue_id) for queue_id in (1 << 20, (1 << 31) - 1, -1)],
    ],
)
async def test_what_reading_the_log_would_not_accept_is_refused(
    tmp_path: Path, topic: str, queue_id: int
) -> None:
    async with MessageStore(small_config(tmp_path)) as store:
        one = store.append(message(topic=topic, queue_id=queue_id))
        batch = encode_batch([Message("any", b"1")])
        several = store.append_batch(message(batch, topic=topic, queue_id=queue_id))
        assert [one.status, several.status] == [PutStatus.MESSAGE_ILLEGAL] * 2
        assert store.max_physical_offset == 0
        assert store.topics() == []


async def test_the_last_queue_is_there_after_a_restart(tmp_path: Path) -> None:
    for expected in (0, 1):
        async with MessageStore(small_config(tmp_path)) as store:
            assert store.append(message(queue_id=(1 << 20) - 1)).queue_offset == expected
            assert store.damages == []


# What vanished while the store was closed


async def fill_and_age(root: Path) -> None:
    """A queue whose messages lie so far back that no start reads them."""
    async with MessageStore(big_config(root)) as store:
        for number in range(70):
            store.append(message(b"%d" % number, topic="old"))
        for _ in range(200):
            store.append(message(bytes(60_000), topic="new"))


def big_config(root: Path) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=1 << 20)


@pytest.mark.parametrize("also", [None, "checkpoint"])
@pytest.mark.parametrize("lost", ["first", "last", "all", "folder"])
async def test_lost_files_of_a_sleeping_queue_are_made_again(
    tmp_path: Path, lost: str, also: str | None
) -> None:
    await fill_and_age(tmp_path)
    if also is not None:
        (tmp_path / also).unlink()
    files = sorted((tmp_path / "consumequeue" / "old" / "0").iterdir())
    assert len(files) == 4
    chosen = {"first": files[:1], "last": files[-1:]}.get(lost, files)
    for path in chosen:
        path.unlink()
    if lost == "folder":
        (tmp_path / "consumequeue" / "old" / "0").rmdir()
        (tmp_path / "consumequeue" / "old").rmdir()
    async with MessageStore(big_config(tmp_path)) as store:
        assert store.recovery is not None
        assert store.recovery.start > 1 << 20  # they were not seen
        found = await read_when_whole(store, "old")
        assert [one.body for one in found] == [b"%d" % number for number in range(70)]
        assert store.append(message(topic="old")).queue_offset == 70


async def test_the_table_of_queues_is_gone_while_a_store_is_open(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        store.append(message())
        assert not (tmp_path / FILE_NAME).exists()
    assert (tmp_path / FILE_NAME).exists()
    (tmp_path / FILE_NAME).write_text("{garbage")
    async with MessageStore(config) as store:
        assert not (tmp_path / FILE_NAME).exists()
        assert bodies(store) == [b"body"]
        await store.delete_topic("orders")
    async with MessageStore(config) as store:
        result = store.get("orders", 0, 0, 9)
        assert result.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.FOUND)
