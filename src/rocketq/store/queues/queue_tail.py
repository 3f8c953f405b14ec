"""The end of one consume queue, where entries are added.

An entry is 20 bytes, big-endian:

    position    int64   where the message starts in the log
    size        int32   its length there, never 0 in a live entry
    tags_code   int64   hash of its tag, for filtering; in the schedule topic a time

Entry n of a queue lies at byte n * 20 of its row of files. The tail holds the mapped file that
is being filled and writes into it directly; everything slower (making files, opening them
again) is its owner's work, asked for when there is no room.

This module is compiled where that is possible.
"""

import struct

import cython

if cython.compiled:
    from cython.cimports.rocketq.common.big_endian import get32, get64, put32, put64

ENTRY_SIZE = 20
_ENTRY = struct.Struct(">qiq")
_SIZE = cython.declare(cython.int, 20)


@cython.final
@cython.cclass
class QueueTail:
    """Written by the dispatcher alone."""

    def __init__(self, topic: str, queue_id: cython.int, index_seed: cython.int, owner) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.index_seed = index_seed  # hash of "topic#", from which a key's hash goes on
        self.is_schedule = topic == "SCHEDULE_TOPIC_XXXX"
        self.end = 0  # where the next entry goes, in bytes
        self.next_offset = 0  # what the next message of this queue is numbered
        self.end_position = 0  # where in the log the last message indexed ends
        self.limit = 0  # entries may be written up to here
        self.view_start = 0
        self.view = None
        self.used = False
        self.is_dirty = False
        self.owner = owner

    def attach(self, view, view_start: cython.longlong, limit: cython.longlong) -> None:
        """Write into this memory from now on."""
        self.view = view
        self.view_start = view_start
        self.limit = limit

    def detach(self) -> None:
        """Let go of the memory; the owner is asked for it again when it is needed."""
        self.view = None
        self.limit = 0

    @cython.ccall
    def put(
        self, position: cython.longlong, size: cython.int, tags_code: cython.longlong
    ) -> cython.bint:
        """Add an entry. False: the owner has no room for it."""
        if self.end + _SIZE > self.limit and not self.owner.make_room():
            return False
        if cython.compiled:
            p: cython.p_uchar = cython.address(self.view[self.end - self.view_start])
            put64(p, position)
            put32(p + 8, size)
            put64(p + 12, tags_code)
        else:
            _ENTRY.pack_into(self.view, self.end - self.view_start, position, size, tags_code)
        self.end += _SIZE
        self.end_position = position + size
        self.used = True
        if not self.is_dirty:
            self.is_dirty = True
            self.owner.note_dirty()
        return True

    @cython.ccall
    def put_at(
        self,
        offset: cython.longlong,
        position: cython.longlong,
        size: cython.int,
        tags_code: cython.longlong,
    ) -> cython.bint:
        """Add the entry of a message found in the log, unless it is there already.

        False: the owner has no room for it.
        """
        at: cython.longlong = offset * _SIZE
        if at == self.end and position >= self.end_position:
            if not self.put(position, size, tags_code):
                return False
            if self.next_offset <= offset:
                self.next_offset = offset + 1
            return True
        if self.view_start <= at < self.end and at < self.limit:
            if cython.compiled:
                p: cython.p_uchar = cython.address(self.view[at - self.view_start])
                if get64(p) == position and get32(p + 8) == size and get64(p + 12) == tags_code:
                    return True
            else:
                entry = _ENTRY.unpack_from(self.view, at - self.view_start)
                if entry == (position, size, tags_code):
                    return True
        return self.owner.put_at(offset, position, size, tags_code)
