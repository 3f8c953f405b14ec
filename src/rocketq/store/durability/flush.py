"""Making the store durable: the log, and everything that is derived from it.

Waiting for the disk happens in threads, everything else on the event loop.

`LogFlush` is the log. With ASYNC_FLUSH it is flushed at intervals. With SYNC_FLUSH a flush
begins as soon as something waits for one, and while it runs, those who come later gather for
the next: one `fdatasync` for all of them. Positions make up the groups:

    flushed            running up to         gathering
    ------------------|---------------------|--------------> end of the log
    answered at once   answered when the     answered when the
                       running flush ends    following flush ends

A flush that fails is the end of it. The kernel may have dropped the pages it could not write
and would report success the next time, so nothing is flushed or acknowledged again until the
store is opened anew and reads what is really there.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.metrics.family import Histogram
from rocketq.store.config import StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.checkpoint import Checkpoint
from rocketq.store.files.disk import PAGE_SIZE, Disk
from rocketq.store.index.index import Index
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import QueueSync
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.results import PutStatus

logger = logging.getLogger(__name__)

_MANY_QUEUES: Final = 128
_QUEUES_IN_A_TURN: Final = 200

FLUSH_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper bounds by which the times that flushes take are counted."""


class LogState(Protocol):
    """What the end of the log looks like at the moment."""

    @property
    def last_timestamp(self) -> int: ...


class Syncable(Protocol):
    """Something that can be waited for, in a thread, until it is on the disk."""

    def sync(self) -> None: ...


class LogFlush:
    """Owned by the store; runs on the event loop, waits for the disk in threads."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        checkpoint: Checkpoint,
        clock: Clock,
        appender: LogState,
        beginnings: Beginnings,
        disk: Disk,
        *,
        on_flushed: Callable[[], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._config = config
        self._log = log
        self._checkpoint = checkpoint
        self._clock = clock
        self._appender = appender
        self._beginnings = beginnings
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._failure: OSError | None = None
        self._task: asyncio.Task[None] | None = None
        self._running_to = 0
        self._running: _Group | None = None
        self._gathering: _Group | None = None
        self._wanted = False
        self._thread = disk.thread("flush")
        self.times = Histogram(FLUSH_SECONDS)
        """How long the disk took, for each flush."""

    # SYNC_FLUSH

    def durable(self, position: int) -> asyncio.Future[PutStatus]:
        """A future, shared with everybody in the same group, for when this is on the disk."""
        loop = asyncio.get_running_loop()
        if self._failure is not None or position <= self._log.flushed:
            answer: asyncio.Future[PutStatus] = loop.create_future()
            answer.set_result(
                PutStatus.PUT_OK if self._failure is None else PutStatus.SERVICE_NOT_AVAILABLE
            )
            return answer
        if self._running is not None and position <= self._running_to:
            return self._running
        if self._gathering is None:
            self._gathering = _Group(loop, self._config.sync_flush_timeout / 1000)
        self.request()
        return self._gathering

    def request(self) -> None:
        """Flush soon: at the end of this turn, so that one flush serves the whole turn."""
        if self._task is None and self._failure is None and not self._wanted:
            self._wanted = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._wanted = False
        if self._task is None and self._failure is None:
            self._task = asyncio.create_task(self._flush_groups(), name="flush")

    async def _flush_groups(self) -> None:
        try:
            # Somebody may have come to wait for what a flush took along that nobody waited for.
            while self._failure is None and (
                self._log.flushed < self._log.end or self._gathering is not None
            ):
                await self._flush_once()
                # What came meanwhile can wait for the next interval, unless somebody waits for it:
                # under load something always comes, and this would go on for ever.
                if self._gathering is None and not self._config.is_sync_flush:
                    return
        finally:
            self._task = None

    async def _flush_once(self) -> None:
        group, self._gathering = self._gathering, None
        self._running = group
        self._running_to = self._log.end
        timestamp = self._appender.last_timestamp
        waited_for: list[Syncable] = [*self._log.unflushed()]
        if not self._beginnings.is_synced:
            # No message may be durable while the end of the life before it is not: the next
            # start would find two of the same number.
            waited_for.insert(0, self._beginnings)
        began = self._clock.monotonic()
        try:
            await self._thread.run(_sync_all, waited_for)
        except OSError as error:
            self._fail(error)
        else:
            self.times.observe(self._clock.monotonic() - began)
            self._log.note_flushed(self._running_to)
            self._checkpoint.physic_msg_timestamp = max(
                self._checkpoint.physic_msg_timestamp, timestamp
            )
            self._on_flushed()
        finally:
            self._running = None
            if group is not None:
                is_durable = self._failure is None and self._log.flushed >= self._running_to
                group.end(PutStatus.PUT_OK if is_durable else PutStatus.SERVICE_NOT_AVAILABLE)

    def _fail(self, error: OSError) -> None:
        self._failure = error
        if self._gathering is not None:
            self._gathering.end(PutStatus.SERVICE_NOT_AVAILABLE)
        self._gathering = None
        self._on_failure(error)

    def cut_at(self, position: int) -> None:
        """The log ends here now: what comes there next is not what a running flush waits for."""
        self._running_to = min(self._running_to, position)

    async def idle(self) -> None:
        """Wait until no flush is under way."""
        while self._task is not None:
            await asyncio.shield(self._task)

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    # ASYNC_FLUSH, and the last flush of all

    async def run(self, stop: asyncio.Event) -> None:
        """Flush at intervals: when enough pages wait, and now and then whatever waits."""
        thorough_s = self._config.flush_commit_log_thorough_interval / 1000
        thorough_at = self._clock.monotonic() + thorough_s
        while not await asked_to_stop(stop, self._config.flush_interval_commit_log / 1000):
            is_thorough = self._clock.monotonic() >= thorough_at
            if is_thorough:
                thorough_at = self._clock.monotonic() + thorough_s
            least = 1 if is_thorough else self._config.flush_commit_log_least_pages * PAGE_SIZE
            if self._log.end - self._log.flushed >= max(least, 1):
                await self.flush()
        await self.flush()
        await self._thread.stop()

    async def flush(self) -> None:
        """Wait until everything that is in the log now is on the disk, or flushing has failed."""
        wanted = self._log.end
        # Less, if some of it is cut off meanwhile.
        while self._failure is None and self._log.flushed < min(wanted, self._log.end):
            if self._task is None:
                self._begin()
            if self._task is not None:
                await asyncio.shield(self._task)


class _Group(asyncio.Future[PutStatus]):
    """All who wait for the same flush.

    One of them being cancelled must not cancel it for the others, so it cannot be cancelled;
    who waits for it waits no longer than the time-out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        super().__init__(loop=loop)
        self._timer = loop.call_later(timeout_s, self.end, PutStatus.FLUSH_DISK_TIMEOUT)

    def end(self, status: PutStatus) -> None:
        """Answer everybody, if that has not been done."""
        self._timer.cancel()
        if not self.done():
            self.set_result(status)

    def cancel(self, msg: object = None) -> bool:
        return False


def _sync_all(waited_for: Sequence[Syncable]) -> None:
    for one in waited_for:
        one.sync()


class DerivedFlush:
    """Makes consume queues and index durable, and notes in the checkpoint how far they are."""

    def __init__(
        self,
        config: StoreConfig,
        queues: ConsumeQueues,
        index: Index | None,
        dispatcher: Dispatcher,
        checkpoint: Checkpoint,
        clock: Clock,
        disk: Disk,
        *,
        flush_log: Callable[[], Awaitable[None]],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self.queues_durable = 0
        """Everything before it has its queue entry on the disk."""
        self.index_durable = -1
        """Where the last message begins whose index entries are on the disk."""
        self._config = config
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._clock = clock
        self._disk = disk
        self._flush_log = flush_log
        self._on_failure = on_failure
        self._thorough_position = 0
        self._after_crash = False
        self._lock = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        thorough_s = self._config.flush_consume_queue_thorough_interval / 1000
        thorough_at = self._clock.monotonic() + thorough_s
        while not await asked_to_stop(stop, self._config.flush_interval_consume_queue / 1000):
            # Not later than a file of the log after the last time, so that recovery never has
            # more to read than that.
            position = self._dispatcher.position
            is_behind = (
                position - self._thorough_position >= self._config.mapped_file_size_commit_log
            )
            if is_behind or self._clock.monotonic() >= thorough_at:
                thorough_at = self._clock.monotonic() + thorough_s
                await self.flush()
        await self.flush()

    async def flush(self) -> None:
        """Wait until all entries that exist now are on the disk."""
        async with self._lock:
            await self._flush()

    async def _flush(self) -> None:
        # Noted before the disk is asked: what is added meanwhile may or may not get there.
        position = self._dispatcher.position
        start = self._dispatcher.last_start
        timestamp = self._dispatcher.last_timestamp
        index_end = self._index.end_position if self._index is not None else -1
        queues = []
        for queue in self._queues.take_dirty():
            queues.append(queue.unsynced())
            if len(queues) % _QUEUES_IN_A_TURN == 0:
                await asyncio.sleep(0)
        index_files = self._index.unsynced() if self._index is not None else []
        index_folder = self._index.take_new_folder() if self._index is not None else None
        if not queues and position == self._thorough_position:
            return
        # The log first: no checkpoint may speak of entries whose messages could still be lost.
        await self._flush_log()
        try:
            if self._after_crash or len(queues) > _MANY_QUEUES:
                # After a crash nobody knows which files the page cache holds changes of.
                root = self._config.root
                await asyncio.to_thread(self._disk.sync_file_system, root)
                self._after_crash = False
            else:
                await asyncio.to_thread(_sync_queues, queues, self._disk)
            await asyncio.to_thread(_sync_all, index_files)
            if index_folder is not None:
                await asyncio.to_thread(self._disk.sync_folder, index_folder)
        except OSError as error:
            self._on_failure(error)
            return
        self._thorough_position = self.queues_durable = position
        self.index_durable = index_end
        checkpoint = self._checkpoint
        if start >= 0:
            checkpoint.logics_msg_timestamp = max(checkpoint.logics_msg_timestamp, timestamp)
            checkpoint.logics_physical_offset = max(checkpoint.logics_physical_offset, start)
        if self._index is not None:
            indexed = self._index.synced(len(index_files))
            if indexed:
                checkpoint.index_msg_timestamp = indexed

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Let nothing be flushed for the length of a block."""
        async with self._lock:
            yield

    def cut_at(self, log_end: int) -> None:
        """The log ends here now, and so does all that is derived from it."""
        self._thorough_position = min(self._thorough_position, log_end)
        self.queues_durable = min(self.queues_durable, log_end)
        self.index_durable = min(self.index_durable, log_end - 1)
        checkpoint = self._checkpoint
        checkpoint.logics_physical_offset = min(checkpoint.logics_physical_offset, log_end)

    def start_from(self, queues_durable: int, index_durable: int, *, after_crash: bool) -> None:
        """What is known to be on the disk when the store is opened."""
        self._thorough_position = self.queues_durable = queues_durable
        self.index_durable = index_durable
        self._after_crash = after_crash


def _sync_queues(queues: list[QueueSync], disk: Disk) -> None:
    folders = dict.fromkeys(folder for queue in queues for folder in queue.folders)
    for queue in queues:
        for segment in queue.segments:
            segment.sync()
    for folder in folders:
        try:
            disk.sync_folder(folder)
        except FileNotFoundError:
            pass  # the topic was deleted meanwhile


__all__: Final = ["DerivedFlush", "LogFlush"]
