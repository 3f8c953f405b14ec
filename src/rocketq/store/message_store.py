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
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.loop.service import asked_to_stop, running
from rocketq.common.loop.slices import in_slices
from rocketq.common.metrics.family import Histogram
from rocketq.message.names import is_system_topic
from rocketq.store.arrival import ArrivalListener
from rocketq.store.capacity import mapped_limit, memory_bytes
from rocketq.store.config import BrokerRole, StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.catching_up import CatchingUp
from rocketq.store.durability.checkpoint import Checkpoint, Progress
from rocketq.store.durability.flush import DerivedFlush, LogFlush
from rocketq.store.durability.lives import TopicLives
from rocketq.store.durability.log_scan import Damage
from rocketq.store.durability.recovery import Recovery, RecoveryReport
from rocketq.store.durability.running_flags import Flag, RunningFlags
from rocketq.store.files.directory_lock import AbortFile, DirectoryLock
from rocketq.store.files.disk import Disk, is_passing
from rocketq.store.index.index import Index
from rocketq.store.log.append import Appender
from rocketq.store.log.cold_data import ColdData
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.message_inner import MessageInner
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_table import take_queue_table, write_queue_table
from rocketq.store.queues.reader import QueueReader
from rocketq.store.queues.removal import Removal
from rocketq.store.queues.time_search import Boundary
from rocketq.store.replication.epochs import FILE_NAME as EPOCH_FILE
from rocketq.store.replication.epochs import NO_EPOCH, OPEN_END, Epochs
from rocketq.store.replication.log_source import LogSource
from rocketq.store.replication.received_log import ReceivedLog
from rocketq.store.replication.reign import Reign
from rocketq.store.replication.replicas import Replicas
from rocketq.store.replication.waits import both
from rocketq.store.results import AppendResult, GetResult, PutStatus
from rocketq.store.stored_messages import QueryResult, StoredMessages
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
_IDLE_S: Final = 60.0


class MessageStore(StoredMessages):
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
            mapped_limit(config),
            self._removal,
        )
        self._queues.on_failure = self._log_failed
        self.beginnings = Beginnings(config.root, self.disk)
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
        self._catching_up = CatchingUp(
            self._log,
            self._queues,
            self._index,
            self._dispatcher,
            self._appender,
            self.beginnings,
            self.flags,
            confirmed=lambda: self.confirm_offset,
            on_failure=self._disk_failed,
        )
        self._reader = QueueReader(self._queues, self._log, config, memory_bytes(config))
        self._cold = ColdData(self._log, self._queues, memory_bytes(config))
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
            catch_up=self._catching_up.run,
            topic_count=lambda: len(self._queues.tails),
            truncate=self._truncate,
        )
        """The log as a slave appends to it."""
        self.is_controlled = False
        """Whether a controller decides about the role; set before the store is opened."""
        self.epochs = Epochs(config.root / EPOCH_FILE)
        self._epoch_before = NO_EPOCH
        """Which master wrote which part of the log, where a controller elects them."""
        self.replicas = Replicas(
            config,
            LogSource(self._log, self._cold),
            self.epochs,
            clock,
            watch_log=self._log.when_grown,
            on_enough=self._apply_flags,
            on_confirmed=self._apply_limit,
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
        self._lives = TopicLives(
            self.beginnings,
            self._log,
            self._queues,
            self._dispatcher,
            make_again=self._mending.want_topic,
            on_full=self._log_failed,
            on_failure=self._disk_failed,
        )
        self.statistics = StoreStatistics(self._appender, self._reader)
        self._services = AsyncExitStack()
        self._apply_flags()
        # The calls that everything else is there for go straight to compiled code.
        self.append: Callable[[MessageInner], AppendResult] = self._appender.append
        self.append_batch: Callable[[MessageInner], AppendResult] = self._appender.append_batch
        self.get = self._reader.get

    # Opening and closing

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
        if self.is_controlled:
            self.epochs.load()
            self._epoch_before = self.epochs.last_number
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
            is_copy=self._is_copy,
        )
        if report.lost_from is not None:
            # One that began right there stays: others may have what was written in it.
            self.epochs.cut_at(report.lost_from + 1)
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
            self._lift_limits()
            self._catching_up.run()
            if self._role is BrokerRole.SLAVE:
                self.received.cut_torn_end()
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

    # Role

    @property
    def role(self) -> BrokerRole:
        """Whether this store takes messages, and whether senders wait for slaves."""
        return self._role

    def take_role(self, role: BrokerRole, reign: Reign | None = None) -> None:
        """Be master or slave from now on. Whoever sends or receives the log has stopped.

        With a `reign` the log has a new epoch from here on. Where that cannot be written, the disk
        being full, nothing has changed for readers, and the same may be tried again.
        """
        if self._role is BrokerRole.SLAVE and role is not BrokerRole.SLAVE:
            self.received.cut_torn_end()
        if reign is not None:
            self.epochs.cut_at(self._log.end + 1)
            # One that began before this process did begins anew: others may know more of what was
            # written in it then, which must not be taken for what is written from now on.
            is_resumed = reign.epoch == self._epoch_before
            if reign.epoch > self.epochs.last_number or is_resumed:
                self.epochs.begin(reign.epoch, self._log.end)
            self._epoch_before = NO_EPOCH
        if role is not BrokerRole.SLAVE:
            self._lift_limits()
            self._catching_up.run()
        elif self.is_controlled and self.received.confirmed == OPEN_END:
            # Its next master says how much of the rest will stay.
            self.received.confirmed = self._dispatcher.position
        self._role = role
        self.replicas.take_role(role, reign)
        self._apply_limit()
        self._apply_flags()

    def _lift_limits(self) -> None:
        self.received.confirmed = OPEN_END
        self.replicas.confirmed = OPEN_END

    def _apply_limit(self) -> None:
        """Slaves have come to have more of the log, or are waited for from now on, or no more."""
        is_limiting = self.replicas.is_limiting
        self._appender.is_dispatching = not self.config.is_sync_flush and not is_limiting
        self._catching_up.run()

    async def _truncate(self, position: int) -> None:
        """Cut off the end of the log, and all that was derived from it. Nobody writes to it."""
        assert self._role is BrokerRole.SLAVE, self._role
        await self._cut(position, "its master has never had them")

    @property
    def _is_copy(self) -> bool:
        """Whether what is missing here comes from others."""
        return self.is_controlled or self._role is BrokerRole.SLAVE

    async def _cut(self, position: int, why: str) -> None:
        await self._mending.idle()
        async with self._derived.held():
            await self._flush.idle()
            logger.warning(
                "the log is cut at %d, %d bytes before its end: %s",
                *(position, self._log.end - position, why),
            )
            self._reader.forget_segment()
            self._queues.cut_at(position)
            if self._index is not None:
                self._index.cut_at(position)
            self._dispatcher.forget_index_file()
            if self._dispatcher.position > position:
                self._dispatcher.position = position
                self._dispatcher.last_start = -1
            self._log.cut_at(position)
            self._log.marks.cut_at(position)
            self._derived.cut_at(position)
            self._appender.has_waiting = False
            self.epochs.cut_at(position)
            self._write_checkpoint()

    # Durability

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
        return both(flushed, copied, lambda: self.replicas.is_lease_over)

    def flush_soon(self) -> None:
        """Bring what is in the log to the disk, without waiting for it."""
        if self.unflushed_bytes:
            self._flush.request()

    async def flush(self) -> bool:
        """Make everything durable now; False: the disk has failed."""
        await self._flush.flush()
        await self._derived.flush()
        return not self._flush.has_failed

    async def flush_log(self) -> bool:
        """Make every message durable that is in the log now; False: the disk has failed."""
        await self._flush.flush()
        return not self._flush.has_failed

    @property
    def flushed_position(self) -> int:
        return self._log.flushed

    @property
    def confirm_offset(self) -> int:
        """Messages before this position can be read."""
        end = self._log.flushed if self.config.is_sync_flush else self._log.end
        return min(end, self.received.confirmed, self.replicas.confirmed)

    @property
    def dispatched_position(self) -> int:
        return self._dispatcher.position

    @property
    def min_physical_offset(self) -> int:
        return self._log.min_offset

    @property
    def max_physical_offset(self) -> int:
        return self._log.end

    # Dispatch

    @property
    def arrival_listener(self) -> ArrivalListener | None:
        """Called in the turn in which a message can first be read, with

        topic, queue id, the queue's new end offset, tags code, store time, properties
        """
        return self._dispatcher.listener

    @arrival_listener.setter
    def arrival_listener(self, listener: ArrivalListener | None) -> None:
        self._dispatcher.listener = listener

    def _note_flushed(self) -> None:
        self._catching_up.run()
        self.received.flushed()

    def _record_waits(self) -> None:
        """A record was written and not dispatched, the first after all were."""
        if self.config.is_sync_flush:
            self._flush.request()
        elif not self.replicas.is_limiting:
            self._catching_up.note_failure()

    # Failures

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

    @property
    def damages(self) -> list[Damage]:
        """Parts of the log that were found damaged when the store was opened."""
        return self.recovery.damages if self.recovery is not None else []

    # Keeping

    async def delete_topic(self, topic: str) -> int:
        """Delete a topic's queues; its messages stay in the log until that is cleaned.

        Returns when nothing can bring them back any more. A topic of the same name that is
        made meanwhile is another one already.
        """
        return await self._lives.delete(topic)

    async def begin_topic(self, topic: str, position: int) -> bool:
        """Take over that a topic was deleted where the log ended here, from another copy of it.

        Returns whether that was new, when it is on the disk.
        """
        return await self._lives.begin(topic, position)

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
                self._catching_up.run()
            except OSError as error:
                self._log_failed(error)
            self._write_checkpoint()
            if len(self.epochs) > 1:
                self.epochs.forget_before(self._log.min_offset)
            if self.clock.monotonic() >= idle_at:
                idle_at = self.clock.monotonic() + _IDLE_S
                await in_slices(self._queues.unmap_idle())
                self._log.unmap_idle()

    def _write_checkpoint(self, *, is_clean: bool = False) -> None:
        end, flushed = self._log.end, self._log.flushed
        if self.is_controlled:
            self._checkpoint.confirm_physical_offset = self.confirm_offset
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
        """How full the log's disk is. May be called from another thread."""
        return self._retention.log_ratio()

    def is_too_full(self, ratio: float) -> bool:
        """Whether nothing would be taken with a disk as full as this."""
        return ratio > self.config.warning_ratio

    @property
    def is_log_stuck(self) -> bool:
        """Whether the log could not grow lately: no space, no descriptors, no memory."""
        return self._log.is_stuck

    @property
    def flush_times(self) -> Histogram:
        """How long the disk took for each flush of the log."""
        return self._flush.times

    @property
    def unflushed_bytes(self) -> int:
        """What a power failure would take, unless a slave has it."""
        return self._log.end - self._log.flushed

    @property
    def undispatched_bytes(self) -> int:
        """What is stored and cannot be read yet."""
        return max(self.confirm_offset - self._dispatcher.position, 0)

    def known_end(self, topic: str, queue_id: int) -> int | None:
        """The end of a queue, as far as it is known without opening its files."""
        return self._queues.known_end(topic, queue_id)

    def set_read_ahead(self, ahead: bool) -> None:
        """Have the system read the log ahead of its readers, or no more than they ask for."""
        advice = mmap.MADV_NORMAL if ahead else mmap.MADV_RANDOM
        for segment in self._log.segments:
            if segment.is_mapped:
                segment.mapping.madvise(advice)

    def runtime_info(self) -> dict[str, str]:
        """The store's part of a broker's runtime table, as text."""
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


__all__ = ["Boundary", "GetResult", "MessageStore", "QueryResult"]
