"""Things by name, kept in memory and in a file that is written at every change.

What topics and consumer groups have in common: looking up, a version that copies compare, and
a file that follows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from rocketq.broker.tables.data_version import VersionCounter
from rocketq.common.clock import Clock
from rocketq.common.table_file import TableFile
from rocketq.remoting.bodies.registration import DataVersion

T = TypeVar("T")


class Table(ABC, Generic[T]):
    """Changed in the loop only, by the class that is built on it; read by anybody."""

    def __init__(self, path: Path, clock: Clock, entries: dict[str, T]) -> None:
        self._file = TableFile(path, self._encode)
        self._version = VersionCounter(clock)
        self._table = entries

    # Looking

    def get(self, name: str) -> T | None:
        return self._table.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._table))

    def __len__(self) -> int:
        return len(self._table)

    def snapshot(self) -> dict[str, T]:
        return dict(self._table)

    @property
    def data_version(self) -> DataVersion:
        return self._version.value

    # Keeping

    def _changed(self) -> None:
        self._version.advance()
        self._file.save()

    def load(self) -> None:
        """Read the file, or its backup. Raises when there is one that cannot be read."""
        self._file.load(self._decode)

    async def saved(self) -> None:
        """Wait until every change made so far is on the disk."""
        await self._file.saved()

    async def close(self) -> None:
        await self._file.close()

    @abstractmethod
    def _encode(self) -> Callable[[], Iterator[bytes]]:
        """What makes the file's content from a copy of the table, piece by piece, in a thread."""

    @abstractmethod
    def _decode(self, data: bytes) -> None:
        """Take over what a file says."""
