"""Where the present life of a topic begins in the log.

Deleting a topic leaves its messages in the log, and the numbers of a topic that is made again
start at 0 once more. Whoever reads the log has to know which records are of the earlier life:
those that lie before the place where the log ended when the topic was deleted.

    <root>/topicBeginnings       a line for each deletion, added at the end
    <root>/topicBeginnings.bak   the same once more, in case one of the two is damaged

    ["orders",4711] 1d3a90f2     the topic, the position, CRC-32 of what is before the blank

A topic that was never deleted has no line; of several the last position counts. A line is
needed no longer once the log begins behind its position, and left out at the next start.

Positions are those of the log, so the same lines are right for every copy of it. RocketMQ knows
nothing of these files and leaves them alone.
"""

import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from rocketq.common.files import backup_of, write_atomically
from rocketq.store.files.disk import Disk

logger = logging.getLogger(__name__)

FILE_NAME: Final = "topicBeginnings"


def read_beginnings(root: Path) -> dict[str, int]:
    """Topic -> position, from whichever lines of the two files are whole."""
    positions: dict[str, int] = {}
    for path in _paths(root):
        for topic, position in _decode(_read(path)):
            positions[topic] = max(position, positions.get(topic, 0))
    return positions


class Beginnings:
    """Owned by the store; touched on the event loop alone, but for `sync`."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.by_name: dict[bytes, int] = {}
        """The same as `marks`, by the topic's name as records hold it."""
        self._root = root
        self._disk = disk
        self._positions: dict[str, int] = {}
        self._descriptors: list[int] = []
        self._size = 0
        self._version = 0
        self._synced = 0

    # Opening and closing

    def load(self, log_min: int) -> None:
        """Read what there is; lines that are damaged or needed no longer are left out."""
        self._positions = {
            topic: position
            for topic, position in read_beginnings(self._root).items()
            if position > log_min
        }
        self.by_name = {topic.encode(): at for topic, at in self._positions.items()}
        content = b"".join(_encode(topic, at) for topic, at in self._positions.items())
        for path in _paths(self._root):
            if _read(path) != content:
                write_atomically(path, content, keep_backup=False)
        self._size = len(content)

    def close(self) -> None:
        for descriptor in self._descriptors:
            self._disk.close(descriptor)
        self._descriptors.clear()

    # What is known

    def get(self, topic: str) -> int:
        """Records of a topic before this position are of an earlier life; 0 if there was none."""
        return self._positions.get(topic, 0)

    def marks(self) -> dict[str, int]:
        """All of them, for a copy of the log."""
        return dict(self._positions)

    def __contains__(self, topic: str) -> bool:
        return topic in self._positions

    # What is new

    def begin(self, topic: str, position: int) -> bool:
        """Let a topic begin here; False if it is known to begin here or later.

        Written at once, so that it survives the process. `sync` makes it survive the machine.
        """
        if position <= self._positions.get(topic, 0):
            return False
        line = _encode(topic, position)
        for descriptor in self._open():
            self._disk.write(descriptor, line, self._size)
        self._size += len(line)
        self._positions[topic] = position
        self.by_name[topic.encode()] = position
        self._version += 1
        return True

    def _open(self) -> list[int]:
        while len(self._descriptors) < 2:
            path = list(_paths(self._root))[len(self._descriptors)]
            if not path.exists():
                self._disk.create(path, 0, reserve=False)
            self._descriptors.append(self._disk.open(path))
        return self._descriptors

    def forget_before(self, log_min: int) -> None:
        """The log begins here now: what happened before needs no thought any more."""
        for topic in [name for name, at in self._positions.items() if at <= log_min]:
            del self._positions[topic]
            del self.by_name[topic.encode()]

    # Durability

    @property
    def is_synced(self) -> bool:
        return self._synced == self._version

    def sync(self) -> None:
        """Wait for the disk. May run in another thread."""
        version = self._version
        for descriptor in list(self._descriptors):
            self._disk.sync(descriptor)
        self._disk.sync_folder(self._root)
        self._synced = max(self._synced, version)


def _paths(root: Path) -> Iterator[Path]:
    yield root / FILE_NAME
    yield backup_of(root / FILE_NAME)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _encode(topic: str, position: int) -> bytes:
    data = orjson.dumps([topic, position])
    return b"%b %08x\n" % (data, zlib.crc32(data))


def _decode(content: bytes) -> Iterator[tuple[str, int]]:
    for line in content.split(b"\n"):
        data, _, checksum = line.rpartition(b" ")
        if checksum == b"%08x" % zlib.crc32(data) and data:
            topic, position = orjson.loads(data)
            yield topic, position
        elif line:
            logger.warning("a line of %s is damaged", FILE_NAME)
