"""One slot of the timer wheel that is due, on its way to be delivered.

Its chain in the timer log leads from the last message to the first. It is read to its end, a
piece at a time; then the delete markers are looked at; then the messages come out in the order
in which they were placed, without the deleted ones.
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
        self._cursor = slot.last
        self._units: deque[TimerUnit] = deque()
        self._markers: list[TimerUnit] = []
        self._deleted: set[tuple[bytes, bytes]] = set()
        self._head: tuple[MessageExt, TimerUnit] | None = None

    def prepare(self, budget: int) -> int:
        """Do some of what comes before the first message; returns what that took of a budget."""
        if self._cursor >= 0:
            self._read_chain()
            return budget  # long or not, others get their turn before the messages go out
        taken = 0
        while self._markers and taken < budget:
            taken += 1
            self._note_deleted(self._markers.pop())
        return taken

    def _read_chain(self) -> None:
        for _ in range(_UNITS_A_TURN):
            unit = self._log.read(self._cursor)
            if unit is None or unit.slot_ms != self.slot_ms:
                logger.warning(
                    "timer slot %d: the chain breaks at %d", self.slot_ms, self._cursor
                )  # fmt: skip
                self._cursor = -1
                return
            if unit.is_delete_marker:
                self._markers.append(unit)
            else:
                self._units.appendleft(unit)
            self._cursor = unit.previous
            if self._cursor < 0:
                return

    def _note_deleted(self, marker: TimerUnit) -> None:
        message = self._store.message_at(marker.position)
        if message is None:
            return
        properties = message.raw_properties
        topic = get_property(properties, b"REAL_TOPIC") or b""
        key = get_property(properties, b"TIMER_DEL_UNIQKEY") or b""
        # The key stands alone, or behind its topic. A marker deletes in its own topic only.
        self._deleted.add((topic, key.removeprefix(topic + b"+")))

    @property
    def head(self) -> tuple[MessageExt, TimerUnit] | None:
        """The next message to be delivered; None when there is none, or not yet."""
        if self._cursor >= 0 or self._markers:
            return None
        while self._head is None and self._units:
            unit = self._units[0]
            message = self._store.message_at(unit.position)
            if message is None:
                logger.warning("no timer message at %d: left out", unit.position)
            elif not self._is_deleted(message):
                self._head = message, unit
                break
            self._units.popleft()
        return self._head

    def _is_deleted(self, message: MessageExt) -> bool:
        if not self._deleted:
            return False
        properties = message.raw_properties
        topic = get_property(properties, b"REAL_TOPIC") or b""
        return (topic, get_property(properties, b"UNIQ_KEY") or b"") in self._deleted

    def done(self) -> None:
        """The head has been delivered."""
        self._head = None
        self._units.popleft()

    @property
    def is_finished(self) -> bool:
        return self._cursor < 0 and not self._markers and self.head is None
