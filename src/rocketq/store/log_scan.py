"""Reading the log from front to back: what recovery, check, dump and late dispatch do.

A scan goes from record to record. What is no record is either the end of the log or damage in
the middle of it. It is damage if a record is found further on that can be trusted:

    - its checksums are right,
    - it says itself that it lies where it was found, and
    - it is not older than the last record before the damage.

The last condition leaves out what was cut off once and never overwritten: such records are
whole and know their place, but they are older than what was written in front of them since.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketq.message.record import (
    InvalidRecord,
    RecordFields,
    RecordStatus,
    check_record,
    read_record,
)
from rocketq.store.segment import Segment
from rocketq.store.segments import Segments

logger = logging.getLogger(__name__)

_MAGIC_START: Final = b"\xda\xa3\x20"


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


class LogScan:
    """One pass over the log. Iterate, then see where it ended and what was wrong."""

    def __init__(
        self,
        segments: Segments,
        start: int,
        stop: int | None = None,
        *,
        check_crc: bool = True,
        require_property_crc: bool = False,
    ) -> None:
        """From `start`, which must be where a record begins, up to `stop` or the end."""
        self.position = start
        """Behind the last record, or behind the last file that is full."""
        self.damages: list[Damage] = []
        self.last_timestamp = 0
        self._segments = segments
        self._stop = stop
        self._check_crc = check_crc
        self._require_property_crc = require_property_crc

    def __iter__(self) -> Iterator[Found]:
        while True:
            if self._stop is not None and self.position >= self._stop:
                return
            segment = self._segments.find(self.position)
            if segment is None:
                following = self._segments.after(self.position)
                if following is None or self.position < self._segments[0].start:
                    return
                self._skip(following.start, "the file is missing")
                continue
            yield from self._scan_segment(segment)
            if self.position < segment.end:
                return

    def _scan_segment(self, segment: Segment) -> Iterator[Found]:
        """Records of one file; afterwards the position is its end, or the end of the log."""
        view = segment.view
        while self.position < segment.end:
            if self._stop is not None and self.position >= self._stop:
                return
            at = self.position - segment.start
            check = check_record(view, at, self._check_crc, self._require_property_crc)
            if check.is_valid:
                fields = read_record(view, at)
                if fields.physical_offset == self.position:
                    self.last_timestamp = fields.store_timestamp
                    yield Found(self.position, fields)
                    self.position += fields.size
                    continue
                reason = f"the record says it lies at {fields.physical_offset}"
            elif check.is_blank:
                if self._segments.find(segment.end) is None and (
                    self._segments.after(self.position) is None
                ):
                    return  # the log may as well end before it
                self.position = segment.end
                return
            else:
                reason = RecordStatus(check.status).name
            if not self._resume(segment, reason):
                return

    def _resume(self, segment: Segment, reason: str) -> bool:
        """Go on behind damage; False if nothing comes any more."""
        candidate: Segment | None = segment
        start = self.position + 1
        while candidate is not None:
            found = self._next_trusted(candidate, start)
            if found is not None:
                self._skip(found, reason)
                return found < segment.end
            candidate = self._segments.after(candidate.start)
            start = candidate.start if candidate is not None else 0
        return False

    def _next_trusted(self, segment: Segment, start: int) -> int | None:
        mapping = segment.mapping
        view = segment.view
        at = start - segment.start
        if self._stop is not None:
            limit = min(segment.size, self._stop - segment.start)
        else:
            limit = segment.size
        while at < limit:
            magic_at = mapping.find(_MAGIC_START, at + 4, limit)
            if magic_at < 0:
                return None
            at = magic_at - 4
            if check_record(view, at, True, False).is_valid:
                try:
                    fields = read_record(view, at)
                except InvalidRecord:
                    fields = None
                if (
                    fields is not None
                    and fields.physical_offset == segment.start + at
                    and fields.store_timestamp >= self.last_timestamp
                ):
                    return segment.start + at
            at += 1
        return None

    def _skip(self, position: int, reason: str) -> None:
        damage = Damage(self.position, position, reason)
        logger.error("%s", damage)
        self.damages.append(damage)
        self.position = position
