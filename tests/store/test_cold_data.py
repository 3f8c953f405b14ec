"""Messages that are not in memory."""

import mmap
from pathlib import Path

from rocketq.store import MessageStore
from rocketq.store.files.disk import Disk
from tests.store.support import bodies, message, small_config


class ColdDisk(Disk):
    """Has nothing of the log in memory that was not loaded."""

    def __init__(self) -> None:
        self.loaded: list[tuple[int, int]] = []

    def is_resident(self, mapping: mmap.mmap, offset: int, size: int) -> bool:
        return any(start <= offset and offset + size <= end for start, end in self.loaded)

    def load(self, descriptor: int, offset: int, size: int) -> None:
        super().load(descriptor, offset, size)
        self.loaded.append((offset, offset + size))


async def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    async with MessageStore(small_config(tmp_path), disk=ColdDisk()) as store:
        store.append(message())
        assert store.cold_range("orders", 0, 0, 32) is None
        assert store.cold_range("orders", 0, 1, 32) is None
        assert store.cold_range("nothing", 0, 0, 32) is None


async def test_what_lies_further_back_is_fetched_first(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        for number in range(10):
            store.append(message(b"%d" % number))
    disk = ColdDisk()
    async with MessageStore(config, disk=disk) as store:
        cold = store.cold_range("orders", 0, 2, 3)
        assert cold is not None
        entries = list(store.entries("orders", 0, 2, 3))
        assert cold.position == entries[0].position
        assert cold.size == sum(entry.size for entry in entries)
        await store.load(cold)
        assert disk.loaded == [(cold.position, cold.position + cold.size)]
        assert store.cold_range("orders", 0, 2, 3) is None
        assert len(bodies(store)) == 10
        limited = store.cold_range("orders", 0, 0, 9, 200)
        assert limited is not None
        assert limited.size == 200


async def test_the_kernel_knows_what_is_in_memory(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    async with MessageStore(config) as store:
        store.append(message())
    async with MessageStore(config) as store:
        # It was just written and read: the page cache has it.
        assert store.cold_range("orders", 0, 0, 1) is None
