"""Messages with a delay level: kept aside, delivered when they are due.

A producer gives a message a level, not a time. Level n waits in queue n-1 of
`SCHEDULE_TOPIC_XXXX`, with its real topic and queue in two properties, and its index entry
holds the delivery time where others hold the tag's hash:

    level   1  2  3   4   5  6  7  8  9  10 11 12 13 14  15  16  17 18
    delay   1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h

All messages of a level wait equally long, so each queue is already in the order of
delivery, and only its head can be the next. One timer is set to the earliest of the
heads; while it runs, a million waiting messages cost nothing. How far each level has been
delivered is kept in `config/delayOffset.json`, level by level:

    {"dataVersion":{...},"offsetTable":{1:5,3:18}}

The file follows the deliveries: after a crash the last seconds are delivered again, and
nothing is left out.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop
from rocketq.common.numbers import INT32_MAX, parse_int32, parse_natural
from rocketq.common.table_file import TableFile
from rocketq.message.flags import SysFlag, transaction_type
from rocketq.message.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.message.properties.codec import get_property, remove_property, set_property
from rocketq.remoting.bodies.offsets import DelayOffsetWrapper
from rocketq.remoting.bodies.registration import DataVersion
from rocketq.store import MessageInner, MessageStore, PutStatus
from rocketq.store.message_inner import stored_again

logger = logging.getLogger(__name__)

FILE_NAME: Final = "delayOffset.json"

_DELAY: Final = b"DELAY"
_REAL_TOPIC: Final = b"REAL_TOPIC"
_REAL_QUEUE_ID: Final = b"REAL_QID"
_TIMER_PROPERTIES: Final = (b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS")

_MESSAGES_A_TURN: Final = 256
"""Delivered before other work gets its turn: a few milliseconds' worth."""
_RETRY_AFTER_MS: Final = 100
_RETRY_AFTER_ERROR_MS: Final = 10_000
_LONGEST_SLEEP_MS: Final = 5_000
"""The timer measures intervals; waking this often shows when the wall clock was set."""
_LOOK_AGAIN_S: Final = 0.02
_VERSION_STEP: Final = 200
"""Deliveries for which the table's version advances by one."""

_HOPELESS: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


def delay_level(properties: bytes) -> int:
    """The level a message asks for; 0 when it asks for none."""
    level = get_property(properties, _DELAY)
    return 0 if level is None else parse_int32(level) or 0


class _Level:
    """How far one level has been delivered, and when its head is due."""

    __slots__ = (
        "delay_ms",
        "due_ms",
        "is_known",
        "is_watched",
        "number",
        "offset",
        "shift_ms",
        "shifted_until",
    )

    def __init__(self, number: int, delay_ms: int) -> None:
        self.number = number
        self.delay_ms = delay_ms
        self.offset = 0
        self.due_ms: int | None = None  # None: nothing waits here
        self.is_known = False  # whether anything was ever delivered or waiting
        self.is_watched = False  # whether somebody looks for the first message to arrive
        self.shift_ms = 0  # how much sooner those come that are before `shifted_until`
        self.shifted_until = 0

    @property
    def queue_id(self) -> int:
        return self.number - 1


class ScheduledMessages:
    """Takes messages with a level in `transform`, and delivers them from its own timer."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        stats: BrokerStats,
        path: Path,
        clock: Clock,
    ) -> None:
        self._live = live
        self._store = store
        self._stats = stats
        self._file = TableFile(path, self._encode)
        self._clock = clock
        delays_ms = live.store.delay_times_ms()
        self._levels = {
            number: _Level(number, delay_ms) for number, delay_ms in enumerate(delays_ms, start=1)
        }
        self._highest = len(delays_ms)
        self._version = VersionCounter(clock)
        self._delivered = 0
        self._first_level = 1
        # What the file says, or will say when it is written next.
        self._saved: dict[int, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    # Taking messages in

    def transform(self, message: MessageInner) -> None:
        """Turn a message with a level into one that waits; leaves all others alone."""
        properties = message.properties
        level = delay_level(properties)
        if (
            level <= 0
            or message.topic == TRANSACTION_HALF_TOPIC
            or transaction_type(message.sys_flag)
            not in (
                SysFlag.TRANSACTION_NONE,
                SysFlag.TRANSACTION_COMMIT,
            )
        ):
            return
        if level > self._highest:
            level = self._highest
            properties = set_property(properties, _DELAY, b"%d" % level)
        for name in _TIMER_PROPERTIES:
            properties = remove_property(properties, name)
        properties = set_property(properties, _REAL_TOPIC, message.topic.encode())
        properties = set_property(properties, _REAL_QUEUE_ID, b"%d" % message.queue_id)
        message.properties = properties
        message.move_to(SCHEDULE_TOPIC, level - 1)
        sleeping = self._levels[level]
        if self._loop is not None and sleeping.due_ms is None and not sleeping.is_watched:
            # Look at its head as soon as the message is in the store.
            sleeping.is_watched = True
            self._loop.call_soon(self._wake, sleeping)

    # Delivering

    async def run(self, stop: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self.start()
        self._turn()
        try:
            while not await asked_to_stop(stop, within_s=self._save_period_s):
                await self._save()
        finally:
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        await self._save()
        await self._file.close()

    @property
    def _save_period_s(self) -> float:
        return self._live.store.flush_delay_offset_interval / 1000

    def start(self) -> None:
        """Look at the head of every level."""
        for level in self._levels.values():
            level.is_watched = False
            self._look_at_head(level)

    def deliver_due(self) -> bool:
        """Deliver what is due, but not too much at once; true if more is due already."""
        now_ms = self._clock.now_ms()
        left = _MESSAGES_A_TURN
        order = sorted(self._levels, key=lambda number: number < self._first_level)
        for number in order:
            level = self._levels[number]
            while left > 0 and level.due_ms is not None and level.due_ms <= now_ms:
                try:
                    left -= self._deliver_from(level, now_ms, left)
                except Exception:
                    logger.exception("level %d is delivered again in 10 s", number)
                    level.due_ms = now_ms + _RETRY_AFTER_ERROR_MS
            if left <= 0:
                # The next turn starts with the level this one did not finish.
                self._first_level = number
                return True
        return False

    def _deliver_from(self, level: _Level, now_ms: int, limit: int) -> int:
        """Deliver one level's due messages up to `limit`; returns how many it looked at."""
        looked_at = 0
        if not self._store.is_available(SCHEDULE_TOPIC, level.queue_id):
            level.due_ms = now_ms + _RETRY_AFTER_MS
            return looked_at
        # What was deleted meanwhile has no entries: those read must be those counted.
        level.offset = max(level.offset, self._store.min_offset(SCHEDULE_TOPIC, level.queue_id))
        entries = self._store.entries(SCHEDULE_TOPIC, level.queue_id, level.offset, limit)
        for entry in entries:
            due_ms = self._due_ms(level, level.offset, entry.tags_code, now_ms)
            if due_ms > now_ms:
                level.due_ms = due_ms
                return looked_at
            looked_at += 1
            if not entry.is_filler and not self._deliver(level, entry.position):
                level.due_ms = now_ms + _RETRY_AFTER_MS
                return looked_at
            level.offset += 1
            self._delivered += 1
            if self._delivered % _VERSION_STEP == 0:
                self._version.advance()
        self._look_at_head(level)
        return max(looked_at, 1)

    def _deliver(self, level: _Level, position: int) -> bool:
        """Store a due message under its real topic; false when that has to be tried again."""
        try:
            message = self._due_message(position)
            if message is None:
                logger.error("level %d: no message for %d, left out", level.number, position)
                return True
            # Past the writer's transformations: its level is still among the properties.
            result = self._store.append(message)
        except OSError:
            raise  # the disk's fault, not the message's: tried again
        except Exception:
            # It would fail again for ever, and everything behind it would wait.
            logger.exception("level %d: message at %d is left out", level.number, position)
            return True
        if result.is_stored:
            self._stats.messages_put(message.topic, message.queue_id, 1, result.size)
            waited_ms = self._clock.now_ms() - message.born_timestamp
            self._stats.delivered_after(message.topic, [waited_ms])
            return True
        logger.warning("level %d: message at %d: %s", level.number, position, result.status.name)
        return result.status in _HOPELESS

    def _due_message(self, position: int) -> MessageInner | None:
        """A waiting message under its real topic; None where there is none for anybody."""
        stored = self._store.message_at(position)
        if stored is None or stored.topic != SCHEDULE_TOPIC:
            return None
        message = stored_again(stored)
        real_topic = get_property(message.properties, _REAL_TOPIC)
        queue_id = parse_natural(
            get_property(message.properties, _REAL_QUEUE_ID), highest=INT32_MAX
        )
        if real_topic is None or queue_id is None:
            return None
        message.move_to(real_topic.decode(), queue_id)
        return None if message.topic == TRANSACTION_HALF_TOPIC else message

    def _look_at_head(self, level: _Level) -> None:
        """Learn when the next message of a level is due, correcting an offset out of range.

        Where nothing waits, it is looked at again until everything in the log has its entry:
        with SYNC_FLUSH a message has one only when it is on the disk. One that came while
        others waited would else wait for the next to come.
        """
        if not self._store.is_available(SCHEDULE_TOPIC, level.queue_id):
            level.due_ms = self._clock.now_ms() + _RETRY_AFTER_MS  # looked at again then
            return
        low = self._store.min_offset(SCHEDULE_TOPIC, level.queue_id)
        high = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
        if not low <= level.offset <= high:
            corrected = min(max(level.offset, low), high)
            logger.warning(
                "level %d stood at %d, outside %d to %d, goes on at %d",
                level.number, level.offset, low, high, corrected,
            )  # fmt: skip
            level.offset = corrected
        level.is_known = level.is_known or high > 0
        now_ms = self._clock.now_ms()
        level.due_ms = None
        for entry in self._store.entries(SCHEDULE_TOPIC, level.queue_id, level.offset, 1):
            level.due_ms = self._due_ms(level, level.offset, entry.tags_code, now_ms)
        if (
            self._loop is not None
            and level.due_ms is None
            and not level.is_watched
            and self._store.dispatched_position < self._store.max_physical_offset
        ):
            level.is_watched = True
            self._loop.call_later(_LOOK_AGAIN_S, self._wake, level)

    def _due_ms(self, level: _Level, offset: int, delivery_ms: int, now_ms: int) -> int:
        """When a message is due by the clock as it is now.

        Nothing waits longer from now on than its level says. A later time means that the clock
        was set back since, or that another master had another one, or that the level was
        shortened: all that wait then come sooner by as much, and none of them at once.
        """
        shift_ms = level.shift_ms if offset < level.shifted_until else 0
        beyond_ms = delivery_ms - now_ms - level.delay_ms
        if beyond_ms > shift_ms:
            shift_ms = level.shift_ms = beyond_ms
            level.shifted_until = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
        return delivery_ms - shift_ms

    # The timer

    @property
    def next_due_ms(self) -> int | None:
        """When the next message is due; None while none waits."""
        return min(
            (level.due_ms for level in self._levels.values() if level.due_ms is not None),
            default=None,
        )

    def _wake(self, level: _Level) -> None:
        """A message came to a level in which nothing waited, or may have come."""
        if self._loop is None:
            return
        level.is_watched = False
        self._look_at_head(level)
        self._set_timer()

    def _turn(self) -> None:
        self._timer = None
        if self._loop is None:
            return
        if self.deliver_due():
            self._timer_at_ms = 0
            self._timer = self._loop.call_later(0, self._turn)
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        due_ms = self.next_due_ms
        if due_ms is None or self._loop is None:
            return
        now_ms = self._clock.now_ms()
        at_ms = min(due_ms, now_ms + _LONGEST_SLEEP_MS)
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._loop.call_later(max(at_ms - now_ms, 0) / 1000, self._turn)

    # The offset file

    def load(self) -> None:
        """Read how far each level had been delivered."""
        self._file.load(self._decode)
        self._saved = self.offsets()

    def _decode(self, data: bytes) -> None:
        stored = json.loads(data)
        if isinstance(version := stored.get("dataVersion"), Mapping):
            self._version.load(DataVersion.from_json(version))
        for number, offset in stored.get("offsetTable", {}).items():
            level = self._levels.get(int(number))
            if level is not None:
                level.offset = int(offset)
                level.is_known = True

    def _encode(self) -> bytes:
        table = {"dataVersion": self._version.value, "offsetTable": self._saved}
        return json.dumps_pretty(table)

    async def _save(self) -> None:
        """Write the offsets, once the messages delivered up to them are on the disk.

        The other way round a power failure could take delivered messages whose originals
        the file already calls delivered.
        """
        offsets = self.offsets()
        if offsets != self._saved and await self._store.flush():
            self._saved = offsets
            self._file.save()

    def adopt(self, copied: DelayOffsetWrapper) -> None:
        """Be the copy of the master's progress, while nothing is delivered here."""
        assert self._loop is None, "a slave delivers nothing"
        for number, offset in copied.offset_table.items():
            level = self._levels.get(number)
            if level is not None and offset >= 0:
                level.offset = offset
                level.is_known = True
        if copied.data_version is not None:
            self._version.load(copied.data_version)
        if self.offsets() != self._saved:
            self._saved = self.offsets()
            self._file.save()

    def offsets(self) -> dict[int, int]:
        """By level, the next offset to be delivered from its queue."""
        return {level.number: level.offset for level in self._levels.values() if level.is_known}

    def progress(self) -> dict[int, tuple[int, int]]:
        """By level, the next offset to be delivered and the end of its queue."""
        return {
            number: (offset, self._store.max_offset(SCHEDULE_TOPIC, number - 1))
            for number, offset in self.offsets().items()
            if self._store.is_available(SCHEDULE_TOPIC, number - 1)
        }

    @property
    def data_version(self) -> DataVersion:
        return self._version.value
