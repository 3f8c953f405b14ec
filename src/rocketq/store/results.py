# cython: annotation_typing=False
"""What the store answers: how an append and a read ended.

The result classes are made for every append and every read, so they are compiled where that
is possible (results.pxd gives the types). The codes are plain integers with RocketMQ's names.
"""

from enum import IntEnum
from typing import Final

import cython


class PutStatus(IntEnum):
    """How a message was taken. Everything up to 3 means that it is stored."""

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    """Not writeable: shut down, a slave, disk full, or a disk error."""
    CREATE_MAPPED_FILE_FAILED = 5
    """The next file of the log could not be made."""
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGE_CACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    IN_SYNC_REPLICAS_NOT_ENOUGH = 10
    PUT_TO_REMOTE_BROKER_FAIL = 11
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 12
    WHEEL_TIMER_FLOW_CONTROL = 13
    WHEEL_TIMER_MSG_ILLEGAL = 14
    WHEEL_TIMER_NOT_ENABLE = 15


class GetStatus(IntEnum):
    """How a read of a queue ended."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    """Entries were there, the filter let none of them pass."""
    MESSAGE_WAS_REMOVING = 2
    """Entries were there, their records are gone from the log."""
    OFFSET_FOUND_NULL = 3
    """The queue has no entry where it should have one."""
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    """At the end: wait for the next message."""
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8


_LAST_STORED: Final = int(PutStatus.SLAVE_NOT_AVAILABLE)
_PUT_STATUSES: Final = tuple(PutStatus)
_GET_STATUSES: Final = tuple(GetStatus)


@cython.freelist(64)
@cython.cclass
class AppendResult:
    """Where a message was stored, or why it was not."""

    def __init__(
        self,
        status: int,
        physical_offset: int = -1,
        size: int = 0,
        queue_offset: int = -1,
        store_timestamp: int = 0,
        count: int = 0,
        physical_offsets: list[int] | None = None,
    ) -> None:
        self.status_code = status
        self.physical_offset = physical_offset
        self.size = size
        self.queue_offset = queue_offset
        self.store_timestamp = store_timestamp
        self.count = count
        self._physical_offsets = physical_offsets

    @property
    def status(self) -> PutStatus:
        return _PUT_STATUSES[self.status_code]

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, however safe it may be there."""
        return self.status_code <= _LAST_STORED

    @property
    def end(self) -> int:
        """The position that must be durable for this message to be."""
        return self.physical_offset + self.size

    @property
    def physical_offsets(self) -> list[int]:
        """Where each message of a batch lies; of a single one, where it lies."""
        if self._physical_offsets is not None:
            return self._physical_offsets
        return [self.physical_offset] if self.count else []

    def __repr__(self) -> str:
        return (
            f"AppendResult({self.status.name}, physical_offset={self.physical_offset}, "
            f"size={self.size}, queue_offset={self.queue_offset}, count={self.count})"
        )


@cython.freelist(16)
@cython.cclass
class GetResult:
    """What was read from a queue.

    The buffers are slices of the mapped log, neighbouring records in one slice. They hold
    on to the mapping, so they stay valid for as long as they are kept, even if the file is
    deleted meanwhile.
    """

    def __init__(
        self,
        status: int,
        next_offset: int,
        min_offset: int,
        max_offset: int,
    ) -> None:
        self.status_code = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.buffers: list[memoryview] = []
        self.message_count = 0
        self.size = 0
        self.suggest_slave = False
        self.last_position = -1

    @property
    def status(self) -> GetStatus:
        return _GET_STATUSES[self.status_code]

    def release(self) -> None:
        """Let go of the log. Dropping the result does the same."""
        self.buffers = []

    def __repr__(self) -> str:
        return (
            f"GetResult({self.status.name}, count={self.message_count}, size={self.size}, "
            f"next={self.next_offset}, range={self.min_offset}..{self.max_offset})"
        )
