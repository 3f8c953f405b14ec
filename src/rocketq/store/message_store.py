"""A broker's messages on disk, in RocketMQ's own files.

    async with MessageStore(StoreConfig(store_path_root_dir="store")) as store:
        result = store.append(MessageInner(topic="orders", queue_id=0, body=b"..."))
        found = store.get("orders", 0, offset=0, max_count=32)

Appending, reading and everything derived happen at memory speed and are called directly, on
the event loop that opened the store. Threads only wait for the disk. What an acknowledgement
promises is in docs/durability.md.
"""

import asyncio
import dataclasses
import logging
import mmap
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

from rocketq.common import memory
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.service import asked_to_stop, running
from rocketq.common.slices import in_slices
from rocketq.message.message import MessageExt
from rocketq.message.names import is_system_topic
from rocketq.message.record import layout
from rocketq.message.record.reader import check_record, decode_record, read_record
from rocketq.message.record.writer import InvalidRecord
from rocketq.store.arrival import ArrivalListener
from rocketq.store.config import BrokerRole, StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.checkpoint import Checkpoint, Progress
from rocketq.store.durability.flush import DerivedFlush, LogFlush
from rocketq.store.durability.log_scan import Damage, LogReplay
from rocketq.store.durability.recovery import Recovery, RecoveryReport
from rocketq.store.durability.replay import Replay
from rocketq.store.durability.running_flags import Flag, RunningFlags
from rocketq.store.errors import QueueUnavailable
from rocketq.store.files.directory_lock import AbortFile, DirectoryLock
from rocketq.store.files.disk import Disk, is_passing
from rocketq.store.index.index import Index
from rocketq.store.log.append import Appender
from rocketq.store.log.cold_data import ColdData, ColdRange
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.message_inner import MessageInner
from rocketq.store.queues.consume_queue import QueueEntry
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_table import take_queue_table, write_queue_table
from rocketq.store.queues.reader import QueueReader
from rocketq.store.queues.removal import Removal
from rocketq.store.queues.time_search import Boundary, offset_by_time
from rocketq.store.replication.log_source import LogSource
from rocketq.store.replication.received_log import ReceivedLog
from rocketq.store.replication.replicas import Replicas
from rocketq.store.results import AppendResult, GetResult, PutStatus
from rocketq.store.upkeep.mending import Mending, read_notes
from rocketq.store.upkeep.retention import Retention
from rocketq.store.upkeep.statistics import StoreStatistics, readable_size

logger = logging.getLogger(__name__)

_SETTLED: Final = (
    "store_path_root_dir",
    "store_path_commit_log",
    "read_only_commit_log_store_paths",
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "max_hash_slot_num",
    "max_index_num",
    "flush_disk_type",
    "message_index_enable",
    "broker_role",
)
_HOUSEKEEPING_S: Final = 1.0
# Up to the end of the store timestamp, wherever it lies.
_HEAD_SIZE: Final = layout.store_time_at(layout.BORN_V6) + 8
_IDLE_S: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class QueryResult:
    """Messages found by key. Other keys with the same hash may be among them."""

    buffers: list[memoryview]
    last_update_timestamp: int
    last_update_offset: int


class MessageStore:
    """Belongs to the event loop that opened it; nothing here may be called from elsewhere."""

    def __init__(
        self, config: StoreConfig, *, clock: Clock = SYSTEM_CLOCK, disk: Disk | None = None
    ) -> None:
        self.config = config
        self.clock = clock
        self.disk = disk or Disk()
        self.flags = RunningFlags(self._apply_flags)
        self._role = config.broker_role
        self.recovery: RecoveryReport | None = None
        """What opening found; None before."""
        self._is_open = False
        self._lock = DirectoryLock(config.root)
        self._abort = AbortFile(config.root)
        self._checkpoint = Checkpoint(config.root / "checkpoint", self.disk)
        self._log = CommitLog(
            config, self.disk, monotonic=clock.monotonic, on_failure=self._log_failed
        )
        self._removal = Removal(config.root, self.disk)
        self._queues = ConsumeQueues(
            config.root / "consumequeue",
            config.queue_file_size,
            self.disk,
            _mapped_limit(config),
            self._removal,
        )
        self._queues.on_failure = self._log_failed
        self.beginnings = Beginnings(config.root, self.disk)
        """Where topics that were deleted and made again begin; see `begin_topic`."""
        self.on_beginning: Callable[[str, int], None] | None = None
        """Called with a topic and its position when the topic's life ends there."""
        self._queues.begins_at = self.beginnings.get
        self._index: Index | None = None
        if config.message_index_enable:
            self._index = Index(
                config.root / "index",
                config.max_hash_slot_num,
                config.max_index_num,
                self.disk,
                clock.now_ms,
            )
        self._dispatcher = Dispatcher(self._index, config.delay_times_ms())
        self._appender = Appender(
            self._log.tail,
            self._log,
            self._queues,
            self._dispatcher,
            config,
            None if clock is SYSTEM_CLOCK else clock.now_ms,
        )
        self._appender.waker = self._record_waits
        self._reader = QueueReader(self._queues, self._log, config, _memory_bytes(config))
        self._cold = ColdData(self._log, self._queues, _memory_bytes(config))
        self._flush = LogFlush(
            config,
            self._log,
            self._checkpoint,
            clock,
            self._appender,
            self.beginnings,
            self.disk,
            on_flushed=self._note_flushed,
            on_failure=self._disk_failed,
        )
        self.received = ReceivedLog(
            self._log,
            self._dispatcher,
            self._cold,
            self._flush,
            is_sync_flush=config.is_sync_flush,
            catch_up=self._catch_up,
            topic_count=lambda: len(self._queues.tails),
        )
        """The log as a slave appends to it."""
        self.replicas = Replicas(
            config,
            LogSource(self._log, self._cold),
            watch_log=self._log.when_grown,
            on_enough=self._apply_flags,
        )
        """The slaves, while this is a master."""
        self._derived = DerivedFlush(
            config,
            self._queues,
            self._index,
            self._dispatcher,
            self._checkpoint,
            clock,
            self.disk,
            flush_log=self._flush.flush,
            on_failure=self._disk_failed,
        )
        self._retention = Retention(
            lambda: self.config,
            self._log,
            self._queues,
            self._index,
            self.disk,
            self.flags,
            clock,
            self.beginnings,
        )
        self._mending = Mending(
            config,
            self._log,
            self._queues,
            self._dispatcher,
            self.beginnings,
            self._derived.flush,
        )
        self.statistics = StoreStatistics(self._appender, self._reader)
        self._services = AsyncExitStack()
        self._apply_flags()
        # The two calls that everything else is there for go straight to compiled code.
        self.append: Callable[[MessageInner], AppendResult] = self._appender.append
        self.append_batch: Callable[[MessageInner], AppendResult] = self._appender.append_batch
        self.get = self._reader.get

    # --- Opening and closing

    async def open(self) -> None:
        """Lock the directory, recover what is in it, and start the background work."""
        self._lock.acquire()
        try:
            self.recovery = await asyncio.to_thread(self._recover)
            self._abort.create()
        except BaseException:
            self._close_files()
            self._lock.release()
            raise
        self._is_open = True
        if not self.recovery.is_clean and self.max_physical_offset:
            logger.warning(
                "store %s was not closed in good order: recovered, its log ends at %d",
                self.config.root,
                self.max_physical_offset,
            )
        self._apply_flags()
        self._write_checkpoint()
        enter = self._services.enter_async_context
        await enter(running("store housekeeping", self._keep_house))
        self._queues.mend = self._mending.want
        await enter(running("store mending", self._mending.run))
        await enter(running("store retention", self._retention.run))
        await enter(running("store removal of deleted queues", self._removal.run))
        await enter(running("store flush of queues", self._derived.run))
        await enter(running("store flush of the log", self._flush.run))
        logger.info(
            "store %s is open: log %d to %d, %d queues",
            self.config.root,
            self.min_physical_offset,
            self.max_physical_offset,
            len(self._queues),
        )

    def _recover(self) -> RecoveryReport:
        crashed = self._abort.exists
        self._checkpoint.load()
        self._log.load()
        self.beginnings.load(self._log.min_offset)
        self._removal.load()
        self._queues.load()
        if self._index is not None:
            self._index.load()
        progress = self._checkpoint.progress
        recovery = Recovery(
            self.config,
            self._log,
            self._queues,
            self._index,
            self._checkpoint,
            self._dispatcher,
            self.beginnings,
        )
        report = recovery.run(
            crashed=crashed,
            table=take_queue_table(self.config.root),
            unfinished=read_notes(self.config.root),
        )
        self._cold.start_from(report.end)
        if report.is_clean:
            self._retention.start_from(self._log.min_offset)
        self._derived.start_from(
            report.end if report.is_clean else (progress.queues_durable if progress else 0),
            self._index.end_position if self._index is not None else -1,
            after_crash=not report.is_clean,
        )
        return report

    async def close(self) -> None:
        """Make everything durable and let go of the directory."""
        if not self._is_open:
            return
        self._is_open = False
        self._apply_flags()
        try:
            await self._services.aclose()
            self._catch_up()
            if self._role is BrokerRole.SLAVE:
                self.received.cut_unfinished()
            # Nothing may be left to do for a start that finds no abort file: RocketMQ does
            # not look at what it thinks is finished.
            is_complete = (
                self._log.flushed == self._log.end
                and self._dispatcher.position == self._log.end
                and self._derived.queues_durable == self._log.end
                and not self._flush.has_failed
                and not self.flags.has(Flag.NOT_WRITEABLE)
            )
            self._write_checkpoint(is_clean=is_complete)
            if is_complete:
                write_queue_table(self.config.root, self._log.end, self._queues.ranges())
                self._abort.remove()
            else:
                logger.error("%s is not closed in good order", self.config.root)
        finally:
            self._close_files()
            self._lock.release()

    def _close_files(self) -> None:
        self._reader.forget_segment()
        self._dispatcher.forget_index_file()
        self._queues.close()
        if self._index is not None:
            self._index.close()
        self._log.close()
        self.beginnings.close()
        self._checkpoint.close()

    async def __aenter__(self) -> "MessageStore":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def apply(self, config: StoreConfig) -> None:
        """Take over settings that may change while the store is open.

        Where files lie, how large they are and when they are flushed is settled by opening.
        """
        settled = {name: getattr(self.config, name) for name in _SETTLED}
        config = dataclasses.replace(config, **settled)
        self.config = config
        self._appender.configure(config)
        self._reader.configure(config)
        self.replicas.configure(config)

    # --- Role

    @property
    def role(self) -> BrokerRole:
        """Whether this store takes messages, and whether senders wait for slaves."""
        return self._role

    def take_role(self, role: BrokerRole) -> None:
        """Be master or slave from now on. Whoever sends or receives the log has stopped."""
        if self._role is BrokerRole.SLAVE and role is not BrokerRole.SLAVE:
            self._catch_up()
            self.received.cut_unfinished()
        self._role = role
        self.replicas.take_role(role)
        self._apply_flags()

    # --- Durability

    @property
    def is_waited_for(self) -> bool:
        """Whether there may be anything to wait for in `durable`."""
        return self.config.is_sync_flush or self.replicas.are_waited_for

    def durable(self, position: int) -> asyncio.Future[PutStatus] | None:
        """A future for when everything before a position is as safe as it has to be.

        That is on the disk with SYNC_FLUSH, and in enough slaves of a SYNC_MASTER; both are
        waited for at the same time. None where there is nothing to wait for. All who wait for
        the same flush or the same reports get the same future.
        """
        flushed = None
        if self.config.is_sync_flush and position > self._log.flushed:
            flushed = self._flush.durable(position)
        if not self.replicas.are_waited_for:
            return flushed
        copied = self.replicas.wait(position)
        if flushed is None or copied is None:
            return copied if flushed is None else flushed
        return _both(flushed, copied)

    async def flush(self) -> None:
        """Make everything durable now."""
        await self._flush.flush()
        await self._derived.flush()

    @property
    def flushed_position(self) -> int:
        return self._log.flushed

    @property
    def confirm_offset(self) -> int:
        """Messages before this position can be read."""
        return self._log.flushed if self.config.is_sync_flush else self._log.end

    @property
    def dispatched_position(self) -> int:
        return self._dispatcher.position

    @property
    def min_physical_offset(self) -> int:
        return self._log.min_offset

    @property
    def max_physical_offset(self) -> int:
        return self._log.end

    # --- Dispatch

    @property
    def arrival_listener(self) -> ArrivalListener | None:
        """Called in the turn in which a message can first be read, with

        topic, queue id, the queue's new end offset, tags code, store time, properties
        """
        return self._dispatcher.listener

    @arrival_listener.setter
    def arrival_listener(self, listener: ArrivalListener | None) -> None:
        self._dispatcher.listener = listener

    def on_arrival(self, listener: ArrivalListener) -> None:
        """Set the one who is told of messages that can be read."""
        self._dispatcher.listener = listener

    def _note_flushed(self) -> None:
        self._catch_up()
        self.received.flushed()

    def _record_waits(self) -> None:
        """A record was written and not dispatched, the first after all were."""
        if self.config.is_sync_flush:
            self._flush.request()
        else:
            self._note_dispatch_failure()

    def _catch_up(self) -> None:
        """Dispatch what lies between the dispatcher and what may be read."""
        self._appender.has_waiting = False
        end = self.confirm_offset
        if self._dispatcher.position >= end:
            return
        replay = Replay(
            self._dispatcher,
            self._queues.open_tail,
            False,
            False,
            is_growing=True,
            beginnings=self.beginnings.by_name,
        )
        waiting = LogReplay(self._log.segments, self._dispatcher.position, end, replay)
        if not waiting.run():
            self._note_dispatch_failure()
            return
        self._dispatcher.position = max(self._dispatcher.position, waiting.position)
        self.flags.clear(Flag.LOGICS_QUEUE_ERROR, "queue entries can be written again")
        self.flags.clear(Flag.INDEX_FILE_ERROR, "index entries can be written again")

    def _note_dispatch_failure(self) -> None:
        failure = self._queues.failure
        if failure is not None:
            self._queues.failure = None
            self.flags.set(Flag.LOGICS_QUEUE_ERROR, str(failure))
        elif self._index is not None and self._index.failure is not None:
            failure, self._index.failure = self._index.failure, None
            self.flags.set(Flag.INDEX_FILE_ERROR, str(failure))
        if failure is not None and not is_passing(failure):
            self._disk_failed(failure)

    # --- Failures

    def _log_failed(self, error: OSError) -> None:
        if is_passing(error):
            logger.error("the log cannot grow: %s", error)
        else:
            self._disk_failed(error)

    def _disk_failed(self, error: OSError) -> None:
        """The disk cannot be trusted any more: no message is taken until the store is reopened."""
        self.flags.set(Flag.NOT_WRITEABLE, f"the disk failed: {error}")

    def _apply_flags(self) -> None:
        takes = self._is_open and self.flags.is_writeable and self._role is not BrokerRole.SLAVE
        refusal = PutStatus.PUT_OK if takes else PutStatus.SERVICE_NOT_AVAILABLE
        if takes and not self.replicas.are_enough:
            refusal = PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
        self._appender.refusal = refusal

    @property
    def is_page_cache_busy(self) -> bool:
        """Whether the last piece of the log took long to get, and the next may as well."""
        return self.clock.monotonic() < self._log.busy_until

    # --- Reading

    @property
    def has_cold_data(self) -> bool:
        """Whether it is worth asking for a `cold_range` at all."""
        return self._cold.is_possible

    def cold_range(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int = 0
    ) -> ColdRange | None:
        """What a `get` would have to wait for; see `rocketq.store.log.cold_data`."""
        return self._cold.range_of(topic, queue_id, offset, max_count, max_bytes)

    async def load(self, cold: ColdRange) -> None:
        """Have it fetched, so that `get` need not wait."""
        await self._cold.load(cold)

    def look_up(self, position: int, size: int | None = None) -> memoryview | None:
        """The record at a position of the log, None if there is none."""
        if position < self._log.min_offset:
            return None
        if size is None:
            head = self._log.read(position, 8)
            if head is None:
                return None
            size = int.from_bytes(head[:4], "big", signed=True)
        record = self._log.read(position, size)
        if record is None or not check_record(record).is_valid:
            return None
        return record

    def message_at(self, position: int) -> MessageExt | None:
        """The message at a position of the log."""
        record = self.look_up(position)
        if record is None:
            return None
        try:
            return decode_record(record)
        except InvalidRecord:
            return None

    def message_by_queue_offset(
        self, topic: str, queue_id: int, queue_offset: int
    ) -> MessageExt | None:
        """The message with this number in a queue."""
        queue = self._queues.find(topic, queue_id)
        entry = queue.read(queue_offset) if queue is not None else None
        return self.message_at(entry.position) if entry is not None else None

    def query_keys(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Messages that carry a key, or have it as unique id, stored in a range of time."""
        if self._index is None:
            return QueryResult([], 0, 0)
        max_count = min(max_count, self.config.max_msgs_num_batch)
        beginning = self.beginnings.get(topic)
        buffers: list[memoryview] = []
        for _ in range(3):
            positions = self._index.find(topic, key, max_count, begin_ms, end_ms)
            records = [self.look_up(position) for position in positions if position >= beginning]
            buffers = [record for record in records if record is not None]
            if buffers or not positions:
                break
            # All of these are gone; older ones may have been left out for their sake.
            end_ms = self._index.time_of(positions[0], end_ms) - 1
        return QueryResult(buffers, self._index.end_timestamp, max(0, self._index.end_position))

    def is_available(self, topic: str, queue_id: int) -> bool:
        """Whether a queue can be asked now; not while it is being made again from the log.

        Whoever goes through many queues leaves out those that are not. For the others the
        methods below raise `QueueUnavailable`, which a client is told as "try again".
        """
        try:
            self._queues.find(topic, queue_id)
        except QueueUnavailable:
            return False
        return True

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The number of the first message of a queue; -1 if there is no such queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else -1

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The number that the next message of a queue will be seen under; 0 without a queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.end_offset if queue is not None else 0

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The number of the message stored at a time; see `rocketq.store.queues.time_search`."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(queue, timestamp, boundary, self._store_time)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When a message was stored, -1 if it cannot be read."""
        queue = self._queues.find(topic, queue_id)
        entry = queue.read(queue_offset) if queue is not None else None
        return self._store_time(entry) if entry is not None else -1

    def earliest_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """When the oldest message of a queue, or of all, was stored; -1 if there is none."""
        if topic is not None:
            queue = self._queues.find(topic, queue_id)
            return self.store_time(topic, queue_id, queue.min_offset) if queue is not None else -1
        record = self.look_up(self._log.min_offset)
        return read_record(record).store_timestamp if record is not None else -1

    def _store_time(self, entry: QueueEntry) -> int:
        head = self._log.read(entry.position, min(entry.size, _HEAD_SIZE))
        if head is None or entry.size < _HEAD_SIZE:
            return -1
        sys_flag = memory.get32(head, layout.SYS_FLAG_AT)
        return memory.get64(head, layout.store_time_at(sys_flag))

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> Iterator[QueueEntry]:
        """The entries of a queue from a number on; fillers (`is_filler`) stand for lost ones."""
        queue = self._queues.find(topic, queue_id)
        return queue.entries(offset, count) if queue is not None else iter(())

    def is_ready(self, topic: str, queue_id: int) -> bool:
        """Whether a message can go into a queue without a file being made or opened for it."""
        tail = self._queues.tails.get(topic, {}).get(queue_id)
        return tail is not None and tail.view is not None

    def topics(self) -> list[str]:
        """Topics that have queues here."""
        return self._queues.topics()

    def queue_count(self, topic: str) -> int:
        """How many queues of a topic there are here."""
        return len(self._queues.tails.get(topic, ()))

    def queues(self, topic: str) -> list[int]:
        """Ids of a topic's queues."""
        return self._queues.queue_ids(topic)

    @property
    def damages(self) -> list[Damage]:
        """Parts of the log that were found damaged when the store was opened."""
        return self.recovery.damages if self.recovery is not None else []

    # --- Keeping

    async def delete_topic(self, topic: str) -> int:
        """Delete a topic's queues; its messages stay in the log until that is cleaned.

        Returns when nothing can bring them back any more. A topic of the same name that is
        made meanwhile is another one already.
        """
        if topic not in self._queues:
            return 0
        removed = self._end_life(topic, self._log.end)
        await self._sync_beginnings()
        return removed

    async def begin_topic(self, topic: str, position: int) -> bool:
        """Take over that a topic was deleted where the log ended here, from another copy of it.

        Returns whether that was new, when it is on the disk.
        """
        if position <= self.beginnings.get(topic):
            return False
        self._end_life(topic, position)
        await self._sync_beginnings()
        return True

    def _end_life(self, topic: str, position: int) -> int:
        """In one turn: what is before the position is gone, what is added now is new."""
        try:
            self.beginnings.begin(topic, position)
        except OSError as error:
            self._log_failed(error)
            raise
        removed = self._queues.remove_topic(topic)
        if position < self._dispatcher.position:
            self._mending.want_topic(topic)  # told late: the messages since then are new
        if self.on_beginning is not None:
            self.on_beginning(topic, position)
        return removed

    async def _sync_beginnings(self) -> None:
        try:
            await asyncio.to_thread(self.beginnings.sync)
        except OSError as error:
            self._disk_failed(error)
            raise

    async def clean_expired_queues(self) -> int:
        """Delete queues whose messages are all gone, the system's excepted."""
        return await in_slices(self._retention.remove_expired_queues(is_system_topic))

    async def delete_expired_files(self) -> int:
        """Delete expired log files now, whatever the hour."""
        self._retention.ask()
        return await self._retention.clean()

    async def mended(self) -> None:
        """Wait until no queue is being made again."""
        await self._mending.idle()

    async def clean(self) -> int:
        """One round of the regular cleaning."""
        return await self._retention.clean()

    async def _keep_house(self, stop: asyncio.Event) -> None:
        """Once a second: checkpoint, statistics, and what was refused for want of space."""
        idle_at = self.clock.monotonic() + _IDLE_S
        while not await asked_to_stop(stop, _HOUSEKEEPING_S):
            self.statistics.sample(self.clock.monotonic())
            try:
                self._catch_up()
            except OSError as error:
                self._log_failed(error)
            self._write_checkpoint()
            if self.clock.monotonic() >= idle_at:
                idle_at = self.clock.monotonic() + _IDLE_S
                self._queues.unmap_idle()
                self._log.unmap_idle()

    def _write_checkpoint(self, *, is_clean: bool = False) -> None:
        end, flushed = self._log.end, self._log.flushed
        if self._role is BrokerRole.SLAVE:
            # Behind this may lie the beginning of a record: nothing to be missed.
            end = min(end, self._dispatcher.position)
            flushed = min(flushed, end)
        progress = Progress(
            log_end=end,
            dispatched=self._dispatcher.position,
            log_durable=flushed,
            queues_durable=min(self._derived.queues_durable, flushed),
            index_durable=self._derived.index_durable,
            record_start=min(self._log.marks.oldest, self._dispatcher.position),
            index_files=len(self._index.files) if self._index is not None else 0,
            is_clean=is_clean,
        )
        try:
            self._checkpoint.write(progress, sync=is_clean)
        except OSError as error:
            if is_passing(error):
                logger.warning("the checkpoint cannot be written: %s", error)
            else:
                self._disk_failed(error)

    def disk_ratio(self) -> float:
        """How full the log's disk is."""
        return self._retention.log_ratio()

    def set_read_ahead(self, ahead: bool) -> None:
        """Have the system read the log ahead of its readers, or no more than they ask for."""
        advice = mmap.MADV_NORMAL if ahead else mmap.MADV_RANDOM
        for segment in self._log.segments:
            if segment.is_mapped:
                segment.mapping.madvise(advice)

    def runtime_info(self) -> dict[str, str]:
        """The store's part of a broker's runtime table (protocol.md 3.13), as text."""
        waits_ms = int((self._log.busy_until - self.clock.monotonic()) * 1000)
        return self.statistics.runtime_info() | {
            "dispatchBehindBytes": str(self.confirm_offset - self._dispatcher.position),
            "pageCacheLockTimeMills": str(max(0, waits_ms)),
            "earliestMessageTimeStamp": str(self.earliest_time()),
            "commitLogMinOffset": str(self.min_physical_offset),
            "commitLogMaxOffset": str(self.max_physical_offset),
            "remainHowManyDataToFlush": readable_size(self._log.end - self._log.flushed),
            **self._retention.runtime_info(),
        }


def _both(
    flushed: asyncio.Future[PutStatus], copied: asyncio.Future[PutStatus]
) -> asyncio.Future[PutStatus]:
    """When both have ended; of two failures that of the copies is told, as in RocketMQ."""
    both: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()

    def look(_: asyncio.Future[PutStatus]) -> None:
        if flushed.done() and copied.done() and not both.done():
            both.set_result(copied.result() or flushed.result())

    flushed.add_done_callback(look)
    copied.add_done_callback(look)
    return both


def _memory_bytes(config: StoreConfig) -> int:
    """How far behind the end of the log messages still count as being in memory."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        total = 8 << 30
    return total * config.access_message_in_memory_max_ratio // 100


def _mapped_limit(config: StoreConfig) -> int:
    """How many queue files are mapped at once; each takes a descriptor, and others need some."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return config.max_mapped_queue_files
    return max(16, min(config.max_mapped_queue_files, allowed // 2))


__all__ = ["Boundary", "GetResult", "MessageStore", "QueryResult"]
