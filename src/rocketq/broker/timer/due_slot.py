"""One slot of the timer wheel that is due, or will be next, on its way to be delivered.

Its chain in the timer log leads from the last message to the first. It is read to its end, a
piece at a time, before the slot is due if there is time for that; what is placed in it after
that is read behind the rest. Then the delete markers are looked at; then the messages come out
in the order in which they were placed, without the deleted ones.
"""

import logging
from collections import deque
from typing import Final

from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import get_property
from rocketq.store import MessageStore
from rocketq.store.timer import Slot, TimerLog, TimerUnit

logger = logging.getLogger(__name__)

_UNITS_A_TURN: Final = 4_096


class DueSlot:
    """Belongs to the one who delivers."""

    def __init__(self, slot_ms: int, slot: Slot, log: TimerLog, store: MessageStore) -> None:
        self.slot_ms = slot_ms
        self._log = log
        self._store = store
        self._last = -1
        self._units: deque[TimerUnit] = deque()
        self._markers: list[TimerUnit] = []
        self._deleted: set[tuple[bytes, bytes]] = set()
        self._due: deque[tuple[MessageExt, TimerUnit]] = deque()
        # The part of the chain that is being read: from here on, down to what was read before.
        self._cursor = -1
        self._reading: list[TimerUnit] = []
        self.reach(slot)

    def reach(self, slot: Slot) -> None:
        """Messages may have been placed in it: have them read as well."""
        if slot.last != self._last and self._cursor < 0:
            self._cursor = slot.last
            self._stop, self._last = self._last, slot.last

    def read_some(self) -> bool:
        """Read a piece of the chain; false when it is read to its end."""
        if self._cursor < 0:
            return False
        units = self._log.chained_before(self._cursor, _UNITS_A_TURN)
        is_broken = not units
        for unit in units:
            if unit.write_time_ms + unit.delay_ms != self.slot_ms:
                is_broken = True
                break
            self._reading.append(unit)
            self._cursor = unit.previous
            if self._cursor <= self._stop:
                break
        if is_broken:
            logger.warning("timer slot %d: the chain breaks at %d", self.slot_ms, self._cursor)
        if is_broken or self._cursor <= self._stop:
            self._cursor = -1
            for unit in reversed(self._reading):
                (self._markers if unit.is_delete_marker else self._units).append(unit)
            self._reading = []
        return self._cursor >= 0

    def prepare(self, budget: int) -> int:
        """Do some of what comes before the first message; returns what that took of a budget."""
        if self._cursor >= 0:
            self.read_some()
            return budget  # long or not, others get their turn before the messages go out
        taken = 0
        while self._markers and taken < budget:
            taken += 1
            self._note_deleted(self._markers.pop())
        return taken

    def _note_deleted(self, marker: TimerUnit) -> None:
        message = self._store.message_at(marker.position)
        if message is None:
            return
        properties = message.raw_properties
        topic = get_property(properties, b"REAL_TOPIC") or b""
        key = get_property(properties, b"TIMER_DEL_UNIQKEY") or b""
        # The key stands alone, or behind its topic. A marker deletes in its own topic only.
        self._deleted.add((topic, key.removeprefix(topic + b"+")))

    def due(self, most: int) -> deque[tuple[MessageExt, TimerUnit]]:
        """The next messages, and who delivers them takes them out; none when there are none yet."""
        due = self._due
        if self._cursor >= 0 or self._markers:
            return due
        units, message_at = self._units, self._store.message_at
        while units and len(due) < most:
            unit = units.popleft()
            message = message_at(unit.position, unit.size)
            if message is None:
                logger.warning("no timer message at %d: left out", unit.position)
            elif not self._deleted or not self._is_deleted(message):
                due.append((message, unit))
        return due

    def _is_deleted(self, message: MessageExt) -> bool:
        properties = message.raw_properties
        topic = get_property(properties, b"REAL_TOPIC") or b""
        return (topic, get_property(properties, b"UNIQ_KEY") or b"") in self._deleted

    @property
    def is_finished(self) -> bool:
        return self._cursor < 0 and not self._markers and not self.due(1)
