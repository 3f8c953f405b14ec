"""Deleting what is too old, and what the disk has no room for.

Looked at every `cleanResourceInterval`. A log file goes

    when it expired, that is, was last changed longer ago than `fileReservedTime` hours, and
    the hour is one of `deleteWhen`, the disk is fuller than `diskMaxUsedSpaceRatio`, or
    somebody asked for it;

    whatever its age, when the disk is fuller than `diskSpaceCleanForciblyRatio`.

Above `diskSpaceWarningLevelRatio` nothing is accepted any more until it is below again. The
file being written always stays. Queue and index files follow when all they point at is gone.
Nobody asks whether messages have been consumed.

A file is deleted by taking its name away. Readers that hold a part of it keep that part, so
there is no file in use to wait for; the disk's space comes back when the last of them is done.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.loop.slices import Slices, in_slices
from rocketq.store.config import StoreConfig
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.running_flags import Flag, RunningFlags
from rocketq.store.files.disk import Disk
from rocketq.store.index.index import Index
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.upkeep.statistics import readable_size

logger = logging.getLogger(__name__)

_FIRST_AFTER_S: Final = 60.0
_ROUNDS_WHEN_ASKED: Final = 20
_FILES_A_TURN: Final = 64


class Retention:
    """Owned by the store; runs on the event loop, deletes in threads."""

    def __init__(
        self,
        config: Callable[[], StoreConfig],
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        disk: Disk,
        flags: RunningFlags,
        clock: Clock,
        beginnings: Beginnings,
    ) -> None:
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._disk = disk
        self._flags = flags
        self._clock = clock
        self._beginnings = beginnings
        self._asked = 0
        self._cleaned_to = 0

    async def run(self, stop: asyncio.Event) -> None:
        wait_s = _FIRST_AFTER_S
        while not await asked_to_stop(stop, wait_s):
            wait_s = self._config().clean_resource_interval / 1000
            try:
                await self.clean()
            except OSError as error:
                logger.error("cleaning failed: %s", error)

    def start_from(self, log_min: int) -> None:
        """Queues and index have followed the log up to here."""
        self._cleaned_to = log_min

    def ask(self) -> None:
        """Delete expired files at any hour, for some rounds."""
        self._asked = _ROUNDS_WHEN_ASKED

    # How full the disks are

    def log_ratio(self) -> float:
        """Of several folders the emptiest counts: that is where the next file goes."""
        return min(self.folder_ratios().values())

    def folder_ratios(self) -> dict[str, float]:
        return {
            str(folder): self._disk.usage(folder).ratio
            for folder in self._config().commit_log_folders
        }

    def queue_ratio(self) -> float:
        return self._disk.usage(self._config().root / "consumequeue").ratio

    def runtime_info(self) -> dict[str, str]:
        """How full the disks are, as brokers report it."""
        ratios = self.folder_ratios()
        usage = self._disk.usage(self._config().commit_log_folders[0])
        return {
            "commitLogDiskRatio": str(min(ratios.values())),
            "consumeQueueDiskRatio": str(self.queue_ratio()),
            "commitLogDirCapacity": (
                f"Total : {readable_size(usage.total)}, Free : {readable_size(usage.usable)}."
            ),
            **{f"commitLogDiskRatio_{folder}": str(ratio) for folder, ratio in ratios.items()},
        }

    # One round

    async def clean(self) -> int:
        """One round; returns how many log files it deleted."""
        config = self._config()
        is_urgent = is_wanted = False
        for name, ratio in (("log", self.log_ratio()), ("queue", self.queue_ratio())):
            if ratio > config.warning_ratio:
                self._flags.set(Flag.DISK_FULL, f"the {name} disk is {ratio:.0%} full")
                is_urgent = True
                break
            is_urgent = is_urgent or ratio > config.forced_ratio
            is_wanted = is_wanted or ratio < 0 or ratio > config.cleaning_ratio
        else:
            self._flags.clear(Flag.DISK_FULL, "there is room again")
        hour = time.localtime(self._clock.now_ms() / 1000).tm_hour
        is_time = hour in config.delete_hours
        removed = 0
        if is_time or is_wanted or is_urgent or self._asked > 0:
            self._asked = max(0, self._asked - 1)
            removed = await self._remove_log_files(
                whatever_age=is_urgent and config.clean_file_forcibly_enable
            )
        await in_slices(self.follow_log())
        return removed

    async def _remove_log_files(self, *, whatever_age: bool) -> int:
        config = self._config()
        removed = 0
        while removed < config.delete_file_batch_max:
            if removed:
                await asyncio.sleep(config.delete_commit_log_files_interval / 1000)
            # Looked at and given up in one turn: another cleaning may be under way.
            if not self._may_first_go(whatever_age=whatever_age):
                break
            first = self._log.take_first()
            logger.info("deleting %s", first.path)
            first.close()
            await asyncio.to_thread(self._disk.remove, first.path)
            removed += 1
        return removed

    def _may_first_go(self, *, whatever_age: bool) -> bool:
        """Whether the oldest log file is to be deleted, as things are now."""
        if len(self._log.segments) < 2:
            return False  # the file being written
        first = self._log.segments[0]
        if first.end > self._log.flushed:
            return False
        if whatever_age:
            return True
        try:
            changed_ms = self._disk.modified_ms(first.path)
        except FileNotFoundError:
            return True
        return changed_ms + self._config().file_reserved_time * 3_600_000 <= self._clock.now_ms()

    def follow_log(self) -> Slices[None]:
        """Delete queue and index files all of whose messages are gone.

        A queue that was asleep is opened for it: each is a slice of its own. One with very
        many files to delete is left with some for the next round.
        """
        log_min = self._log.min_offset
        if log_min <= self._cleaned_to:
            return
        self._queues.set_log_min(log_min)
        is_done = True
        for queue in self._queues.all():
            is_done &= queue.remove_files_below(log_min, _FILES_A_TURN) < _FILES_A_TURN
            yield
        if self._index is not None:
            self._index.remove_below(log_min)
        self._beginnings.forget_before(log_min)
        if is_done:
            self._cleaned_to = max(self._cleaned_to, log_min)

    def remove_expired_queues(self, keep: Callable[[str], bool]) -> Slices[int]:
        """Delete whole queues whose last message is gone, and forget their numbering.

        Each is opened, looked at and deleted in one slice: nothing comes in between.
        """
        removed = 0
        for queue in self._queues.all():
            if not keep(queue.topic) and self._is_expired(queue):
                logger.info("deleting %s: its last message is gone", queue)
                self._queues.remove(queue.topic, queue.queue_id)
                removed += 1
            yield
        return removed

    def _is_expired(self, queue: ConsumeQueue) -> bool:
        if queue.tail.next_offset > queue.end_offset:
            return False  # a message is on its way into it
        return queue.tail.end_position <= self._log.min_offset
