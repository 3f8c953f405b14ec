"""Dispatching records of the log once more, as fast as they can be read.

The inner loop of recovery and of late dispatch: it runs over the valid records of one file and
stops at the first place where somebody has to think. Compiled where that is possible.
"""

import cython

from rocketq.store.queues.queue_names import QUEUE_ID_LIMIT

if cython.compiled:
    from cython.cimports.rocketq.message.record.reader import (
        RecordCheck,
        RecordFields,
        check_record,
        read_record,
    )
    from cython.cimports.rocketq.store.dispatch import Dispatcher
    from cython.cimports.rocketq.store.queues.queue_tail import QueueTail
else:
    from rocketq.message.record.reader import RecordCheck, RecordFields, check_record, read_record
    from rocketq.store.dispatch import Dispatcher
    from rocketq.store.queues.queue_tail import QueueTail

# Besides the values of RecordStatus: why a run ended.
DONE = 0
BLANK = 1
MISPLACED = 100
NO_ROOM = 101
INCOMPLETE = 102
IMPLAUSIBLE = 103
UNFINISHED = 104

NEVER = 1 << 62
_MAX_QUEUE_ID = cython.declare(cython.int, QUEUE_ID_LIMIT)
_MARK_DISTANCE = cython.declare(cython.longlong, 1 << 18)


@cython.final
@cython.cclass
class Replay:
    """Used for one pass over the log."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        open_tail,
        check_crc: cython.bint,
        require_crc: cython.bint,
        complete_from: cython.longlong = NEVER,
        marks=None,
        is_growing: cython.bint = False,
        beginnings=None,
    ) -> None:
        """`open_tail(topic, queue_id)` gives the tail of a queue, None to leave it out.

        From `complete_from` on records are looked at for missing ends: the checksum of the
        body says nothing about the properties, which come last. `marks` are told where records
        begin, now and then. With `is_growing` the log may end in the middle of a record, whose
        rest is still to come: the run ends before it. Records that lie before the beginning of
        their topic, by `beginnings`, are stepped over.
        """
        self.position = 0  # behind the last record dispatched
        self.count = 0
        self.last_timestamp = 0
        self._dispatcher = dispatcher
        self._open_tail = open_tail
        self._check_crc = check_crc
        self._require_crc = require_crc
        self._complete_from = complete_from
        # What was flushed stays, whatever has been configured since.
        self._require_from = 0 if complete_from == NEVER else complete_from
        self._is_growing = is_growing
        self._marks = marks
        self._mark_at = 0 if marks is not None else NEVER
        self._beginnings = beginnings or None
        self._tails = {}

    def run(
        self,
        view,
        segment_start: cython.longlong,
        position: cython.longlong,
        stop: cython.longlong,
    ) -> cython.int:
        """Dispatch records of a file from `position` on, up to `stop`: why it ended."""
        check: RecordCheck
        fields: RecordFields
        tail: QueueTail
        self.position = position
        while self.position < stop:
            if self._is_growing and _is_unfinished(
                view, self.position - segment_start, stop - segment_start
            ):
                return UNFINISHED
            check = check_record(
                view,
                self.position - segment_start,
                self._check_crc,
                self._require_crc and self.position >= self._require_from,
            )
            if check.status != 0:
                return check.status
            fields = read_record(view, self.position - segment_start)
            if fields.physical_offset != self.position:
                return MISPLACED
            if not _is_plausible(fields):
                return IMPLAUSIBLE
            if self.position >= self._complete_from and not _is_complete(fields):
                return INCOMPLETE
            if self._beginnings is not None and self.position < self._beginnings.get(
                fields.topic, 0
            ):
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
                self._marks.note(self.position)
                self._mark_at = self.position + _MARK_DISTANCE
            self.last_timestamp = fields.store_timestamp
            self.position += fields.size
            self.count += 1
        return DONE

    @cython.cfunc
    def _find(self, topic: bytes, queue_id: cython.int) -> QueueTail:
        queues = self._tails.get(topic)
        if queues is None:
            queues = self._tails[topic] = {}
        if queue_id not in queues:
            queues[queue_id] = self._open_tail(topic.decode("utf-8", "replace"), queue_id)
        return queues[queue_id]


@cython.cfunc
def _is_plausible(fields: RecordFields) -> cython.bint:
    """Whether the record can be of this log at all.

    The checksum of the body says nothing about the fields before it. Acting on nonsense in
    them would do more harm than losing a message.
    """
    # Each of the messages before it has taken at least 91 bytes.
    if not 0 <= fields.queue_offset <= fields.physical_offset // 91 + 1:
        return False
    if not 0 <= fields.queue_id < _MAX_QUEUE_ID:
        return False
    topic: bytes = fields.topic
    return len(topic) > 0 and b"/" not in topic and b"\0" not in topic and topic[0] != 46


@cython.cfunc
def _is_complete(fields: RecordFields) -> cython.bint:
    """Whether all of the properties are there.

    What rocketq writes ends them with a separator. Records of a Java master lie in the log of its
    slave as that master wrote them, which need not end so; but what was not written reads as
    zeros, and text has none.
    """
    size: cython.Py_ssize_t = len(fields.properties)
    return size == 0 or fields.properties[size - 1] == 2 or b"\0" not in fields.properties


@cython.cfunc
def _is_unfinished(view, at: cython.longlong, stop: cython.longlong) -> cython.bint:
    """Whether the record that begins here reaches beyond a place of the file."""
    if stop - at < 8:
        return True
    size: cython.longlong = int.from_bytes(view[at : at + 4], "big", signed=True)
    return size > stop - at
