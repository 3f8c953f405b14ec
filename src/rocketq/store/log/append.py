# cython: annotation_typing=False
"""Taking a message: from its parts to a record in the log, and on to everything derived.

In one turn, without leaving compiled code where that is possible:

    checks -> queue offset -> record encoded into the mapped log -> dispatch -> result

Checks come in RocketMQ's order, so that a message with several faults is refused for the same
one. The appender works on the mapped piece of the log that `rocketq.store.log.commit_log` gives
it, and asks for more when a record does not fit. The records of a large batch are made in
memory of their own and written to the file with one call: that costs a third of what it takes
to get its pages into the mapping, and to have them written back from there.

Compiled where possible (append.pxd gives the types).
"""

import mmap
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, Protocol

from rocketq.common import memory, ticks
from rocketq.common.memory import Buffer, WritableBuffer
from rocketq.message.names import DERIVED_TOPIC_MAX_LENGTH
from rocketq.message.properties.codec import remove_property
from rocketq.message.record import batch, layout, writer
from rocketq.message.record.batch import BatchItem, InvalidBatch
from rocketq.store import results
from rocketq.store.config import StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.message_inner import MessageInner
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_tail import QueueTail
from rocketq.store.results import AppendResult, PutStatus

_OK: Final = int(PutStatus.PUT_OK)
_ILLEGAL: Final = int(PutStatus.MESSAGE_ILLEGAL)
_PROPERTIES_SIZE_EXCEEDED: Final = int(PutStatus.PROPERTIES_SIZE_EXCEEDED)

_NOTHING: Final = memoryview(b"")
_MAX_LONG_TOPIC: Final = DERIVED_TOPIC_MAX_LENGTH
_RECORD_ALLOWANCE: Final = 65_536
# From so many bytes on, records are written to the file rather than to its mapping.
_WORTH_A_CALL: Final = 32_768
_KEPT_APART: Final = 1_048_576
_NS_IN_MS: Final = 1_000_000
_CRC_SIGN: Final = ord("#")

LATENCY_BOUNDS_MS: Final = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""Upper bounds by which the times that appends take are counted; the last count is above all."""


class GrowingLog(Protocol):
    """Who makes room for records."""

    def make_room(self, size: int, *, is_mapped: bool) -> int: ...
    def write(self, records: memoryview) -> int: ...


class LogTail:
    """The mapped end of the log. Set by the commit log, moved on by the appender."""

    def __init__(self) -> None:
        self.end = 0  # where the next record goes
        self.limit = 0  # up to here the file is safe to write
        self.segment_start = 0
        self.segment_end = 0
        self.view: mmap.mmap | None = None
        self._held: memoryview | None = None
        self.memory: WritableBuffer = memory.viewed(_NOTHING)

    def attach(self, view: mmap.mmap, segment_start: int, segment_end: int) -> None:
        """Write into this file from now on."""
        self.view = view
        self._held = memoryview(view)  # holds it in its place
        self.memory = memory.viewed(self._held)
        self.segment_start = segment_start
        self.segment_end = segment_end

    def detach(self) -> None:
        """Let go of the memory."""
        self.view = None
        self._held = None
        self.memory = memory.viewed(_NOTHING)
        self.segment_start = self.segment_end = self.limit = 0


class Appender:
    """Owned by the store; runs on the event loop alone."""

    def __init__(
        self,
        tail: LogTail,
        log: GrowingLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        config: StoreConfig,
        now_ms: Callable[[], int] | None,
    ) -> None:
        """`now_ms`: the clock's, or None for the computer's own time."""
        self.refusal = 0  # why nothing is taken at the moment, 0 when it is
        self.is_dispatching = not config.is_sync_flush
        # Called when records begin to wait to become durable and visible.
        self.waker: Callable[[], object] | None = None
        self.has_waiting = False  # set back by whoever dispatches them
        self.last_timestamp = 0
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.slowest_ns = 0
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

    def configure(self, config: StoreConfig) -> None:
        """Take over the settings that may change while the store is open."""
        self._max_body = config.max_message_size
        self._max_topic = config.max_topic_length
        self._long_topics = config.auto_message_version_on_topic_len
        # A record without it would not be accepted by a start that insists on it.
        has_crc = config.enabled_append_prop_crc or config.force_verify_prop_crc
        self._crc_size = layout.CRC_TAIL_SIZE if has_crc else 0

    def append(self, message: MessageInner) -> AppendResult:
        """Store one message, or say why not."""
        # Clocks cost more than most of what follows: one append in 64 is timed.
        is_timed = self.put_count & 63 == 0
        began = ticks.monotonic_ns() if is_timed else 0
        status = self._check(message)
        if status != _OK:
            return self._refused(status)
        body = message.body
        assert body is not None
        body_size = len(body)
        properties = message.properties
        if self._dispatcher.scan(properties):
            if self._dispatcher.has_inner_count:
                return self._refused(_ILLEGAL)
            properties = _without_crc(properties)
        properties = _with_end(properties)
        properties_size = len(properties) + self._crc_size
        size = writer.record_size(
            body_size,
            len(message.topic_bytes),
            properties_size,
            len(message.born_host) == layout.V6_SIZE,
            len(message.store_host) == layout.V6_SIZE,
        )
        status = self._check_sizes(body_size, properties_size, size)
        if status == _OK and (
            self._tail.end + size + layout.BLANK_SIZE > self._tail.segment_end
            or self._tail.end + size > self._tail.limit
        ):
            if not is_timed:
                is_timed = True
                began = ticks.monotonic_ns()
            status = self._make_room(size, False)
        if status != _OK:
            return self._refused(status)

        queue = self._find_queue(message.topic, message.queue_id)
        if queue is None:
            return self._refused(self._queues.why_none(message.topic, message.queue_id))
        # The bit that those have which are prepared or rolled back.
        is_queued = message.sys_flag & layout.TRANSACTION_PREPARED == 0
        timestamp = self._now()
        position = self._tail.end
        queue_offset = queue.next_offset if is_queued else 0
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
            body,
            0,
            body_size,
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
            self._note_latency(ticks.monotonic_ns() - began)
        else:
            self._fast_count += 1
        result = results.AppendResult.__new__(results.AppendResult)
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
        began = ticks.monotonic_ns()
        status = self._check(message)
        if status != _OK:
            return self._refused(status)
        body = message.body
        assert body is not None
        items = self._batch_items(message, body)
        if not items:
            return self._refused(_ILLEGAL)
        total = 0
        for item in items:
            properties = item.properties
            if _may_have_crc(properties):
                properties = _without_crc(properties)
            properties = item.properties = _with_end(properties)
            properties_size = len(properties) + self._crc_size
            item.record_size = writer.record_size(
                item.body_size,
                len(message.topic_bytes),
                properties_size,
                len(message.born_host) == layout.V6_SIZE,
                len(message.store_host) == layout.V6_SIZE,
            )
            status = self._check_sizes(item.body_size, properties_size, item.record_size)
            if status != _OK:
                return self._refused(status)
            total += item.record_size
        is_apart = False  # the records are made elsewhere, and written as one
        if (
            self._tail.end + total + layout.BLANK_SIZE > self._tail.segment_end
            or self._tail.end + total > self._tail.limit
        ):
            is_apart = total >= _WORTH_A_CALL
            status = self._make_room(total, is_apart)
        if status != _OK:
            return self._refused(status)

        queue = self._find_queue(message.topic, message.queue_id)
        if queue is None:
            return self._refused(self._queues.why_none(message.topic, message.queue_id))
        timestamp = self._now()
        first = self._tail.end
        first_offset = queue.next_offset
        position = first
        positions: list[int] = []
        out = self._tail.memory
        out_start = self._tail.segment_start
        if is_apart:
            out = memory.room(self._room_apart(total))
            out_start = first
        for item in items:
            self._write(
                out,
                position - out_start,
                message,
                item.flag,
                first_offset + len(positions),
                position,
                item.record_size,
                timestamp,
                0,
                body,
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
        self._note_latency(ticks.monotonic_ns() - began)
        return AppendResult(_OK, first, total, first_offset, timestamp, len(items), positions)

    def _batch_items(self, message: MessageInner, body: Buffer) -> list[BatchItem]:
        """The messages of a batch; none where it is no batch, or none that can be stored."""
        if (
            message.sys_flag & layout.TRANSACTION_BITS != 0
            or len(message.topic_bytes) > layout.MAX_TOPIC_SIZE_V1
            or len(body) > self._max_body
            or message.topic.startswith("%RETRY%")
        ):
            return []
        try:
            return batch.batch_items(body)
        except InvalidBatch:
            return []

    # Checks

    def _check(self, message: MessageInner) -> int:
        """What can be said before sizes are known."""
        if self.refusal != _OK:
            return self.refusal
        topic_size = len(message.topic_bytes)
        if topic_size > layout.MAX_TOPIC_SIZE_V1 and not (
            self._long_topics
            and topic_size <= _MAX_LONG_TOPIC
            and message.topic.startswith("%RETRY%")
        ):
            return _ILLEGAL
        if topic_size == 0 or self._max_topic < topic_size <= layout.MAX_TOPIC_SIZE_V1:
            return _ILLEGAL
        if message.body is None or message.queue_id < 0:
            return _ILLEGAL
        host_size = len(message.born_host)
        if host_size != layout.V4_SIZE and host_size != layout.V6_SIZE:
            return _ILLEGAL
        host_size = len(message.store_host)
        if host_size != layout.V4_SIZE and host_size != layout.V6_SIZE:
            return _ILLEGAL
        # Several messages in one record need a kind of queue that does not exist here.
        if message.sys_flag & layout.INNER_BATCH:
            return _ILLEGAL
        return _OK

    def _check_sizes(self, body_size: int, properties_size: int, size: int) -> int:
        if properties_size > layout.MAX_PROPERTIES_SIZE:
            return _PROPERTIES_SIZE_EXCEEDED
        if body_size > self._max_body or size > self._max_body + _RECORD_ALLOWANCE:
            return _ILLEGAL
        return _OK

    # Parts

    def _refused(self, status: int) -> AppendResult:
        self.put_failed += 1
        return AppendResult(status)

    def _write(
        self,
        out: WritableBuffer,
        at: int,
        message: MessageInner,
        flag: int,
        queue_offset: int,
        position: int,
        size: int,
        timestamp: int,
        prepared_transaction_offset: int,
        body: Buffer,
        body_at: int,
        body_size: int,
        properties: bytes,
    ) -> None:
        """Encode a record into memory that has room for it."""
        is_held = False  # bytes stay where they are, other buffers are held there
        if type(body) is bytes:
            data: Buffer = memory.address(body)
        else:
            held = memory.hold(body)
            is_held = True
            data = memory.start(held)
        try:
            writer.write_record(
                out,
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
                data,
                body_at,
                body_size,
                memory.address(properties),
                len(properties),
                self._crc_size,
            )
        finally:
            if is_held:
                memory.release(held)

    def _room_apart(self, size: int) -> bytearray:
        """Memory to make records in; it is kept for the next ones, unless that would be much."""
        if len(self._apart) < size or len(self._apart) > _KEPT_APART:
            self._apart = bytearray(size)
        return self._apart

    def _make_room(self, size: int, is_apart: bool) -> int:
        before = self._tail.end
        status = self._log.make_room(size, is_mapped=not is_apart)
        if self._dispatcher.position == before:
            self._dispatcher.position = self._tail.end  # nothing to dispatch in between
        return status

    def _find_queue(self, topic: str, queue_id: int) -> QueueTail | None:
        queues = self._tails.get(topic)
        if queues is not None:
            queue = queues.get(queue_id)
            if queue is not None:
                return queue
        return self._queues.tail_for_append(topic, queue_id)

    def _dispatch(
        self,
        queue: QueueTail,
        properties: bytes,
        position: int,
        size: int,
        sys_flag: int,
        timestamp: int,
    ) -> None:
        """Dispatch at once if nothing before this record is waiting to be."""
        is_done = (
            self.is_dispatching
            and self._dispatcher.position == position
            and self._dispatcher.dispatch(queue, properties, position, size, sys_flag, timestamp)
        )
        if not is_done and self.waker is not None and not self.has_waiting:
            self.has_waiting = True
            self.waker()

    def _now(self) -> int:
        return ticks.now_ms() if self._now_ms is None else self._now_ms()

    def _note_latency(self, elapsed_ns: int) -> None:
        if elapsed_ns > self.slowest_ns:
            self.slowest_ns = elapsed_ns
        if elapsed_ns < _NS_IN_MS:
            self._fast_count += 1
        else:
            self.latencies[bisect_left(LATENCY_BOUNDS_MS, elapsed_ns // _NS_IN_MS)] += 1

    def take_latencies(self) -> list[int]:
        """Counts by `LATENCY_BOUNDS_MS` since the start."""
        counts = list(self.latencies)
        counts[0] += self._fast_count
        return counts


def _may_have_crc(properties: bytes) -> bool:
    """Whether there is the sign its name ends with, which is rare.

    Python's `in` takes bytes for a number first, and makes an error of that every time.
    """
    size = len(properties)
    return memory.find(memory.address(properties), 0, size, _CRC_SIGN) < size


def _without_crc(properties: bytes) -> bytes:
    """A checksum that came along is of another record: with it this one would look damaged."""
    return remove_property(properties, b"__CRC32#")


def _with_end(properties: bytes) -> bytes:
    """Every entry ends with its separator, so that a torn record shows."""
    if len(properties) > 0 and properties[len(properties) - 1] != 2:
        return properties + b"\x02"
    return properties
