"""Messages of any delay: delivered at a time, not after a level.

A message that names its time waits in one queue, `rmq_sys_wheel_timer`/0, with its real topic
and queue in two properties, like one with a delay level. Its time decides where it is found
again:

    timer topic  ->  placed: a unit of the timer log, chained to the slot of its time
    slot is due  ->  its chain is read, deleted ones left out, the others stored under
                     their real topics

    deliver at 10:00:07.300, precision 1 s:  slot 10:00:07, delivered at 10:00:08.000
    deliver at 10:00:08.000:                 slot 10:00:07, delivered at 10:00:08.000

A message further away than the roll window is placed half way, and when that slot is due
stored in the timer topic once more: log files that hold it may expire, the copy is newer.

A delete marker is a message with TIMER_DEL_UNIQKEY. It goes to the slot of the message it
deletes, and a slot's markers are read before its messages.

Progress is written once a second, behind what is durable. After a crash the slots delivered
since then are delivered again, and nothing is left out.
"""

import asyncio
import logging
import random
import sys
from dataclasses import dataclass, field
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.data_version import VersionCounter
from rocketq.broker.timer import timed_properties as timed
from rocketq.broker.timer.due_slot import DueSlot
from rocketq.broker.timer.readable import Readable
from rocketq.broker.timer.timer_metrics import TimerMetrics
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.loop.slices import Slices
from rocketq.common.numbers import parse_natural
from rocketq.message.flags import SysFlag, transaction_type
from rocketq.message.message import MessageExt
from rocketq.message.names import TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.message.properties.codec import get_property
from rocketq.remoting.bodies.registration import DataVersion
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.store import MessageInner, MessageStore, PutStatus
from rocketq.store.message_inner import stored_again
from rocketq.store.timer import (
    Slot,
    TimerCheckpoint,
    TimerLog,
    TimerMagic,
    TimerProgress,
    TimerUnit,
    TimerWheel,
    replay,
)

logger = logging.getLogger(__name__)

_HALF_TOPIC: Final = TRANSACTION_HALF_TOPIC.encode()

_LATEST: Final = 2**63 - 1
_WHEEL_REACH: Final = 604_800 - 60
"""Slots before and behind now that cannot be taken for one another."""
_PLACED_A_TURN: Final = 256
# Those who wait for them are answered once a turn, so a turn may not be too short either.
_DELIVERED_A_TURN: Final = 512
_SLOTS_A_TURN: Final = 4_096
_RETRY_S: Final = 0.1
_LOOK_AGAIN_S: Final = 0.02
_CLEANING_S: Final = 30.0
_SAVED_EVERY_MS: Final = 3_600_000

_DECIDED: Final = (SysFlag.TRANSACTION_NONE, SysFlag.TRANSACTION_COMMIT)
_SLOTS_A_LOOK: Final = 1_000
_HOPELESS: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


@dataclass(slots=True)
class _Count:
    """Messages of one queue that one turn has delivered."""

    messages: int = 0
    rolled: int = 0
    waited: int = 0  # in the wheel
    size: int = 0
    delays_ms: list[int] = field(default_factory=list)


class TimerMessages:
    """Takes timed messages in `transform`, places and delivers them on the event loop."""

    def __init__(
        self, live: LiveConfig, store: MessageStore, stats: BrokerStats, clock: Clock
    ) -> None:
        config = live.store
        root = config.root
        self._live = live
        self._store = store
        self._stats = stats
        self._clock = clock
        self._precision_ms = config.timer_precision_ms
        self._log = TimerLog(root / "timerlog", config.mapped_file_size_timer_log, store.disk)
        self._wheel = TimerWheel(root / "timerwheel", self._precision_ms, store.disk)
        self._checkpoint = TimerCheckpoint(root / "config" / "timercheck", store.disk)
        self._version = VersionCounter(clock)
        self.metrics = TimerMetrics(root / "config" / "timermetrics", clock)
        self.is_delivering = True
        """Whether this broker delivers; a slave only places, as far as its master has."""
        self._queue_offset = 0
        self._read_ms = 0
        self._slot: DueSlot | None = None
        self._delivered_now: dict[tuple[str, int], _Count] = {}
        self._saved = TimerProgress()
        self._synced_to = 0
        self._waiting = Readable(store)
        self._out = Readable(store)
        self._placed = 0
        self._delivered = 0
        self._delivered_saved = 0
        self._rates = (0.0, 0.0)
        self._rated_at = (0.0, 0, 0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._placing: asyncio.TimerHandle | asyncio.Handle | None = None
        self._ticking: asyncio.TimerHandle | None = None

    # Taking messages in

    def transform(self, message: MessageInner) -> None:
        """Turn a message that names a time into one that waits; leaves all others alone."""
        properties = message.properties
        if b"TIMER_" not in properties or get_property(properties, timed.OUT_MS) is not None:
            return
        if (
            message.topic == TRANSACTION_HALF_TOPIC
            or timed.delay_level(properties) > 0
            or transaction_type(message.sys_flag) not in _DECIDED
        ):
            return
        now_ms = self._clock.now_ms()
        deliver_ms = timed.deliver_ms(properties, now_ms)
        if deliver_ms is None:
            return
        if not self._live.store.timer_wheel_enable:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        is_marker = get_property(properties, timed.DELETE_KEY) is not None
        if deliver_ms <= now_ms and not is_marker:
            return  # its time has come already
        longest_ms = self._live.store.timer_max_delay_sec * 1_000
        if deliver_ms <= now_ms or deliver_ms - now_ms > longest_ms:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{longest_ms}ms; or if set del msg, the delay time should be bigger than the "
                "current time",
            )
        slot_ms = self._slot_ms(deliver_ms)
        self._refuse_when_crowded(slot_ms)
        message.properties = timed.with_waiting(
            properties, slot_ms, message.topic_bytes, message.queue_id
        )
        message.move_to(TIMER_TOPIC, 0)
        self._place_soon(0)

    def _slot_ms(self, deliver_ms: int) -> int:
        """The tick a message is placed in: the last one that ends at or before its time is
        up, so that a time on a tick is kept to the millisecond."""
        tick = deliver_ms - deliver_ms % self._precision_ms
        return tick - self._precision_ms if tick == deliver_ms else tick

    def _refuse_when_crowded(self, slot_ms: int) -> None:
        """Hold back senders whose messages all come due in the same tick."""
        limit = self._live.store.timer_congest_num_each_slot
        waiting = self._wheel.waiting(slot_ms)
        if waiting <= limit:
            return
        if waiting >= 2 * limit or random.random() * limit < waiting - limit:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"timer message is under flow control, max num limit is {limit} or the current "
                f"value is greater than {limit} and less than {2 * limit}, "
                "trigger random flow control",
            )

    # Life

    def load(self) -> None:
        """Read the files; the store must be open. May take a while: not on a busy loop."""
        now_ms = self._clock.now_ms()
        progress = self._saved = self._checkpoint.load()
        self._version.load(
            DataVersion(
                state_version=progress.state_version,
                timestamp=progress.version_timestamp,
                counter=progress.version_counter,
            )
        )
        self._log.load()
        self._wheel.load()
        self.metrics.load()
        oldest_ms = now_ms - _WHEEL_REACH * self._precision_ms
        read_ms = max(progress.read_ms, oldest_ms) if progress.read_ms > 0 else now_ms
        self._read_ms = read_ms - read_ms % self._precision_ms
        if not progress.read_ms:
            self._saved = progress._replace(read_ms=self._read_ms)
            self._begin()
        flushed = progress.log_flushed
        last_unit, self._read_ms = replay(
            *(self._log, self._wheel, flushed, self._read_ms, self._is_whole),
            placed_since=flushed if progress.read_ms else sys.maxsize,
        )
        self._synced_to = min(progress.log_flushed, self._log.end)
        self._queue_offset = self._clamped(max(progress.queue_offset, self._after(last_unit)))
        waiting = self._store.max_offset(TIMER_TOPIC, 0) - self._queue_offset
        if self._log.end or waiting:
            logger.info(
                "timers: delivered up to %d, %d messages to be placed", self._read_ms, waiting
            )

    def _begin(self) -> None:
        """Write down since when there are timers, before the first is placed.

        A start that does not find it takes everything before itself for delivered.
        """
        try:
            self._checkpoint.write(self._saved)
        except OSError as error:
            logger.error("the progress of timers cannot be written: %s", error)

    def _is_whole(self, unit: TimerUnit) -> bool:
        message = self._store.message_at(unit.position)
        return (
            message is not None
            and message.topic == TIMER_TOPIC
            and message.store_size == unit.size
            and unit.delay_ms >= 0
        )

    def _after(self, unit: TimerUnit | None) -> int:
        """The offset behind the message of the log's last unit; 0 where that cannot be told."""
        message = self._store.message_at(unit.position) if unit is not None else None
        if message is None or message.topic != TIMER_TOPIC:
            return 0
        return message.queue_offset + 1

    def _clamped(self, offset: int) -> int:
        low = max(self._store.min_offset(TIMER_TOPIC, 0), 0)
        return min(max(offset, low), self._store.max_offset(TIMER_TOPIC, 0))

    async def run(self, stop: asyncio.Event) -> None:
        """Place, deliver and save until asked to stop."""
        if not self._live.store.timer_wheel_enable:
            return
        while not self._store.is_available(TIMER_TOPIC, 0):
            if await asked_to_stop(stop, within_s=_RETRY_S):
                return
        await asyncio.to_thread(self.load)
        self._loop = asyncio.get_running_loop()
        period_s = self._live.store.timer_flush_interval_ms / 1000
        clean_at = self._clock.monotonic() + _CLEANING_S
        try:
            self._place_soon(0)
            self._tick()
            while not await asked_to_stop(stop, within_s=period_s):
                await self._save()
                self._rate()
                if self._clock.monotonic() >= clean_at:
                    clean_at = self._clock.monotonic() + _CLEANING_S
                    self._log.remove_before(self._store.min_physical_offset)
        finally:
            self._loop = None
            for handle in (self._placing, self._ticking):
                if handle is not None:
                    handle.cancel()
            self._placing = self._ticking = None
        await self._store.flush()
        await self._save()
        await self.metrics.close()
        self._log.close()

    # Placing

    def _place_soon(self, after_s: float) -> None:
        if self._loop is None or self._placing is not None:
            return
        if after_s == 0:
            self._placing = self._loop.call_soon(self._place_turn)
        else:
            self._placing = self._loop.call_later(after_s, self._place_turn)

    def _place_turn(self) -> None:
        self._placing = None
        if not self._store.is_available(TIMER_TOPIC, 0):
            self._place_soon(_RETRY_S)
            return
        try:
            is_more = self.place()
        except OSError as error:
            logger.error("timers cannot be placed: %s", error)
            self._place_soon(_RETRY_S)
            return
        if is_more:
            self._place_soon(0)
        elif self._store.dispatched_position < self._store.max_physical_offset:
            # With SYNC_FLUSH a message can be read only when it is on the disk.
            self._place_soon(_LOOK_AGAIN_S)

    def place(self) -> bool:
        """Find slots for messages of the timer topic, some at a time; true if there are more.

        What is due already is delivered at once. Nothing changes in the wheel before the
        units are in the log.
        """
        if self._live.store.timer_stop_enqueue:
            return False
        now_ms = self._clock.now_ms()
        end = self._store.max_offset(TIMER_TOPIC, 0)
        offset = self._queue_offset = self._clamped(self._queue_offset)
        staged: dict[int, Slot] = {}
        counted: dict[str, int] = {}
        for entry in self._store.entries(TIMER_TOPIC, 0, offset, _PLACED_A_TURN):
            message = None
            if not entry.is_filler:
                message = self._store.message_at(entry.position, entry.size)
            if message is not None and not self._place_one(
                message, entry.position, entry.size, now_ms, staged, counted
            ):
                break
            offset += 1
        try:
            self._log.write()
        except OSError:
            self._log.forget_added()
            raise
        for slot_ms, slot in staged.items():
            self._wheel.put(slot_ms, slot)
            self._read_ms = min(self._read_ms, slot_ms)  # the clock may have been set back
        for topic, change in counted.items():
            self.metrics.change(topic, change)
        self._count_delivered()
        is_more = self._queue_offset < offset < end
        self._placed += offset - self._queue_offset
        self._queue_offset = offset
        return is_more

    def _place_one(
        self,
        message: MessageExt,
        position: int,
        size: int,
        now_ms: int,
        staged: dict[int, Slot],
        counted: dict[str, int],
    ) -> bool:
        """False when it must be tried again later."""
        properties = message.raw_properties
        due_ms = parse_natural(get_property(properties, timed.OUT_MS))
        real_topic = get_property(properties, timed.REAL_TOPIC)
        if due_ms is None or real_topic is None:
            logger.warning("the timer message at %d names no time or topic: left out", position)
            return True
        is_marker = get_property(properties, timed.DELETE_KEY) is not None
        write_ms = now_ms - now_ms % self._precision_ms
        if due_ms < write_ms and self.is_delivering:
            return is_marker or self._deliver(message, _LATEST, now_ms, is_rolled=False)
        slot_ms, magic = self._place_of(due_ms, write_ms)
        if is_marker:
            magic |= TimerMagic.DELETE
        slot = staged.get(slot_ms) or self._wheel.get(slot_ms)
        unit = TimerUnit(
            previous=slot.last if slot is not None else -1,
            magic=magic,
            write_time_ms=write_ms,
            delay_ms=slot_ms - write_ms,
            position=position,
            size=size,
            topic_hash=timed.topic_hash(real_topic),
        )
        at = self._log.add(unit)
        change = -1 if is_marker else 1
        staged[slot_ms] = (
            Slot(at, at, change) if slot is None else Slot(slot.first, at, slot.waiting + change)
        )
        name = timed.topic_name(real_topic)
        counted[name] = counted.get(name, 0) + change
        return True

    def _place_of(self, due_ms: int, write_ms: int) -> tuple[int, int]:
        """The slot, and whether it is only a stop on the way."""
        window = self._live.store.timer_roll_window_slot
        if not 2 <= window <= _WHEEL_REACH:
            window = _WHEEL_REACH
        reach_ms = window * self._precision_ms
        left_ms = due_ms - write_ms
        if left_ms < reach_ms:
            return due_ms, TimerMagic.DEFAULT
        # A short rest would be placed for a moment only: go half way instead.
        is_short = left_ms - reach_ms < window // 3 * self._precision_ms
        step_ms = (window // 2 if is_short else window) * self._precision_ms
        return write_ms + step_ms, TimerMagic.DEFAULT | TimerMagic.ROLL

    # Delivering

    def _tick(self) -> None:
        """Deliver what is due, and come back at the next tick or sooner if there is more."""
        self._ticking = None
        if self._loop is None:
            return
        self._place_soon(0)
        try:
            is_busy = self.deliver_due() or self.read_ahead()
            delay_s = 0.0 if is_busy else self._until_next_tick_s()
        except Exception:
            logger.exception("delivering timers goes on in %.1f s", _RETRY_S)
            delay_s = _RETRY_S
        self._ticking = self._loop.call_later(delay_s, self._tick)

    def _until_next_tick_s(self) -> float:
        if (
            self._slot is not None
            and self._slot.slot_ms + self._precision_ms <= self._clock.now_ms()
        ):
            return _RETRY_S  # the store did not take a message
        return (self._precision_ms - self._clock.now_ms() % self._precision_ms) / 1000

    def deliver_due(self) -> bool:
        """Deliver what is due, but not too much at once; true if more is due already."""
        if not self.is_delivering or self._live.store.timer_stop_dequeue:
            return False
        try:
            return self._deliver_some()
        finally:
            self._count_delivered()

    def _deliver_some(self) -> bool:
        now_ms = self._clock.now_ms()
        write_ms = now_ms - now_ms % self._precision_ms
        left = _DELIVERED_A_TURN
        slots_left = _SLOTS_A_TURN
        while self._read_ms < write_ms:
            if left <= 0 or slots_left <= 0:
                return True
            found = self._wheel.get(self._read_ms)
            if found is None:
                self._slot = None
                slots_left -= 1
                self._read_ms += self._precision_ms
                continue
            slot = self._slot_of(self._read_ms, found)
            left -= slot.prepare(left)
            due = slot.due(left)
            while due and left > 0:
                left -= 1
                message, unit = due[0]
                if not self._deliver(message, unit.write_time_ms, now_ms, is_rolled=unit.is_rolled):
                    return False  # tried again from here
                due.popleft()
            if slot.is_finished:
                self._wheel.clear(slot.slot_ms)
                self._slot = None
                self._read_ms = slot.slot_ms + self._precision_ms
        return False

    def _slot_of(self, slot_ms: int, found: Slot) -> DueSlot:
        """The slot that is delivered, with all that has been placed in it."""
        slot = self._slot
        if slot is None or slot.slot_ms != slot_ms:
            slot = self._slot = DueSlot(slot_ms, found, self._log, self._store)
        slot.reach(found)
        return slot

    def read_ahead(self) -> bool:
        """Read some of the chain of the slot that is due next; true if there is more of it."""
        now_ms = self._clock.now_ms()
        next_ms = now_ms - now_ms % self._precision_ms
        if not self.is_delivering or self._read_ms != next_ms:
            return False
        found = self._wheel.get(next_ms)
        return found is not None and self._slot_of(next_ms, found).read_some()

    def _deliver(self, stored: MessageExt, write_ms: int, now_ms: int, *, is_rolled: bool) -> bool:
        """Store a due message under its real topic; false when that has to be tried again."""
        message = stored_again(stored)
        properties = message.properties
        real_topic = get_property(properties, timed.REAL_TOPIC)
        queue_id = timed.queue_number(get_property(properties, timed.REAL_QUEUE_ID))
        if real_topic is None or queue_id is None or real_topic == _HALF_TOPIC:
            logger.error("the timer message at %d names no real queue", stored.physical_offset)
            return True
        properties = timed.with_stamp(properties, write_ms, now_ms)
        name = timed.topic_name(real_topic)
        if is_rolled:
            properties = timed.rolled_once_more(properties)
            message.move_to(TIMER_TOPIC, 0)
        else:
            message.move_to(name, queue_id)
        message.properties = properties
        result = self._store.append(message)
        if result.is_stored:
            count = self._delivered_now.get((name, queue_id))
            if count is None:
                count = self._delivered_now[name, queue_id] = _Count()
            count.waited += write_ms != _LATEST
            count.rolled += is_rolled
            count.messages += 1
            count.size += result.size
            if not is_rolled:
                count.delays_ms.append(now_ms - stored.born_timestamp)
            return True
        if result.status in _HOPELESS:
            logger.error(
                "the timer message at %d is dropped: %s",
                stored.physical_offset,
                result.status.name,
            )
            return True
        return False

    def _count_delivered(self) -> None:
        """Let those who count know what this turn has delivered."""
        for (topic, queue_id), count in self._delivered_now.items():
            self._delivered += count.messages
            if count.waited:
                self.metrics.change(topic, -count.waited)
            put = count.messages - count.rolled
            if put:
                self._stats.messages_put(topic, queue_id, put, count.size, put)
                self._stats.delivered_after(topic, count.delays_ms)
        self._delivered_now.clear()

    # Progress

    async def _save(self) -> None:
        """Write how far everything is, once what was delivered up to there is on the disk.

        The other way round a power failure could take delivered messages whose originals the
        checkpoint already calls delivered.
        """
        log_end = self._store.max_physical_offset
        progress = self._progress()
        # Time alone moves the place up to which slots were delivered, and every second. What
        # was found empty may be looked at again after a crash: it is written once an hour.
        has_moved = (
            progress.queue_offset != self._saved.queue_offset
            or self._delivered != self._delivered_saved
            or abs(progress.read_ms - self._saved.read_ms) >= _SAVED_EVERY_MS
        )
        delivered = self._delivered
        if not has_moved or not await self._durable(log_end):
            return
        self._delivered_saved = delivered
        self._version.advance()
        pages = self._wheel.take_dirty()
        end, since = self._log.end, self._synced_to
        # The clock may have been set back while the disk was waited for, and units placed.
        read_ms = min(progress.read_ms, self._read_ms)
        self._saved = self._progress_at(read_ms, progress.queue_offset, end)
        try:
            await asyncio.to_thread(self._write, pages, since, self._saved)
            self._synced_to = end
        except OSError as error:
            logger.error("the progress of timers cannot be written: %s", error)
            self._wheel.dirty_again(pages)
            self._saved = TimerProgress()
        self.metrics.save_if_changed()

    async def _durable(self, log_end: int) -> bool:
        """Whether the commit log is on the disk up to a position, now or after a moment."""
        for _ in range(20):
            if self._store.flushed_position >= log_end:
                return True
            await asyncio.sleep(0.1)
        return False

    def _write(self, pages: list[tuple[int, bytes]], since: int, progress: TimerProgress) -> None:
        self._log.sync(since)
        if pages:
            self._wheel.write(pages)
        self._checkpoint.write(progress)

    def _progress(self) -> TimerProgress:
        return self._progress_at(self._read_ms, self._queue_offset, self._synced_to)

    def _progress_at(self, read_ms: int, queue_offset: int, log_flushed: int) -> TimerProgress:
        version = self._version.value
        return TimerProgress(
            read_ms=read_ms,
            log_flushed=log_flushed,
            queue_offset=queue_offset,
            master_queue_offset=queue_offset,
            state_version=version.state_version,
            version_timestamp=version.timestamp,
            version_counter=version.counter,
        )

    @property
    def progress(self) -> TimerProgress:
        """What a slave is given."""
        return self._progress()

    @property
    def delivered_until_ms(self) -> int:
        """Every message for a time before this has been delivered, and can be read.

        What waits to be placed is for a time after its own storing. With SYNC_FLUSH messages
        can be read when they are on the disk: those that wait, and once more when delivered.
        """
        if not self._store.is_available(TIMER_TOPIC, 0):
            return 0  # what waits there is not known
        until_ms = min(self._read_ms, self._waiting.readable_until(self._clock.now_ms()))
        if self._queue_offset < self._store.max_offset(TIMER_TOPIC, 0):
            stored_ms = self._store.store_time(TIMER_TOPIC, 0, self._queue_offset)
            until_ms = min(until_ms, stored_ms)
        return self._out.readable_until(until_ms)

    def adopt(self, progress: TimerProgress) -> None:
        """Take over how far the master has delivered, while this broker does not deliver.

        What it has delivered waits no longer here. What it has not, this broker would.
        """
        if self.is_delivering or self._loop is None or progress.read_ms <= 0:
            return
        read_ms = progress.read_ms - progress.read_ms % self._precision_ms
        oldest_ms = read_ms - _WHEEL_REACH * self._precision_ms
        for slot_ms in range(max(self._read_ms, oldest_ms), read_ms, self._precision_ms):
            if self._wheel.get(slot_ms) is not None:
                self._wheel.clear(slot_ms)
        self._read_ms = read_ms

    # What operators see

    def _rate(self) -> None:
        now, (before, placed, delivered) = self._clock.monotonic(), self._rated_at
        passed = max(now - before, 0.001)
        self._rates = (self._placed - placed) / passed, (self._delivered - delivered) / passed
        self._rated_at = now, self._placed, self._delivered

    @property
    def behind_ms(self) -> int:
        """How long ago the oldest slot was due that is not delivered yet."""
        return max(self._clock.now_ms() - self._read_ms, 0) if self._loop is not None else 0

    @property
    def unplaced(self) -> int:
        """Messages that wait to be given a slot."""
        if not self._store.is_available(TIMER_TOPIC, 0):
            return 0
        return max(self._store.max_offset(TIMER_TOPIC, 0) - self._queue_offset, 0)

    @property
    def unplaced_ms(self) -> int:
        """How long the first of them has waited for that."""
        if self.unplaced == 0:
            return 0
        stored_ms = self._store.store_time(TIMER_TOPIC, 0, self._queue_offset)
        return max(self._clock.now_ms() - stored_ms, 0) if stored_ms >= 0 else 0

    @property
    def late(self) -> int:
        """Messages in slots that were due before now; of very many slots the first count."""
        if self._loop is None:
            return 0
        end_ms = min(self._clock.now_ms(), self._read_ms + _SLOTS_A_LOOK * self._precision_ms)
        end_ms -= end_ms % self._precision_ms
        slots = range(self._read_ms, end_ms, self._precision_ms)
        return sum(max(self._wheel.waiting(slot_ms), 0) for slot_ms in slots)

    @property
    def placed_count(self) -> int:
        return self._placed

    @property
    def delivered_count(self) -> int:
        return self._delivered

    def due_within(self, bounds_s: tuple[int, ...]) -> Slices[list[int]]:
        """How many messages are due within each of these times, the shortest first."""
        now_ms = self._clock.now_ms()
        slot_ms = now_ms - now_ms % self._precision_ms
        total, totals = 0, []
        for bound_s in bounds_s:
            end_ms = min(now_ms + bound_s * 1000, now_ms + _WHEEL_REACH * self._precision_ms)
            while slot_ms < end_ms:
                stop_ms = min(end_ms, slot_ms + _SLOTS_A_LOOK * self._precision_ms)
                for each in range(slot_ms, stop_ms, self._precision_ms):
                    total += max(self._wheel.waiting(each), 0)
                slot_ms += -(-(stop_ms - slot_ms) // self._precision_ms) * self._precision_ms
                yield
            totals.append(total)
        return totals

    def runtime_info(self) -> dict[str, str]:
        """Its part of a broker's runtime table."""
        return {
            "timerReadBehind": str(self.behind_ms // 1000),
            "timerOffsetBehind": str(self.unplaced),
            "timerCongestNum": str(self.metrics.total),
            "timerEnqueueTps": f"{self._rates[0]:.1f}",
            "timerDequeueTps": f"{self._rates[1]:.1f}",
        }
