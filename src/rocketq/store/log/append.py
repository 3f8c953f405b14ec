"""Taking a message: from its parts to a record in the log, and on to everything derived.

In one turn, without leaving compiled code where that is possible:

    checks -> queue offset -> record encoded into the mapped log -> dispatch -> result

Checks come in RocketMQ's order, so that a message with several faults is refused for the same
one. The appender works on the mapped piece of the log that `rocketq.store.log.commit_log` gives
it, and asks for more when a record does not fit. The records of a large batch are made in
memory of their own and written to the file with one call: that costs a third of what it takes
to get its pages into the mapping, and to have them written back from there.
"""

import time

import cython

from rocketq.message.properties.codec import remove_property
from rocketq.message.record.batch import InvalidBatch

if cython.compiled:
    from cython.cimports.cpython.buffer import (
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.libc.string import memchr
    from cython.cimports.posix.time import CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec
    from cython.cimports.rocketq.message.record.batch import BatchItem, batch_items
    from cython.cimports.rocketq.message.record.writer import record_size, write_record
    from cython.cimports.rocketq.store.dispatch import Dispatcher
    from cython.cimports.rocketq.store.message_inner import MessageInner
    from cython.cimports.rocketq.store.queues.queue_tail import QueueTail
    from cython.cimports.rocketq.store.results import AppendResult
else:
    from rocketq.message.record.batch import BatchItem, batch_items
    from rocketq.message.record.writer import encode_record, record_size
    from rocketq.store.dispatch import Dispatcher
    from rocketq.store.message_inner import MessageInner
    from rocketq.store.queues.queue_tail import QueueTail
    from rocketq.store.results import AppendResult

# PutStatus, as the integers that results hold
_OK = cython.declare(cython.int, 0)
_ILLEGAL = cython.declare(cython.int, 6)
_PROPERTIES_SIZE_EXCEEDED = cython.declare(cython.int, 7)

_MAX_PROPERTIES = cython.declare(cython.int, 32767)
_BLANK_SIZE = cython.declare(cython.int, 8)
_RECORD_ALLOWANCE = cython.declare(cython.int, 65536)
_WORTH_A_CALL = cython.declare(cython.int, 32768)
"""From so many bytes on, records are written to the file rather than to its mapping."""
_KEPT_APART = cython.declare(cython.int, 1048576)

LATENCY_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""Upper bounds by which the times that appends take are counted; the last count is above all."""


@cython.final
@cython.cclass
class LogTail:
    """The mapped end of the log. Set by the commit log, moved on by the appender."""

    def __init__(self) -> None:
        self.end = 0  # where the next record goes
        self.limit = 0  # up to here the file is safe to write
        self.segment_start = 0
        self.segment_end = 0
        self.view = None

    def attach(self, view, segment_start: cython.longlong, segment_end: cython.longlong) -> None:
        """Write into this file from now on."""
        self.view = view
        self.memory = view
        self.segment_start = segment_start
        self.segment_end = segment_end

    def detach(self) -> None:
        self.view = None
        self.memory = None
        self.segment_start = self.segment_end = self.limit = 0


@cython.final
@cython.cclass
class Appender:
    """Owned by the store; runs on the event loop alone."""

    def __init__(self, tail: LogTail, log, queues, dispatcher: Dispatcher, config, now_ms) -> None:
        """`now_ms`: the clock's, or None for the computer's own time."""
        self.refusal = 0  # why nothing is taken at the moment, 0 when it is
        self.is_dispatching = not config.is_sync_flush
        self.waker = None  # called when records begin to wait to become durable and visible
        self.has_waiting = False  # set back by whoever dispatches them
        self.last_timestamp = 0
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.slowest_ns = 0
        self.put_ns = 0
        self.latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._fast_count = 0
        self._tail = tail
        self._log = log
        self._queues = queues
        self._tails = queues.tails
        self._dispatcher = dispatcher
        self._now_ms = now_ms
        self._apart = bytearray()
        self.configure(config)

    def configure(self, config) -> None:
        """Take over the settings that may change while the store is open."""
        self._max_body = config.max_message_size
        self._max_topic = config.max_topic_length
        self._long_topics = config.auto_message_version_on_topic_len
        # A record without it would not be accepted by a start that insists on it.
        has_crc = config.enabled_append_prop_crc or config.force_verify_prop_crc
        self._crc_size = 20 if has_crc else 0

    @cython.ccall
    def append(self, message: MessageInner) -> AppendResult:
        """Store one message, or say why not."""
        # Clocks cost more than most of what follows: one append in 64 is timed.
        is_timed: cython.bint = self.put_count & 63 == 0
        began: cython.longlong = _monotonic_ns() if is_timed else 0
        status: cython.int = self._check(message)
        properties: bytes = message.properties
        properties_size: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        if status == _OK:
            if self._dispatcher.scan(properties):
                if b"INNER_NUM\x01" in properties:
                    return self._refused(_ILLEGAL)
                properties = _without_crc(properties)
            properties = _with_end(properties)
            properties_size = len(properties) + self._crc_size
            size = record_size(
                len(message.body),
                len(message.topic_bytes),
                properties_size,
                len(message.born_host) == 20,
                len(message.store_host) == 20,
            )
            status = self._check_sizes(len(message.body), properties_size, size)
        if status == _OK and (
            self._tail.end + size + _BLANK_SIZE > self._tail.segment_end
            or self._tail.end + size > self._tail.limit
        ):
            if not is_timed:
                is_timed = True
                began = _monotonic_ns()
            status = self._make_room(size, False)
        if status != _OK:
            return self._refused(status)

        queue: QueueTail = self._find_queue(message.topic, message.queue_id)
        if queue is None:
            return self._refused(self._queues.why_none(message.topic, message.queue_id))
        is_queued: cython.bint = message.sys_flag & 4 == 0  # neither prepared nor rolled back
        timestamp: cython.longlong = self._now()
        position: cython.longlong = self._tail.end
        queue_offset: cython.longlong = queue.next_offset if is_queued else 0
        self._write(
            self._tail.memory,
            position - self._tail.segment_start,
            message,
            message.flag,
            queue_offset,
            position,
            size,
            timestamp,
            message.prepared_transaction_offset,
            message.body,
            0,
            len(message.body),
            properties,
        )
        self._tail.end = position + size
        self.last_timestamp = timestamp
        if is_queued:
            queue.next_offset = queue_offset + 1
        self._dispatch(queue, properties, position, size, message.sys_flag, timestamp)

        self.put_count += 1
        self.put_bytes += size
        if is_timed:
            self._note_latency(_monotonic_ns() - began)
        else:
            self._fast_count += 1
        result: AppendResult = AppendResult.__new__(AppendResult)
        result.status_code = _OK
        result.physical_offset = position
        result.size = size
        result.queue_offset = queue_offset
        result.store_timestamp = timestamp
        result.count = 1
        result._physical_offsets = None
        return result

    def append_batch(self, message: MessageInner) -> AppendResult:
        """Store the messages of a batch one after another, all of them or none.

        The body is the wire form of `rocketq.message.record.batch`. The messages share everything
        but flag, body and properties, and lie next to each other in one file.
        """
        began: cython.longlong = _monotonic_ns()
        status: cython.int = self._check(message)
        if status == _OK and (
            message.sys_flag & 0xC != 0
            or len(message.topic_bytes) > 127
            or len(message.body) > self._max_body
            or message.topic.startswith("%RETRY%")
        ):
            status = _ILLEGAL
        items: list = []
        item: BatchItem
        total: cython.Py_ssize_t = 0
        if status == _OK:
            try:
                items = batch_items(message.body)
            except InvalidBatch:
                items = []
            if not items:
                status = _ILLEGAL
            for item in items:
                properties: bytes = item.properties
                if _may_have_crc(properties):
                    properties = _without_crc(properties)
                properties = item.properties = _with_end(properties)
                properties_size: cython.Py_ssize_t = len(properties) + self._crc_size
                item.record_size = record_size(
                    item.body_size,
                    len(message.topic_bytes),
                    properties_size,
                    len(message.born_host) == 20,
                    len(message.store_host) == 20,
                )
                status = self._check_sizes(item.body_size, properties_size, item.record_size)
                if status != _OK:
                    break
                total += item.record_size
        is_apart: cython.bint = False  # the records are made elsewhere, and written as one
        if status == _OK and (
            self._tail.end + total + _BLANK_SIZE > self._tail.segment_end
            or self._tail.end + total > self._tail.limit
        ):
            is_apart = total >= _WORTH_A_CALL
            status = self._make_room(total, is_apart)
        if status != _OK:
            return self._refused(status)

        queue: QueueTail = self._find_queue(message.topic, message.queue_id)
        if queue is None:
            return self._refused(self._queues.why_none(message.topic, message.queue_id))
        timestamp: cython.longlong = self._now()
        first: cython.longlong = self._tail.end
        first_offset: cython.longlong = queue.next_offset
        position: cython.longlong = first
        positions: list = []
        memory: cython.uchar[::1] = self._tail.memory
        memory_start: cython.longlong = self._tail.segment_start
        if is_apart:
            memory, memory_start = self._room_apart(total), first
        for item in items:
            self._write(
                memory,
                position - memory_start,
                message,
                item.flag,
                first_offset + len(positions),
                position,
                item.record_size,
                timestamp,
                0,
                message.body,
                item.body_at,
                item.body_size,
                item.properties,
            )
            positions.append(position)
            position += item.record_size
        if is_apart:
            status = self._log.write(memoryview(self._apart)[:total])
            if status != _OK:
                return self._refused(status)
        self._tail.end = position
        self.last_timestamp = timestamp
        queue.next_offset = first_offset + len(items)
        position = first
        for item in items:
            self._dispatch(
                queue, item.properties, position, item.record_size, message.sys_flag, timestamp
            )
            position += item.record_size

        self.put_count += len(items)
        self.put_bytes += total
        self._note_latency(_monotonic_ns() - began)
        return AppendResult(_OK, first, total, first_offset, timestamp, len(items), positions)

    # --- Checks

    @cython.cfunc
    def _check(self, message: MessageInner) -> cython.int:
        """What can be said before sizes are known."""
        if self.refusal != _OK:
            return self.refusal
        topic_size: cython.Py_ssize_t = len(message.topic_bytes)
        if topic_size > 127 and not (
            self._long_topics and topic_size <= 255 and message.topic.startswith("%RETRY%")
        ):
            return _ILLEGAL
        if topic_size == 0 or (topic_size > self._max_topic and topic_size <= 127):
            return _ILLEGAL
        if message.body is None or message.queue_id < 0:
            return _ILLEGAL
        host_size: cython.Py_ssize_t = len(message.born_host)
        if host_size != 8 and host_size != 20:
            return _ILLEGAL
        host_size = len(message.store_host)
        if host_size != 8 and host_size != 20:
            return _ILLEGAL
        # Several messages in one record need a kind of queue that does not exist here.
        if message.sys_flag & 0x80:
            return _ILLEGAL
        return _OK

    @cython.cfunc
    def _check_sizes(
        self,
        body_size: cython.Py_ssize_t,
        properties_size: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.int:
        if properties_size > _MAX_PROPERTIES:
            return _PROPERTIES_SIZE_EXCEEDED
        if body_size > self._max_body or size > self._max_body + _RECORD_ALLOWANCE:
            return _ILLEGAL
        return _OK

    # --- Parts

    @cython.cfunc
    def _refused(self, status: cython.int) -> AppendResult:
        self.put_failed += 1
        return AppendResult(status)

    @cython.cfunc
    def _write(
        self,
        memory: cython.uchar[::1],
        at: cython.longlong,
        message: MessageInner,
        flag: cython.int,
        queue_offset: cython.longlong,
        position: cython.longlong,
        size: cython.Py_ssize_t,
        timestamp: cython.longlong,
        prepared_transaction_offset: cython.longlong,
        body,
        body_at: cython.Py_ssize_t,
        body_size: cython.Py_ssize_t,
        properties: bytes,
    ) -> cython.int:
        """Encode a record into memory that has room for it."""
        if cython.compiled:
            is_bytes: cython.bint = type(body) is bytes
            body_data: cython.p_const_uchar
            view = cython.declare(Py_buffer)
            if is_bytes:
                body_data = cython.cast(bytes, body)
            else:
                PyObject_GetBuffer(body, cython.address(view), PyBUF_SIMPLE)
                body_data = cython.cast(cython.p_const_uchar, view.buf)
            try:
                return write_record(
                    cython.address(memory[0]),
                    at,
                    size,
                    message.topic_bytes,
                    message.queue_id,
                    flag,
                    queue_offset,
                    position,
                    message.sys_flag,
                    message.born_timestamp,
                    message.born_host,
                    timestamp,
                    message.store_host,
                    message.reconsume_times,
                    prepared_transaction_offset,
                    body_data,
                    body_at,
                    body_size,
                    cython.cast(cython.p_const_uchar, properties),
                    len(properties),
                    self._crc_size,
                )
            finally:
                if not is_bytes:
                    PyBuffer_Release(cython.address(view))
        else:
            return encode_record(
                memory,
                at,
                message.topic_bytes,
                message.queue_id,
                flag,
                queue_offset,
                position,
                message.sys_flag,
                message.born_timestamp,
                message.born_host,
                timestamp,
                message.store_host,
                message.reconsume_times,
                prepared_transaction_offset,
                body if len(body) == body_size else memoryview(body)[body_at : body_at + body_size],
                properties,
                self._crc_size > 0,
            )

    @cython.cfunc
    def _room_apart(self, size: cython.Py_ssize_t) -> bytearray:
        """Memory to make records in; it is kept for the next ones, unless that would be much."""
        if len(self._apart) < size or len(self._apart) > _KEPT_APART:
            self._apart = bytearray(size)
        return self._apart

    @cython.cfunc
    def _make_room(self, size: cython.Py_ssize_t, is_apart: cython.bint) -> cython.int:
        before: cython.longlong = self._tail.end
        status: cython.int = self._log.make_room(size, is_mapped=not is_apart)
        if self._dispatcher.position == before:
            self._dispatcher.position = self._tail.end  # nothing to dispatch in between
        return status

    @cython.cfunc
    def _find_queue(self, topic: str, queue_id: cython.int) -> QueueTail:
        queues: dict = self._tails.get(topic)
        if queues is not None:
            queue = queues.get(queue_id)
            if queue is not None:
                return queue
        return self._queues.tail_for_append(topic, queue_id)

    @cython.cfunc
    def _dispatch(
        self,
        queue: QueueTail,
        properties: bytes,
        position: cython.longlong,
        size: cython.int,
        sys_flag: cython.int,
        timestamp: cython.longlong,
    ) -> cython.bint:
        """Dispatch at once if nothing before this record is waiting to be."""
        if (
            self.is_dispatching
            and self._dispatcher.position == position
            and self._dispatcher.dispatch(queue, properties, position, size, sys_flag, timestamp)
        ):
            return True
        if self.waker is not None and not self.has_waiting:
            self.has_waiting = True
            self.waker()
        return False

    @cython.cfunc
    def _now(self) -> cython.longlong:
        if self._now_ms is not None:
            return self._now_ms()
        if cython.compiled:
            now = cython.declare(timespec)
            clock_gettime(CLOCK_REALTIME, cython.address(now))
            return cython.cast(cython.longlong, now.tv_sec) * 1000 + now.tv_nsec // 1000000
        else:
            return time.time_ns() // 1_000_000

    @cython.cfunc
    def _note_latency(self, elapsed_ns: cython.longlong) -> cython.bint:
        self.put_ns += elapsed_ns
        if elapsed_ns > self.slowest_ns:
            self.slowest_ns = elapsed_ns
        if elapsed_ns < 1000000:
            self._fast_count += 1
            return True
        elapsed_ms = elapsed_ns // 1000000
        for i, bound in enumerate(LATENCY_BOUNDS_MS):
            if elapsed_ms <= bound:
                self.latencies[i] += 1
                return True
        self.latencies[len(LATENCY_BOUNDS_MS)] += 1
        return True

    def take_latencies(self):
        """Counts by `LATENCY_BOUNDS_MS` since the start."""
        counts = list(self.latencies)
        counts[0] += self._fast_count
        return counts


@cython.cfunc
@cython.inline
def _may_have_crc(properties: bytes) -> cython.bint:
    """Whether there is the sign its name ends with, which is rare.

    Python's `in` takes bytes for a number first, and makes an error of that every time.
    """
    if cython.compiled:
        data: cython.p_const_char = properties
        return memchr(data, 35, len(properties)) != cython.NULL
    return b"#" in properties


@cython.cfunc
def _without_crc(properties: bytes) -> bytes:
    """A checksum that came along is of another record: with it this one would look damaged."""
    return remove_property(properties, b"__CRC32#")


@cython.cfunc
def _with_end(properties: bytes) -> bytes:
    """Every entry ends with its separator, so that a torn record shows."""
    if len(properties) > 0 and properties[len(properties) - 1] != 2:
        return properties + b"\x02"
    return properties


@cython.cfunc
@cython.inline
def _monotonic_ns() -> cython.longlong:
    if cython.compiled:
        now = cython.declare(timespec)
        clock_gettime(CLOCK_MONOTONIC, cython.address(now))
        return cython.cast(cython.longlong, now.tv_sec) * 1000000000 + now.tv_nsec
    else:
        return time.monotonic_ns()
