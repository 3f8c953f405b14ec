"""Planted mistakes. A checker that has never found one is worth nothing.

    python -m simulation --mutant ack_before_sync --seeds 50

Each mutant changes the running code in one place, as a careless edit might. They need the
uncompiled modules (ROCKETQ_PURE=1): compiled classes cannot be changed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from rocketq.broker.processor.send_back import SendBackProcessor
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.client.consumer.process_queue import NOTHING_TO_COMMIT, ProcessQueue
from rocketq.remoting import Command, Connection
from rocketq.store import PutStatus
from rocketq.store.durability.flush import LogFlush
from rocketq.store.files.segment import Segment
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.replication.received_log import ReceivedLog
from rocketq.store.replication.waits import ReplicaWaits


def ack_before_sync() -> None:
    """SYNC_FLUSH answers at once, and lets the disk follow."""
    original = LogFlush.durable

    def durable(self: LogFlush, position: int) -> asyncio.Future[PutStatus]:
        original(self, position)
        return _done()

    LogFlush.durable = durable  # type: ignore[method-assign]


def sync_nothing() -> None:
    """Files are never synced."""
    Segment.sync = _nothing  # type: ignore[method-assign]


def forget_new_names() -> None:
    """Files are synced, the directory that names them is not."""
    original = Segment.sync

    def sync(self: Segment) -> None:
        self.new_folder = None
        original(self)

    Segment.sync = sync  # type: ignore[method-assign]


def skip_the_slave() -> None:
    """A SYNC_MASTER does not wait for its slave."""

    def wait(self: ReplicaWaits, position: int, needed: int) -> asyncio.Future[PutStatus]:
        return _done()

    ReplicaWaits.wait = wait  # type: ignore[method-assign]


def report_before_writing() -> None:
    """A slave reports more than it has."""
    ReceivedLog.safe_end = property(  # type: ignore[method-assign, assignment]
        lambda self: self._log.end + 10_000
    )


def damage_on_the_way() -> None:
    """A slave writes one byte of its log wrong."""
    original = CommitLog.receive

    def receive(self: CommitLog, position: int, pieces: Sequence[memoryview]) -> None:
        if position > 5_000 and len(pieces[0]) > 40:
            first = bytearray(pieces[0])
            first[33] ^= 1
            pieces = [memoryview(first), *pieces[1:]]
        original(self, position, pieces)

    CommitLog.receive = receive  # type: ignore[method-assign]


def commit_before_consuming() -> None:
    """Consumers store how far they have pulled, instead of how far they have consumed."""
    ProcessQueue.commit_offset = property(  # type: ignore[assignment, method-assign]
        lambda self: self.max_offset + 1 if self.max_offset >= 0 else NOTHING_TO_COMMIT
    )


def forget_what_is_sent_back() -> None:
    """What a consumer refuses is acknowledged, and not stored again."""

    def send_back(self: SendBackProcessor, request: Command, connection: Connection) -> Command:
        return request.reply()

    SendBackProcessor._send_back = send_back  # type: ignore[method-assign]


def keep_progress_beyond_the_log() -> None:
    """Groups stay ahead of a log that has lost its end."""
    ConsumerOffsets.follow_log = _nothing  # type: ignore[method-assign]


def lose_the_last_entry() -> None:
    """A queue that is opened again has one entry less."""
    original = ConsumeQueue.open

    def open_(self: ConsumeQueue, log_end: int) -> None:
        original(self, max(0, log_end - 1))

    ConsumeQueue.open = open_  # type: ignore[method-assign]


def _done() -> asyncio.Future[PutStatus]:
    future: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
    future.set_result(PutStatus.PUT_OK)
    return future


def _nothing(*arguments: Any, **options: Any) -> None:
    pass


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    mutant.__name__: mutant
    for mutant in (
        ack_before_sync,
        sync_nothing,
        forget_new_names,
        skip_the_slave,
        report_before_writing,
        damage_on_the_way,
        commit_before_consuming,
        forget_what_is_sent_back,
        keep_progress_beyond_the_log,
        lose_the_last_entry,
    )
}
