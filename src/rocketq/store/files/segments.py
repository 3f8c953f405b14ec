"""A row of equal files that together hold one endless sequence of bytes.

    <folder>/00000000000000000000
    <folder>/00000000001073741824      named by the position of the first byte

Old files are deleted at the front, new ones added at the end. The files may be spread over
several folders. RocketMQ refuses to start when it finds anything else among them, so nothing
else is ever put there.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from rocketq.store.errors import StoreMismatch
from rocketq.store.files.disk import Disk
from rocketq.store.files.segment import Segment

logger = logging.getLogger(__name__)


def file_name(start: int) -> str:
    """The name of the file that begins at this position."""
    return f"{start:020d}"


class Segments:
    """Owned by one commit log or consume queue."""

    def __init__(
        self, folders: Sequence[Path], file_size: int, disk: Disk, *, reserve: bool
    ) -> None:
        """`reserve`: set the blocks of a new file aside when it is made."""
        self.file_size = file_size
        self._folders = list(folders)
        self._disk = disk
        self._reserve = reserve
        self._segments: list[Segment] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def first(self) -> Segment | None:
        return self._segments[0] if self._segments else None

    @property
    def last(self) -> Segment | None:
        return self._segments[-1] if self._segments else None

    def load(self, *, remove_empty: bool = True) -> None:
        """Look at the folders; nothing is opened yet.

        An empty last file is one whose making was interrupted: it is removed. Any other file
        of another size, or without a number for a name, is refused.
        """
        found = []
        for folder in self._folders:
            if folder.is_dir():
                found += [path for path in folder.iterdir() if not path.is_dir()]
        found.sort(key=lambda path: path.name)
        if found and found[-1].stat().st_size == 0:
            empty = found.pop()
            if remove_empty:
                logger.warning("%s is empty, its making was interrupted: removed", empty)
                self._disk.remove(empty)
        self._segments = []
        self._starts = []
        for path in found:
            size = path.stat().st_size
            if size != self.file_size:
                raise StoreMismatch(
                    f"{path} has {size} bytes; files of {self.file_size} bytes are configured"
                )
            if not path.name.isdigit():
                raise StoreMismatch(f"{path} does not belong among files named by numbers")
            self._add(Segment(path, int(path.name), size, self._disk))
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            if after.start != before.end:
                logger.warning("nothing lies between %s and %s", before.path, after.path)

    def find(self, offset: int) -> Segment | None:
        """The file that holds a position."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        segment = self._segments[index]
        return segment if offset < segment.end else None

    def after(self, offset: int) -> Segment | None:
        """The first file that begins behind a position."""
        index = bisect_right(self._starts, offset)
        return self._segments[index] if index < len(self._segments) else None

    def create(self, start: int, folder: Path | None = None) -> Segment:
        """Add the file that begins at this position; it must be the next one."""
        assert start % self.file_size == 0, start
        assert not self._starts or start > self._starts[-1], (start, self._starts[-1])
        path = (folder or self._folders[0]) / file_name(start)
        self._disk.create(path, self.file_size, reserve=self._reserve)
        segment = Segment(path, start, self.file_size, self._disk)
        self._add(segment)
        return segment

    def adopt(self, segment: Segment) -> None:
        """Add a file that was made ahead of time."""
        assert not self._starts or segment.start > self._starts[-1]
        self._add(segment)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._starts.append(segment.start)

    def take_first(self) -> Segment:
        """Give up the oldest file; the caller removes it."""
        self._starts.pop(0)
        return self._segments.pop(0)

    def remove_first(self) -> None:
        self.take_first().remove()

    def remove_last(self) -> None:
        segment = self._segments.pop()
        self._starts.pop()
        segment.remove()

    def remove_all(self) -> None:
        while self._segments:
            self.remove_last()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
