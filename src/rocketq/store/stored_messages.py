"""What can be read of a store: messages by queue, by position, by key and by time.

Everything here is answered from memory, in the turn in which it is asked; what a read would have
to wait for is told before (`cold_range`) and fetched by a thread (`load`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketq.common import memory
from rocketq.message.message import MessageExt
from rocketq.message.record import layout
from rocketq.message.record.reader import check_record, decode_record, read_record
from rocketq.message.record.writer import InvalidRecord
from rocketq.store.config import StoreConfig
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.errors import QueueUnavailable
from rocketq.store.index.index import Index
from rocketq.store.log.cold_data import ColdData, ColdRange
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import QueueEntry
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.time_search import Boundary, offset_by_time

# Up to the end of the store timestamp, wherever it lies.
_HEAD_SIZE: Final = layout.store_time_at(layout.BORN_V6) + 8


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Messages of a topic found by key. Other keys with the same hash may be among them."""

    buffers: list[memoryview]
    last_update_timestamp: int
    last_update_offset: int


class StoredMessages:
    """The readable half of a `MessageStore`, which makes what it works with."""

    config: StoreConfig
    beginnings: Beginnings
    """Where topics that were deleted and made again begin; see `begin_topic`."""
    _log: CommitLog
    _queues: ConsumeQueues
    _index: Index | None
    _cold: ColdData

    @property
    def has_cold_data(self) -> bool:
        """Whether it is worth asking for a `cold_range` at all."""
        return self._cold.is_possible

    def cold_range(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int = 0
    ) -> ColdRange | None:
        """What a `get` would have to wait for; see `rocketq.store.log.cold_data`."""
        return self._cold.range_of(topic, queue_id, offset, max_count, max_bytes)

    async def load(self, cold: ColdRange) -> None:
        """Have it fetched, so that `get` need not wait."""
        await self._cold.load(cold)

    def look_up(self, position: int, size: int | None = None) -> memoryview | None:
        """The record at a position of the log, None if there is none."""
        if size is None:
            head = self._log.read(position, 8)
            if head is None:
                return None
            size = int.from_bytes(head[:4], "big", signed=True)
        record = self._log.read(position, size)
        if record is None or not check_record(record).is_valid:
            return None
        return record

    def message_at(self, position: int, size: int | None = None) -> MessageExt | None:
        """The message at a position of the log; whoever knows its size saves a look."""
        record = self.look_up(position, size)
        if record is None:
            return None
        try:
            return decode_record(record)
        except InvalidRecord:
            return None

    def message_by_queue_offset(
        self, topic: str, queue_id: int, queue_offset: int
    ) -> MessageExt | None:
        """The message with this number in a queue."""
        queue = self._queues.find(topic, queue_id)
        entry = queue.read(queue_offset) if queue is not None else None
        return self.message_at(entry.position) if entry is not None else None

    def query_keys(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Messages that carry a key, or have it as unique id, stored in a range of time."""
        if self._index is None:
            return QueryResult([], 0, 0)
        max_count = min(max_count, self.config.max_msgs_num_batch)
        beginning = self.beginnings.get(topic)
        buffers: list[memoryview] = []
        for _ in range(3):
            positions = self._index.find(topic, key, max_count, begin_ms, end_ms)
            records = [self.look_up(position) for position in positions if position >= beginning]
            # Names and keys with one hash are easily found: what is not of the topic is not shown.
            name = topic.encode("utf-8", "replace")
            buffers = [
                record
                for record in records
                if record is not None and read_record(record).topic == name
            ]
            if buffers or not positions:
                break
            # All of these are gone; older ones may have been left out for their sake.
            end_ms = self._index.time_of(positions[0], end_ms) - 1
        return QueryResult(buffers, self._index.end_timestamp, max(0, self._index.end_position))

    def is_available(self, topic: str, queue_id: int) -> bool:
        """Whether a queue can be asked now; not while it is being made again from the log.

        Whoever goes through many queues leaves out those that are not. For the others the
        methods below raise `QueueUnavailable`, which a client is told as "try again".
        """
        try:
            self._queues.find(topic, queue_id)
        except QueueUnavailable:
            return False
        return True

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The number of the first message of a queue; -1 if there is no such queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else -1

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The number that the next message of a queue will be seen under; 0 without a queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.end_offset if queue is not None else 0

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The number of the message stored at a time; see `rocketq.store.queues.time_search`."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(queue, timestamp, boundary, self._store_time)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When a message was stored, -1 if it cannot be read."""
        queue = self._queues.find(topic, queue_id)
        entry = queue.read(queue_offset) if queue is not None else None
        return self._store_time(entry) if entry is not None else -1

    def earliest_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """When the oldest message of a queue, or of all, was stored; -1 if there is none."""
        if topic is not None:
            queue = self._queues.find(topic, queue_id)
            return self.store_time(topic, queue_id, queue.min_offset) if queue is not None else -1
        record = self.look_up(self._log.min_offset)
        return read_record(record).store_timestamp if record is not None else -1

    def _store_time(self, entry: QueueEntry) -> int:
        head = self._log.read(entry.position, min(entry.size, _HEAD_SIZE))
        if head is None or entry.size < _HEAD_SIZE:
            return -1
        sys_flag = memory.get32(head, layout.SYS_FLAG_AT)
        return memory.get64(head, layout.store_time_at(sys_flag))

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> Iterator[QueueEntry]:
        """The entries of a queue from a number on; fillers (`is_filler`) stand for lost ones."""
        queue = self._queues.find(topic, queue_id)
        return queue.entries(offset, count) if queue is not None else iter(())

    def is_ready(self, topic: str, queue_id: int) -> bool:
        """Whether a message can go into a queue without a file being made or opened for it."""
        tail = self._queues.tails.get(topic, {}).get(queue_id)
        return tail is not None and tail.view is not None

    def topics(self) -> list[str]:
        """Topics that have queues here."""
        return self._queues.topics()

    def queue_count(self, topic: str) -> int:
        """How many queues of a topic there are here."""
        return len(self._queues.tails.get(topic, ()))

    def queues(self, topic: str) -> list[int]:
        """Ids of a topic's queues."""
        return self._queues.queue_ids(topic)
