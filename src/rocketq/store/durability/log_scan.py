"""Reading the log from front to back: what recovery, check, dump and late dispatch do.

A pass goes from record to record. What is no record is either the end of the log or damage in
the middle of it. It is damage if a record is found further on that can be trusted:

    - its checksums are right,
    - it says itself that it lies where it was found, and
    - it is known to be of this log: it lies before a position up to which everything was once
      on the disk, or its queue has an entry for it, or it is not older than the last record
      before the damage.

The last condition leaves out what was cut off once and never overwritten: such records are
whole and know their place, but are older than what was written in front of them since. It is
asked for nothing else, since clocks are set back.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketq.message.record.reader import RecordFields, RecordStatus, check_record, read_record
from rocketq.store.durability.replay import (
    BLANK,
    DONE,
    IMPLAUSIBLE,
    INCOMPLETE,
    MISPLACED,
    NO_ROOM,
    UNFINISHED,
    Replay,
)
from rocketq.store.files.segment import Segment
from rocketq.store.files.segments import Segments

logger = logging.getLogger(__name__)

_MAGIC_START: Final = b"\xda\xa3\x20"
MAGIC_SIZE: Final = 4
_PIECE: Final = 1 << 20
_REASONS: Final = {
    MISPLACED: "the record says it lies elsewhere",
    INCOMPLETE: "the record has no end",
    IMPLAUSIBLE: "the record cannot be of this log",
}


class Found(NamedTuple):
    """A record of the log."""

    position: int
    fields: RecordFields


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of the log that holds no records although it should."""

    position: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.end - self.position} bytes at {self.position} are damaged: {self.reason}"


class LogPass:
    """One pass over the log, from a place where a record begins up to `stop` or the end."""

    def __init__(
        self,
        segments: Segments,
        start: int,
        stop: int | None = None,
        *,
        durable: int = 0,
        vouch: "Callable[[Found], bool] | None" = None,
        ends_at_loss: bool = False,
    ) -> None:
        """`durable`: everything before it was on the disk once.

        `vouch` knows records that are of this log, whatever their time. With `ends_at_loss` the
        log ends at the first damage behind what is durable, whatever comes after it.
        """
        self.position = start
        """Behind the last record, or behind the last file that is full."""
        self.damages: list[Damage] = []
        self.last_timestamp = 0
        self._segments = segments
        self._stop = stop
        self._durable = durable
        self._vouch = vouch
        self._ends_at_loss = ends_at_loss

    def _next_segment(self) -> Segment | None:
        """The file to read on in; missing ones are damage."""
        while self._stop is None or self.position < self._stop:
            segment = self._segments.find(self.position)
            if segment is not None:
                return segment
            following = self._segments.after(self.position)
            if following is None or self._is_end:
                return None
            self._skip(following.start, "the file is missing")
        return None

    @property
    def _is_end(self) -> bool:
        """Whether damage at this place is the end of the log."""
        return self._ends_at_loss and self.position >= self._durable

    def _after_blank(self, segment: Segment) -> bool:
        """The rest of the file is blank: go on in the next, False if there is none.

        Without one the log may as well end before the blank record, unless it is known to have
        reached the end of the file: a start that found the next file empty has removed it.
        """
        if self._segments.after(segment.start) is None and segment.end > self._durable:
            return False
        self.position = segment.end
        return True

    def _resume(self, segment: Segment, reason: str) -> bool:
        """Go on behind damage; False if nothing that can be trusted comes any more."""
        if self._is_end:
            return False
        candidate: Segment | None = segment
        start = self.position + 1
        while candidate is not None:
            found = self._next_trusted(candidate, start)
            if found is not None:
                self._skip(found, reason)
                return True
            candidate = self._segments.after(candidate.start)
            start = candidate.start if candidate is not None else 0
        return False

    def _next_trusted(self, segment: Segment, start: int) -> int | None:
        """The first record from a position on that can be trusted."""
        stop = segment.end if self._stop is None else min(segment.end, self._stop)
        for data, end in segment.data_ranges(start, stop):
            # Piece by piece, and a little beyond each: a magic number may lie across.
            for piece in range(data, end, _PIECE):
                limit = min(piece + _PIECE + len(_MAGIC_START) + 4, end)
                found = self._trusted_in(segment, piece, limit)
                if found is not None:
                    return found
        return None

    def has_record(self, segment: Segment, start: int) -> bool:
        """Whether a file has anything from a position on that this pass would trust."""
        return self._next_trusted(segment, start) is not None

    def _trusted_in(self, segment: Segment, start: int, stop: int) -> int | None:
        piece = bytes(segment.slice(start, stop - start))
        view = segment.view
        at = piece.find(_MAGIC_START, 4)
        while at >= 0:
            position = start + at - 4
            if check_record(view, position - segment.start, True, False).is_valid:
                fields = read_record(view, position - segment.start)
                if fields.physical_offset == position and self._is_of_this_log(position, fields):
                    return position
            at = piece.find(_MAGIC_START, at + 1)
        return None

    def _is_of_this_log(self, position: int, fields: RecordFields) -> bool:
        return (
            position < self._durable
            or fields.store_timestamp >= self.last_timestamp
            or (self._vouch is not None and self._vouch(Found(position, fields)))
        )

    def _skip(self, position: int, reason: str) -> None:
        damage = Damage(self.position, position, reason)
        logger.error("%s", damage)
        self.damages.append(damage)
        self.position = position


def magic_numbers(segment: Segment, start: int, stop: int) -> Iterator[int]:
    """Where a part of a file has what records begin with, four bytes behind their start."""
    piece = bytes(segment.slice(start, stop - start)) if start < stop else b""
    at = piece.find(_MAGIC_START)
    while at >= 0:
        yield start + at
        at = piece.find(_MAGIC_START, at + 1)


class LogScan(LogPass):
    """Hands out the records one by one."""

    def __init__(
        self,
        segments: Segments,
        start: int,
        stop: int | None = None,
        *,
        check_crc: bool = True,
        durable: int = 0,
    ) -> None:
        super().__init__(segments, start, stop, durable=durable)
        self._check_crc = check_crc

    def __iter__(self) -> Iterator[Found]:
        segment = self._next_segment()
        while segment is not None:
            at = self.position - segment.start
            check = check_record(segment.view, at, self._check_crc, False)
            reason = ""
            if check.is_valid:
                fields = read_record(segment.view, at)
                if fields.physical_offset == self.position:
                    self.last_timestamp = fields.store_timestamp
                    yield Found(self.position, fields)
                    self.position += fields.size
                else:
                    reason = f"the record says it lies at {fields.physical_offset}"
            elif check.is_blank:
                if not self._after_blank(segment):
                    return
            else:
                reason = RecordStatus(check.status).name
            if reason and not self._resume(segment, reason):
                return
            if reason or self.position >= segment.end:
                segment = self._next_segment()
            elif self._stop is not None and self.position >= self._stop:
                return


class LogReplay(LogPass):
    """Dispatches the records without handing them out."""

    def __init__(
        self,
        segments: Segments,
        start: int,
        stop: int | None,
        replay: Replay,
        *,
        durable: int = 0,
        vouch: Callable[[Found], bool] | None = None,
        ends_at_loss: bool = False,
    ) -> None:
        super().__init__(
            segments, start, stop, durable=durable, vouch=vouch, ends_at_loss=ends_at_loss
        )
        self._replay = replay

    def run(self) -> bool:
        """Up to the stop or the end; False if there was no room for an entry."""
        segment = self._next_segment()
        while segment is not None:
            stop = segment.end if self._stop is None else min(segment.end, self._stop)
            status = self._replay.run(segment.view, segment.start, self.position, stop)
            self.position = self._replay.position
            self.last_timestamp = max(self.last_timestamp, self._replay.last_timestamp)
            if status == NO_ROOM:
                return False
            if status == UNFINISHED:
                return True
            if status == BLANK:
                if not self._after_blank(segment):
                    return True
            elif status != DONE:
                reason = _REASONS.get(status) or RecordStatus(status).name
                if not self._resume(segment, reason):
                    return True
            segment = self._next_segment()
        return True
