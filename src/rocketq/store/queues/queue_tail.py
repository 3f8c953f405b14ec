# cython: annotation_typing=False
"""The end of one consume queue, where entries are added.

Entry n of a queue (its layout is in `rocketq.message.record.layout`) lies at byte n * 20 of its
row of files. The tail holds the mapped file that is being filled and writes into it directly;
everything slower (making files, opening them again) is its owner's work, asked for when there is
no room.

Compiled where possible (queue_tail.pxd gives the types).
"""

import mmap
from typing import Final, Protocol

from rocketq.common import memory
from rocketq.message.record import layout

_NOTHING: Final = memoryview(b"")


class TailOwner(Protocol):
    """Who makes room for entries."""

    def make_room(self) -> bool: ...
    def note_dirty(self) -> None: ...
    def put_at(self, offset: int, position: int, size: int, tags_code: int) -> bool: ...


class _NoOwner:
    """For the tail of a queue that was deleted."""

    def make_room(self) -> bool:
        return False

    def note_dirty(self) -> None:
        pass

    def put_at(self, offset: int, position: int, size: int, tags_code: int) -> bool:
        return False


_NO_OWNER: Final = _NoOwner()


class QueueTail:
    """Written by the dispatcher alone."""

    def __init__(self, topic: str, queue_id: int, index_seed: int, owner: TailOwner) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.index_seed = index_seed  # hash of "topic#", from which a key's hash goes on
        self.is_schedule = topic == "SCHEDULE_TOPIC_XXXX"
        self.end = 0  # where the next entry goes, in bytes
        self.next_offset = 0  # what the next message of this queue is numbered
        self.end_position = 0  # where in the log the last message indexed ends
        self.limit = 0  # entries may be written up to here
        self.view_start = 0
        self.view: memoryview | None = None
        self._memory = memory.viewed(_NOTHING)
        self.used = False
        self.is_dirty = False
        self.owner: TailOwner = owner

    def attach(self, view: mmap.mmap | bytearray, view_start: int, limit: int) -> None:
        """Write into this memory from now on."""
        self.view = memoryview(view)  # holds it in its place
        self._memory = memory.viewed(self.view)
        self.view_start = view_start
        self.limit = limit

    def detach(self) -> None:
        """Let go of the memory; the owner is asked for it again when it is needed."""
        self.view = None
        self._memory = memory.viewed(_NOTHING)
        self.limit = 0

    def retire(self) -> None:
        """Take no entry any more: the queue is deleted. Nothing refers to it from here on."""
        self.detach()
        self.owner = _NO_OWNER

    def put(self, position: int, size: int, tags_code: int) -> bool:
        """Add an entry. False: the owner has no room for it."""
        if self.end + layout.ENTRY_SIZE > self.limit and not self.owner.make_room():
            return False
        at = self.end - self.view_start
        memory.put64(self._memory, at + layout.ENTRY_POSITION_AT, position)
        memory.put32(self._memory, at + layout.ENTRY_SIZE_AT, size)
        memory.put64(self._memory, at + layout.ENTRY_TAGS_CODE_AT, tags_code)
        self.end += layout.ENTRY_SIZE
        self.end_position = position + size
        self.used = True
        if not self.is_dirty:
            self.is_dirty = True
            self.owner.note_dirty()
        return True

    def put_at(self, offset: int, position: int, size: int, tags_code: int) -> bool:
        """Add the entry of a message found in the log, unless it is there already.

        False: the owner has no room for it.
        """
        at = offset * layout.ENTRY_SIZE
        if at == self.end and position >= self.end_position:
            if not self.put(position, size, tags_code):
                return False
            if self.next_offset <= offset:
                self.next_offset = offset + 1
            return True
        if self.view_start <= at < self.end and at < self.limit:
            place = at - self.view_start
            if (
                memory.get64(self._memory, place + layout.ENTRY_POSITION_AT) == position
                and memory.get32(self._memory, place + layout.ENTRY_SIZE_AT) == size
                and memory.get64(self._memory, place + layout.ENTRY_TAGS_CODE_AT) == tags_code
            ):
                return True
        return self.owner.put_at(offset, position, size, tags_code)
