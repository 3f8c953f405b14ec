"""Masters and slaves of the store, in one process."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rocketq.common.loop.service import running
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.files.disk import Disk
from rocketq.store.replication.follower import LogFollower
from rocketq.store.replication.received_log import ReceivedLog
from tests.store.support import small_config
from tests.waiting import eventually


async def _no_comparison(log: ReceivedLog) -> None:
    """Stores alone have no other way to their master's log than the stream itself."""


@asynccontextmanager
async def master_store(root: Path, **settings: Any) -> AsyncIterator[MessageStore]:
    """A master that slaves can come to."""
    disk = settings.pop("disk", None)
    async with MessageStore(small_config(root, **settings), disk=disk) as store:
        await store.replicas.listen("127.0.0.1", 0)
        try:
            yield store
        finally:
            await store.replicas.close()


@asynccontextmanager
async def slave_store(
    root: Path, address: str, *, disk: Disk | None = None, **settings: Any
) -> AsyncIterator[tuple[MessageStore, LogFollower]]:
    """A slave that follows whoever is at an address."""
    config = small_config(root, broker_role=BrokerRole.SLAVE, **settings)
    async with MessageStore(config, disk=disk) as store:
        follower = LogFollower(config, store.received, _no_comparison)
        follower.follow(address)
        async with running("follower", follower.run):
            yield store, follower


def address_of(master: MessageStore) -> str:
    return f"127.0.0.1:{master.replicas.port}"


async def equal(master: MessageStore, slave: MessageStore) -> None:
    """Wait until the slave has everything, readable, and compare the logs byte by byte."""
    end = master.max_physical_offset
    await eventually(
        lambda: slave.max_physical_offset == end and slave.dispatched_position >= read_end(slave),
        "the slave to have everything",
    )
    assert log_bytes(slave, slave.min_physical_offset, end) == log_bytes(
        master, slave.min_physical_offset, end
    )


def read_end(store: MessageStore) -> int:
    """Where the last record ends: a file's blank end is skipped only with the next file."""
    last = store.received.last_record()
    return 0 if last is None else last[0] + len(last[1])


def log_bytes(store: MessageStore, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        size = store.config.mapped_file_size_commit_log
        stop = min((start // size + 1) * size, end)
        view = store._log.read(start, stop - start)
        assert view is not None
        parts.append(bytes(view))
        start = stop
    return b"".join(parts)


class BareSlave:
    """A slave by hand: says what it is told to say, and keeps what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, master: MessageStore, local: str = "127.0.0.1") -> "BareSlave":
        port = master.replicas.port
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(local, 0)))

    def report(self, position: int) -> None:
        self.writer.write(struct.pack(">q", position))

    async def piece(self) -> tuple[int, bytes]:
        position, size = struct.unpack(">qi", await self.reader.readexactly(12))
        return position, await self.reader.readexactly(size)

    async def until(self, end: int) -> bytes:
        """What comes up to a position of the log."""
        received = b""
        while True:
            position, data = await self.piece()
            received += data
            if position + len(data) >= end:
                return received

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # cut from the other side
