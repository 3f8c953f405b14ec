# cython: annotation_typing=False
"""Reading a queue: entries scanned, filtered, and turned into slices of the mapped log.

The messages that a pull asks for usually lie next to each other in the log, since they were
sent one after another: such a run becomes one slice, and nothing is copied.

How much one read returns: the first message always, then as long as neither the wanted count
nor the bytes are exceeded; and it looks at a bounded number of entries, so that a filter that
lets nothing pass does not hold up everybody else. Looking into records, where a filter needs
that, has a limit of its own: by the properties looked at, and by what the filter says it costs.

Compiled where possible (reader.pxd gives the types).
"""

from typing import Final, Protocol

from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.filter import MessageFilter
from rocketq.message.properties.codec import decode_properties
from rocketq.message.record import layout
from rocketq.message.record.reader import read_record
from rocketq.store.config import StoreConfig
from rocketq.store.errors import QueueUnavailable
from rocketq.store.log.append import LogTail
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.results import GetResult, GetStatus

_FOUND: Final = int(GetStatus.FOUND)
_NO_MATCHED_MESSAGE: Final = int(GetStatus.NO_MATCHED_MESSAGE)
_MESSAGE_WAS_REMOVING: Final = int(GetStatus.MESSAGE_WAS_REMOVING)
_OFFSET_FOUND_NULL: Final = int(GetStatus.OFFSET_FOUND_NULL)
_OFFSET_OVERFLOW_BADLY: Final = int(GetStatus.OFFSET_OVERFLOW_BADLY)
_OFFSET_OVERFLOW_ONE: Final = int(GetStatus.OFFSET_OVERFLOW_ONE)
_OFFSET_TOO_SMALL: Final = int(GetStatus.OFFSET_TOO_SMALL)
_NO_MATCHED_LOGIC_QUEUE: Final = int(GetStatus.NO_MATCHED_LOGIC_QUEUE)
_NO_MESSAGE_IN_QUEUE: Final = int(GetStatus.NO_MESSAGE_IN_QUEUE)

_NOTHING: Final = memoryview(b"")
_FILLER_SIZE: Final = 0x7FFFFFFF
_MAX_BYTES: Final = 134_217_728

# What a read may spend on looking into records, in terms of a filter: about 10 ms.
_MOST_EFFORT: Final = 4000
_PROPERTIES_A_TERM: Final = 256


class ReadableLog(Protocol):
    """What is read of the log."""

    @property
    def tail(self) -> LogTail: ...
    @property
    def min_offset(self) -> int: ...
    def view_at(self, position: int) -> tuple[memoryview, int] | None: ...


class QueueReader:
    """Owned by the store; runs on the event loop alone."""

    def __init__(
        self, queues: ConsumeQueues, log: ReadableLog, config: StoreConfig, memory_bytes: int
    ) -> None:
        """`memory_bytes`: how far behind the end of the log a message still counts as hot."""
        self.found_count = 0
        self.found_messages = 0
        self.missed_count = 0
        self._queues = queues
        self._log = log
        self._log_tail = log.tail
        self._memory_bytes = memory_bytes
        self._segment_start = 0
        self._segment_end = 0
        self._segment_view: memoryview | None = None
        self._raw = memory.viewed(_NOTHING)
        self._effort = 0
        self._terms = 0
        self.configure(config)

    def configure(self, config: StoreConfig) -> None:
        """Take over the settings that may change while the store is open."""
        self._hot_bytes = config.max_transfer_bytes_on_message_in_memory
        self._cold_bytes = config.max_transfer_bytes_on_message_in_disk
        self._max_bytes = config.max_pull_bytes
        self._scan_bytes = config.max_filter_message_size

    def forget_segment(self) -> None:
        """Hold on to no file of the log: they are about to change."""
        self._segment_view = None
        self._raw = memory.viewed(_NOTHING)
        self._segment_start = self._segment_end = 0

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int = 0,
        filter: MessageFilter | None = None,
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
        tail = queue.tail
        first = queue.min_offset
        end = tail.end // layout.ENTRY_SIZE
        status = _FOUND
        following = offset
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
        # The view is held here, since mending a queue lets go of its files.
        if tail.view is not None and offset * layout.ENTRY_SIZE >= tail.view_start:
            # In the file that is being written, as most of what is read.
            view = tail.view
            window_start = tail.view_start // layout.ENTRY_SIZE
            window_end = end
        else:
            window = queue.window(offset)
            if window is None:
                self.missed_count += 1
                return GetResult(_OFFSET_FOUND_NULL, queue.next_file_offset(offset), first, end)
            view, window_start, window_end = window
        result = GetResult(_NO_MATCHED_MESSAGE, offset, first, end)
        log_end = self._log_tail.end
        self._collect(
            result,
            queue,
            memory.viewed(view),
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

    def _collect(
        self,
        result: GetResult,
        queue: ConsumeQueue,
        entries: Buffer,
        window_start: int,
        window_end: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        filter: MessageFilter | None,
        log_min: int,
        log_end: int,
    ) -> None:
        at = offset
        stop = offset + (max(self._scan_bytes, layout.ENTRY_SIZE * max_count) // layout.ENTRY_SIZE)
        if stop > window_end:
            stop = window_end
        run_start = -1
        run_end = -1
        count = 0
        total = 0
        needs_properties = False
        self._effort = 0
        if filter is not None and filter.needs_properties:
            needs_properties = True
            self._terms = filter.terms
        was_removed = False
        while at < stop and count < max_count:
            entry_at = (at - window_start) * layout.ENTRY_SIZE
            position = memory.get64(entries, entry_at + layout.ENTRY_POSITION_AT)
            size = memory.get32(entries, entry_at + layout.ENTRY_SIZE_AT)
            code = memory.get64(entries, entry_at + layout.ENTRY_TAGS_CODE_AT)
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
                if not self._properties_match(filter, position):
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

    def _find_segment(self, position: int) -> bool:
        found = self._log.view_at(position)
        if found is None:
            return False
        view, start = found
        self._segment_view = view
        self._segment_start = start
        self._segment_end = start + len(view)
        self._raw = memory.viewed(view)
        return True

    def _is_record(self, position: int, size: int) -> bool:
        """Whether a record of this size starts here."""
        if size < layout.BORN_HOST_AT:
            return False
        at = position - self._segment_start
        magic = memory.get32(self._raw, at + layout.MAGIC_AT)
        return memory.get32(self._raw, at + layout.SIZE_AT) == size and (
            magic == layout.MAGIC_V1 or magic == layout.MAGIC_V2
        )

    def _properties_match(self, filter: MessageFilter | None, position: int) -> bool:
        assert filter is not None
        assert self._segment_view is not None
        fields = read_record(self._segment_view, position - self._segment_start)
        self._effort += 1 + self._terms + len(fields.properties) // _PROPERTIES_A_TERM
        return filter.matches_properties(decode_properties(fields.properties))

    def _take_run(self, result: GetResult, start: int, end: int) -> None:
        if start >= 0:
            assert self._segment_view is not None
            result.buffers.append(
                self._segment_view[start - self._segment_start : end - self._segment_start]
            )
