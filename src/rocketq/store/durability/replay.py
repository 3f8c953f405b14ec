# cython: annotation_typing=False
"""Dispatching records of the log once more, as fast as they can be read.

The inner loop of recovery and of late dispatch: it runs over the valid records of one file and
stops at the first place where somebody has to think.

Compiled where possible (replay.pxd gives the types).
"""

from collections.abc import Callable
from typing import Final

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.message.record import layout, reader
from rocketq.message.record.reader import RecordFields, RecordStatus
from rocketq.store.dispatch import Dispatcher
from rocketq.store.log.record_marks import RecordMarks
from rocketq.store.queues.queue_names import QUEUE_ID_LIMIT
from rocketq.store.queues.queue_tail import QueueTail

# Why a run ended, besides the values of RecordStatus
DONE: Final = int(RecordStatus.VALID)
BLANK: Final = int(RecordStatus.BLANK)
MISPLACED: Final = 100
NO_ROOM: Final = 101
INCOMPLETE: Final = 102
IMPLAUSIBLE: Final = 103
UNFINISHED: Final = 104

NEVER: Final = 1 << 62

_VALID: Final = int(RecordStatus.VALID)
_MAX_QUEUE_ID: Final = QUEUE_ID_LIMIT
_MARK_DISTANCE: Final = 1 << 18
_SECTOR: Final = 512


class Replay:
    """Used for one pass over the log, or with `tails` for all that follow it as it grows."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        open_tail: Callable[[str, int], QueueTail | None],
        check_crc: bool,
        require_crc: bool,
        complete_from: int = NEVER,
        marks: RecordMarks | None = None,
        is_growing: bool = False,
        beginnings: dict[bytes, int] | None = None,
        tails: dict[str, dict[int, QueueTail]] | None = None,
        sectors_from: int = NEVER,
    ) -> None:
        """`open_tail(topic, queue_id)` gives the tail of a queue, None to leave it out.

        From `complete_from` on records are looked at for missing ends: the checksum of the
        body says nothing about the properties, which come last. From `sectors_from` on they are
        looked at for sectors that are missing in the middle. `marks` are told where records
        begin, now and then. With `is_growing` the log may end in the middle of a record, whose
        rest is still to come: the run ends before it. Records that lie before the beginning of
        their topic, by `beginnings`, are stepped over. `tails` are looked at before anybody is
        asked for one, each time: they may come and go between runs.
        """
        self.position = 0  # behind the last record dispatched
        self.count = 0
        self.last_timestamp = 0
        self._dispatcher = dispatcher
        self._open_tail = open_tail
        self._check_crc = check_crc
        self._require_crc = require_crc
        self._complete_from = complete_from
        self._sectors_from = sectors_from
        # What was flushed stays, whatever has been configured since.
        self._require_from = 0 if complete_from == NEVER else complete_from
        self._is_growing = is_growing
        self._marks = marks
        self._mark_at = 0 if marks is not None else NEVER
        self.beginnings = beginnings or None
        self._tails = tails
        self._topic = b""  # of the last record
        self._name = ""
        self._found: dict[bytes, dict[int, QueueTail | None]] = {}

    def run(self, view: memoryview, segment_start: int, position: int, stop: int) -> int:
        """Dispatch records of a file from `position` on, up to `stop`: why it ended."""
        self.position = position
        data = memory.viewed(view)
        size = len(view)
        while self.position < stop:
            at = self.position - segment_start
            if self._is_growing and _is_unfinished(data, at, stop - segment_start):
                return UNFINISHED
            check = reader.check_at(
                data,
                at,
                size,
                self._check_crc,
                self._require_crc and self.position >= self._require_from,
            )
            if check.status != _VALID:
                return check.status
            fields = reader.read_at(data, at, size)
            if fields.physical_offset != self.position:
                return MISPLACED
            if not _is_plausible(fields):
                return IMPLAUSIBLE
            if self.position >= self._complete_from and not _is_complete(fields):
                return INCOMPLETE
            if self.position >= self._sectors_from and _lacks_sector(fields, self.position):
                return INCOMPLETE
            if self.beginnings is not None and self.position < self.beginnings.get(fields.topic, 0):
                tail = None  # of a topic that was deleted since
            else:
                tail = self._find(fields.topic, fields.queue_id)
            if tail is not None and not self._dispatcher.dispatch(
                tail,
                fields.properties,
                self.position,
                fields.size,
                fields.sys_flag,
                fields.store_timestamp,
                fields.queue_offset,
            ):
                return NO_ROOM
            if self.position >= self._mark_at:
                assert self._marks is not None
                self._marks.note(self.position)
                self._mark_at = self.position + _MARK_DISTANCE
            self.last_timestamp = fields.store_timestamp
            self.position += fields.size
            self.count += 1
        return DONE

    def _find(self, topic: bytes, queue_id: int) -> QueueTail | None:
        if self._tails is not None:
            return self._find_open(self._tails, topic, queue_id)
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = {}
        if queue_id not in found:
            found[queue_id] = self._open_tail(topic.decode("utf-8", "replace"), queue_id)
        return found[queue_id]

    def _find_open(
        self, tails: dict[str, dict[int, QueueTail]], topic: bytes, queue_id: int
    ) -> QueueTail | None:
        if topic != self._topic:
            self._name = topic.decode("utf-8", "replace")
            self._topic = topic
        queues = tails.get(self._name)
        tail = None if queues is None else queues.get(queue_id)
        return self._open_tail(self._name, queue_id) if tail is None else tail


def _is_plausible(fields: RecordFields) -> bool:
    """Whether the record can be of this log at all.

    The checksum of the body says nothing about the fields before it. Acting on nonsense in
    them would do more harm than losing a message.
    """
    # Each of the messages before it has taken at least the bytes of an empty one.
    if not 0 <= fields.queue_offset <= fields.physical_offset // layout.FIXED_SIZE + 1:
        return False
    if not 0 <= fields.queue_id < _MAX_QUEUE_ID:
        return False
    topic = fields.topic
    return len(topic) > 0 and b"/" not in topic and b"\0" not in topic and topic[0] != 46


def _is_complete(fields: RecordFields) -> bool:
    """Whether all of the properties are there.

    What rocketq writes ends them with a separator. Records of a Java master lie in the log of its
    slave as that master wrote them, which need not end so; but what was not written reads as
    zeros, and text has none.
    """
    size = len(fields.properties)
    return size == 0 or fields.properties[size - 1] == 2 or b"\0" not in fields.properties


def _lacks_sector(fields: RecordFields, position: int) -> bool:
    """Whether of the properties everything that lies in one sector is zeros.

    Disks write sector by sector, in any order: with the power one may be lost that has others
    behind it.
    """
    properties = fields.properties
    if b"\0" not in properties:
        return False
    position += fields.size - len(properties)
    size = len(properties)
    at = 0
    while at < size:
        after = min(at + _SECTOR - (position + at) % _SECTOR, size)
        if properties.count(0, at, after) == after - at:
            return True
        at = after
    return False


def _is_unfinished(data: Buffer, at: int, stop: int) -> bool:
    """Whether the record that begins here reaches beyond a place of the file."""
    if stop - at < layout.BLANK_SIZE:
        return True
    return memory.get32(data, at + layout.SIZE_AT) > stop - at
