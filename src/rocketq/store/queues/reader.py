"""Reading a queue: entries scanned, filtered, and turned into slices of the mapped log.

The messages that a pull asks for usually lie next to each other in the log, since they were
sent one after another: such a run becomes one slice, and nothing is copied.

How much one read returns: the first message always, then as long as neither the wanted count
nor the bytes are exceeded; and it looks at a bounded number of entries, so that a filter that
lets nothing pass does not hold up everybody else. Looking into records, where a filter needs
that, has a limit of its own: by the properties looked at, and by what the filter says it costs.

This module is compiled where that is possible.
"""

import struct

import cython

from rocketq.message.properties.codec import decode_properties
from rocketq.message.record.reader import read_record
from rocketq.store.errors import QueueUnavailable

if cython.compiled:
    from cython.cimports.rocketq.common.big_endian import get32, get64
    from cython.cimports.rocketq.store.log.append import LogTail
    from cython.cimports.rocketq.store.queues.queue_tail import QueueTail
    from cython.cimports.rocketq.store.results import GetResult
else:
    from rocketq.store.log.append import LogTail
    from rocketq.store.queues.queue_tail import QueueTail
    from rocketq.store.results import GetResult

_ENTRY = struct.Struct(">qiq")
_HEAD = struct.Struct(">iI")  # size, magic

# GetStatus, as the integers that results hold
_FOUND = cython.declare(cython.int, 0)
_NO_MATCHED_MESSAGE = cython.declare(cython.int, 1)
_MESSAGE_WAS_REMOVING = cython.declare(cython.int, 2)
_OFFSET_FOUND_NULL = cython.declare(cython.int, 3)
_OFFSET_OVERFLOW_BADLY = cython.declare(cython.int, 4)
_OFFSET_OVERFLOW_ONE = cython.declare(cython.int, 5)
_OFFSET_TOO_SMALL = cython.declare(cython.int, 6)
_NO_MATCHED_LOGIC_QUEUE = cython.declare(cython.int, 7)
_NO_MESSAGE_IN_QUEUE = cython.declare(cython.int, 8)

_FILLER_SIZE = cython.declare(cython.int, 0x7FFFFFFF)
_MAX_BYTES = cython.declare(cython.longlong, 134217728)

# What a read may spend on looking into records, in terms of a filter: about 10 ms.
_MOST_EFFORT = cython.declare(cython.longlong, 4000)
_PROPERTIES_A_TERM = cython.declare(cython.longlong, 256)


@cython.final
@cython.cclass
class QueueReader:
    """Owned by the store; runs on the event loop alone."""

    def __init__(self, queues, log, config, memory_bytes: cython.longlong) -> None:
        """`memory_bytes`: how far behind the end of the log a message still counts as hot."""
        self.found_count = 0
        self.found_messages = 0
        self.missed_count = 0
        self._queues = queues
        self._log = log
        self._log_tail: LogTail = log.tail
        self._memory_bytes = memory_bytes
        self._segment_start = 0
        self._segment_end = 0
        self._segment_view = None
        self._effort = 0
        self._terms = 0
        self.configure(config)

    def configure(self, config) -> None:
        """Take over the settings that may change while the store is open."""
        self._hot_bytes = config.max_transfer_bytes_on_message_in_memory
        self._cold_bytes = config.max_transfer_bytes_on_message_in_disk
        self._max_bytes = config.max_pull_bytes
        self._scan_bytes = config.max_filter_message_size

    def forget_segment(self) -> None:
        """Hold on to no file of the log: they are about to change."""
        self._segment_view = None
        if cython.compiled:
            self._raw = None
        self._segment_start = self._segment_end = 0

    def get(
        self,
        topic: str,
        queue_id: cython.int,
        offset: cython.longlong,
        max_count: cython.int,
        max_bytes: cython.longlong = 0,
        filter=None,
    ) -> GetResult:
        """Messages of a queue from an offset on.

        `max_bytes` 0, or more than one read may ask for, means RocketMQ's own limits.
        """
        try:
            queue = self._queues.find(topic, queue_id)
        except QueueUnavailable:
            self.missed_count += 1
            return GetResult(_OFFSET_OVERFLOW_ONE, offset, 0, offset)
        if queue is None:
            self.missed_count += 1
            return GetResult(_NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        tail: QueueTail = queue.tail
        first: cython.longlong = queue.min_offset
        end: cython.longlong = tail.end // 20
        status: cython.int = _FOUND
        following: cython.longlong = offset
        if end == 0:
            status = _NO_MESSAGE_IN_QUEUE
            following = 0
        elif offset < first:
            status = _OFFSET_TOO_SMALL
            following = first
        elif offset == end:
            status = _OFFSET_OVERFLOW_ONE
        elif offset > end:
            status = _OFFSET_OVERFLOW_BADLY
            following = end
        if status != _FOUND:
            self.missed_count += 1
            return GetResult(status, following, first, end)
        window_start: cython.longlong
        window_end: cython.longlong
        if tail.view is not None and offset * 20 >= tail.view_start:
            # In the file that is being written, as most of what is read.
            entries: cython.const[cython.uchar][::1] = tail.view
            window_start = tail.view_start // 20
            window_end = end
        else:
            window = queue.window(offset)
            if window is None:
                self.missed_count += 1
                return GetResult(_OFFSET_FOUND_NULL, queue.next_file_offset(offset), first, end)
            entries, window_start, window_end = window
        result: GetResult = GetResult(_NO_MATCHED_MESSAGE, offset, first, end)
        log_end: cython.longlong = self._log_tail.end
        self._collect(
            result,
            queue,
            entries,
            window_start,
            window_end,
            offset,
            max_count,
            max_bytes,
            filter,
            self._log.min_offset,
            log_end,
        )
        if result.next_offset == offset and max_count > 0:
            # An entry that cannot be: the queue is made again, and asked again after that.
            result.status_code = _OFFSET_OVERFLOW_ONE
        if result.message_count > 0:
            result.status_code = _FOUND
            self.found_count += 1
            self.found_messages += result.message_count
        else:
            self.missed_count += 1
        if result.last_position >= 0:
            result.suggest_slave = log_end - result.last_position > self._memory_bytes
        return result

    @cython.cfunc
    def _collect(
        self,
        result: GetResult,
        queue,
        entries: cython.const[cython.uchar][::1],
        window_start: cython.longlong,
        window_end: cython.longlong,
        offset: cython.longlong,
        max_count: cython.int,
        max_bytes: cython.longlong,
        filter,
        log_min: cython.longlong,
        log_end: cython.longlong,
    ) -> cython.bint:
        if cython.compiled:
            p: cython.p_const_uchar
        at: cython.longlong = offset
        stop: cython.longlong = offset + max(self._scan_bytes, 20 * max_count) // 20
        if stop > window_end:
            stop = window_end
        position: cython.longlong
        size: cython.int
        code: cython.longlong
        limit: cython.longlong
        run_start: cython.longlong = -1
        run_end: cython.longlong = -1
        count: cython.int = 0
        total: cython.longlong = 0
        needs_properties: cython.bint = filter is not None and filter.needs_properties
        self._effort = 0
        if needs_properties:
            self._terms = filter.terms
        was_removed: cython.bint = False
        while at < stop and count < max_count:
            if cython.compiled:
                p = cython.address(entries[(at - window_start) * 20])
                position = get64(p)
                size = get32(p + 8)
                code = get64(p + 12)
            else:
                position, size, code = _ENTRY.unpack_from(entries, (at - window_start) * 20)
            if size == _FILLER_SIZE or (0 <= position < log_min and size > 0):
                was_removed = True
                at += 1
                continue
            if position < 0 or size <= 0 or position + size > log_end:
                if self._queues.suspect(queue, at):
                    break
                was_removed = True
                at += 1
                continue
            if filter is not None and not filter.matches_code(code):
                at += 1
                continue
            if total > 0:
                limit = max_bytes
                if limit <= 0 or limit > self._max_bytes:
                    limit = self._hot_bytes
                    if log_end - position > self._memory_bytes:
                        limit = self._cold_bytes
                if total + size > limit or total + size > _MAX_BYTES:
                    break
            if position < self._segment_start or position >= self._segment_end:
                self._take_run(result, run_start, run_end)
                run_start = run_end = -1
                if not self._find_segment(position):
                    if self._queues.suspect(queue, at):
                        break
                    was_removed = True
                    at += 1
                    continue
            if position + size > self._segment_end or not self._is_record(position, size):
                # What the entry points at is not the message it stands for.
                if self._queues.suspect(queue, at):
                    break
                was_removed = True
                at += 1
                continue
            if needs_properties:
                if self._effort > _MOST_EFFORT:
                    break
                if not self._properties_match(filter, position, size):
                    at += 1
                    continue
            if position != run_end:
                self._take_run(result, run_start, run_end)
                run_start = position
            run_end = position + size
            count += 1
            total += size
            result.last_position = position
            at += 1
        self._take_run(result, run_start, run_end)
        result.message_count = count
        result.size = total
        result.next_offset = at
        if count == 0 and was_removed:
            result.status_code = _MESSAGE_WAS_REMOVING
        return True

    @cython.cfunc
    def _find_segment(self, position: cython.longlong) -> cython.bint:
        found = self._log.view_at(position)
        if found is None:
            return False
        view, start = found
        self._segment_view = view
        self._segment_start = start
        self._segment_end = start + len(view)
        if cython.compiled:
            self._raw = view
        return True

    @cython.cfunc
    def _is_record(self, position: cython.longlong, size: cython.int) -> cython.bint:
        """Whether a record of this size starts here."""
        if size < 48:
            return False
        at: cython.longlong = position - self._segment_start
        if cython.compiled:
            p: cython.p_const_uchar = cython.address(self._raw[at])
            return (
                get32(p) == size
                and p[4] == 0xDA
                and p[5] == 0xA3
                and p[6] == 0x20
                and (p[7] == 0xA7 or p[7] == 0xAB)
            )
        else:
            stored, magic = _HEAD.unpack_from(self._segment_view, at)
            return stored == size and magic in (0xDAA320A7, 0xDAA320AB)

    @cython.cfunc
    def _properties_match(self, filter, position: cython.longlong, size: cython.int) -> cython.bint:
        fields = read_record(self._segment_view, position - self._segment_start)
        self._effort += 1 + self._terms + len(fields.properties) // _PROPERTIES_A_TERM
        return filter.matches_properties(decode_properties(fields.properties))

    @cython.cfunc
    def _take_run(
        self, result: GetResult, start: cython.longlong, end: cython.longlong
    ) -> cython.bint:
        if start >= 0:
            result.buffers.append(
                self._segment_view[start - self._segment_start : end - self._segment_start]
            )
        return True
