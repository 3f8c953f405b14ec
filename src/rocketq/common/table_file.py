"""A table that is kept in a file: written soon after a change, without holding up the loop.

The table is copied in the loop, between two changes; encoding a large one, writing and
syncing happen in a thread. However many changes come while a write is under way, they cost
one more write. Whoever must not answer before a change is safe waits for `saved`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from rocketq.common.files import read_with_backup, write_atomically

logger = logging.getLogger(__name__)

# Tables grow to tens of thousands of entries, and changes come in bursts: between two writes
# others get their turn, and the disk too.
_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


Content = bytes | Iterable[bytes]
"""At once or, of a large table, in pieces."""


class TableFile:
    """One file of `store/config`, and when it was last in step with its table."""

    def __init__(self, path: Path, encode: Callable[[], bytes | Callable[[], Content]]) -> None:
        """`encode` gives the content, or a function that makes it from a copy, in a thread."""
        self.after: Callable[[], Awaitable[bool]] | None = None
        """What has to be on the disk before a copy is written that speaks of it; False: it does
        not get there, and nothing is written."""
        self._path = path
        self._encode = encode
        self._is_stale = False
        self._writer: asyncio.Task[None] | None = None

    def load(self, decode: Callable[[bytes], None]) -> None:
        """Read the file, or its backup. Raises when there is one that cannot be read."""
        read_with_backup(self._path, decode)

    @property
    def is_stale(self) -> bool:
        """Whether the table has changed since it was last written."""
        return self._is_stale

    def touch(self) -> None:
        """Note a change that may wait for the next `save`."""
        self._is_stale = True

    def save(self) -> None:
        """Note a change, or changes noted before, and have the table written now."""
        self._is_stale = True
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    def save_if_stale(self) -> None:
        if self._is_stale:
            self.save()

    async def saved(self) -> None:
        """Wait until every change made so far is on the disk."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def close(self) -> None:
        """Write what has changed, and wait for it."""
        self.save_if_stale()
        await self.saved()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._is_stale:
                self._is_stale = False
                began = loop.time()
                content = self._encode()
                if self.after is not None and not await self.after():
                    self._is_stale = True
                    return
                try:
                    await asyncio.to_thread(self._write_content, content)
                except OSError:
                    # A full disk must not stop a broker that can still serve its readers; the
                    # next change, or the end, tries again.
                    logger.exception("%s could not be written", self._path)
                    self._is_stale = True
                    return
                if self._is_stale:
                    took = loop.time() - began
                    await asyncio.sleep(min(max(_PAUSE_S, 3 * took), _LONGEST_PAUSE_S))
        finally:
            self._writer = None

    def _write_content(self, content: bytes | Callable[[], Content]) -> None:
        write_atomically(self._path, content if isinstance(content, bytes) else content())
