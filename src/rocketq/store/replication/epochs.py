"""Who wrote which part of the log: the reigns of its masters.

Each master begins a reign with an epoch of its own, greater than all before it, where the log
ends at that moment. Two logs are equal as far as their newest common reign goes, so the list
tells where a log has to be cut to follow another:

    own        1@0  2@500  3@900    log ends at 1200
    master's   1@0  2@500  4@800    log ends at 2000
                    ^ both have it; it ends at 900 here and at 800 there: cut at 800

RocketMQ's file, `epochFileCheckpoint`, is text:

    2             how many
    773307083     CRC-32 of what follows, without its highest bit; 0: not checked
    7-7000        epoch and position, one to a line
    8-8000

RocketMQ refuses a reign that begins where the one before it did, and goes on under the old
epoch: two masters may then have written different things in one and the same. Here it is kept.
"""

import logging
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rocketq.common.files import backup_of, read_with_backup, write_atomically
from rocketq.common.numbers import parse_int64

logger = logging.getLogger(__name__)

FILE_NAME: Final = "epochFileCheckpoint"
OPEN_END: Final = 2**63 - 1
NO_EPOCH: Final = -1

MOST_SENT: Final = 1_000
"""How many RocketMQ's slaves have room for."""


class Epoch(NamedTuple):
    """One reign: its number, and where it begins in the log."""

    number: int
    start: int


class Epochs:
    """The reigns in a log, oldest first. Every change is on the disk when the call returns."""

    def __init__(self, path: Path | None, entries: Iterable[Epoch] = ()) -> None:
        """Without a path they are kept in memory alone: those of another broker."""
        self._path = path
        self._entries: list[Epoch] = list(entries)
        self._starts = [entry.start for entry in self._entries]

    def load(self) -> None:
        """Read the file; raises `ValueError` if there is one that cannot be read."""
        assert self._path is not None
        found = read_with_backup(self._path, _decode)
        self._entries = found if found is not None else []
        self._starts = [entry.start for entry in self._entries]

    # What there is

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Sequence[Epoch]:
        return tuple(self._entries)

    def newest(self) -> Sequence[Epoch]:
        """As many as a slave can be told."""
        return tuple(self._entries[-MOST_SENT:])

    @property
    def last(self) -> Epoch | None:
        return self._entries[-1] if self._entries else None

    @property
    def last_number(self) -> int:
        """The newest epoch; -1 if there never was one, as RocketMQ tells its controller."""
        return self._entries[-1].number if self._entries else NO_EPOCH

    def at(self, position: int) -> Epoch:
        """In whose reign a position lies; what is older than all reigns counts as the first's."""
        return self._entries[max(bisect_right(self._starts, position) - 1, 0)]

    def end_of(self, entry: Epoch) -> int:
        """Where a reign ends: where the next one begins."""
        following = self._entries.index(entry) + 1
        return self._entries[following].start if following < len(self._entries) else OPEN_END

    def next_start(self, position: int) -> int:
        """Where the first reign behind a position begins."""
        at = bisect_right(self._starts, position)
        return self._starts[at] if at < len(self._starts) else OPEN_END

    def newest_common(self, other: "Epochs") -> Epoch | None:
        """The last reign that is in two logs; None if they have none in common."""
        theirs = set(other._entries)
        return next((entry for entry in reversed(self._entries) if entry in theirs), None)

    def common_end(self, end: int, other: "Epochs", other_end: int) -> int | None:
        """Up to where two logs are the same; None if they have no reign in common."""
        entry = self.newest_common(other)
        if entry is None:
            return None
        return min(self.end_of(entry), end, other.end_of(entry), other_end)

    # Changes

    def begin(self, number: int, start: int) -> None:
        """A reign begins where the log ends; what other reigns said of later parts is wrong."""
        kept = [entry for entry in self._entries if entry.number < number and entry.start <= start]
        # Of many that began in the same place nobody misses those between first and last.
        while len(kept) > 1 and kept[-2].start == start:
            kept.pop()
        self._replace([*kept, Epoch(number, start)])

    def cut_at(self, position: int) -> None:
        """The log ends here now: forget the reigns that began in what is gone, or with it."""
        kept = [entry for entry in self._entries if entry.start < position]
        if len(kept) != len(self._entries):
            self._replace(kept)

    def forget_before(self, position: int) -> None:
        """The log begins here now: forget the reigns of which nothing is left.

        One that began here stays, even if nothing was written in it that is left.
        """
        gone = sum(
            entry.start < position and self.end_of(entry) <= position for entry in self._entries
        )
        if gone:
            self._replace(self._entries[gone:])

    def _replace(self, entries: list[Epoch]) -> None:
        """The file first: where that cannot be written, nothing has changed."""
        if self._path is not None and entries:
            write_atomically(self._path, _encode(entries))
        elif self._path is not None:  # RocketMQ never writes an empty list
            for path in (self._path, backup_of(self._path)):
                path.unlink(missing_ok=True)
        self._entries = entries
        self._starts = [entry.start for entry in entries]


def _encode(entries: Sequence[Epoch]) -> bytes:
    lines = "".join(f"{number}-{start}\n" for number, start in entries).encode()
    return b"%d\n%d\n%s" % (len(entries), zlib.crc32(lines) & 0x7FFFFFFF, lines)


def _decode(data: bytes) -> list[Epoch]:
    count, _, rest = data.partition(b"\n")
    checksum, _, lines = rest.partition(b"\n")
    wanted = parse_int64(checksum.decode("ascii", "replace").strip())
    if wanted is None or (wanted != 0 and wanted != zlib.crc32(lines) & 0x7FFFFFFF):
        raise ValueError("its checksum does not fit")
    entries = []
    for line in lines.decode("ascii", "replace").split():
        number, _, start = line.partition("-")
        parsed = parse_int64(number), parse_int64(start)
        if parsed[0] is None or parsed[1] is None:
            raise ValueError(f"{line!r} is no epoch")
        entries.append(Epoch(parsed[0], parsed[1]))
    if parse_int64(count.decode("ascii", "replace").strip()) != len(entries):
        raise ValueError("it does not have as many epochs as it says")
    if entries != sorted(entries) or [e.start for e in entries] != sorted(e.start for e in entries):
        raise ValueError("its epochs are not in order")
    return entries
