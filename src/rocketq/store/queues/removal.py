"""Queues of deleted topics, on their way out.

    <root>/deleted/<number>/        what was consumequeue/<topic>

A topic may have tens of thousands of queues, each of them a folder with files, and one of the
same name may be made in the next moment. So its folder is moved here with one call. What the
queues hold in memory is let go of a few at a time, and a thread empties the folder. What a stop
or a crash leaves here is removed after the next start. RocketMQ does not look here.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from rocketq.common.loop.service import asked_to_stop
from rocketq.common.loop.slices import Slices, in_slices
from rocketq.store.files.disk import Disk
from rocketq.store.queues.consume_queue import ConsumeQueue

logger = logging.getLogger(__name__)

FOLDER_NAME: Final = "deleted"
_LOOK_S: Final = 1.0
# To let go of a queue and of its mapped files takes some ten microseconds.
_QUEUES_A_SLICE: Final = 100


class Removal:
    """Owned by the store; folders are moved on the event loop and emptied in a thread."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._folder = root / FOLDER_NAME
        self._disk = disk
        self._queues: list[ConsumeQueue] = []
        self._moved: list[Path] = []
        self._count = 0

    def load(self) -> None:
        """Find what an earlier run has left."""
        if self._folder.is_dir():
            self._moved = list(self._folder.iterdir())
            numbers = [int(path.name) for path in self._moved if path.name.isdecimal()]
            self._count = max(numbers, default=0)

    def take(self, folder: Path, queues: list[ConsumeQueue]) -> None:
        """Make room for a topic of the same name; `queues` are those of this one that are open."""
        self._queues += queues
        goal = self._folder / str(self._count + 1)
        try:
            if not self._disk.move_folder(folder, goal):
                return  # no queue ever had an entry
        except OSError as error:
            logger.warning("%s cannot be moved, its files are removed at once: %s", folder, error)
            self._disk.remove_folder(folder)
            return
        self._count += 1
        self._moved.append(goal)

    async def run(self, stop: asyncio.Event) -> None:
        while not await asked_to_stop(stop, _LOOK_S):
            await self.clear(stop)

    async def clear(self, stop: asyncio.Event) -> None:
        """Remove all there is, or until it is time to stop."""
        await in_slices(self._let_go())
        while self._moved and not stop.is_set():
            folder = self._moved.pop()
            try:
                await asyncio.to_thread(self._disk.remove_folder, folder, stop.is_set)
            except OSError as error:
                logger.error("%s is left for the next start: %s", folder, error)

    def _let_go(self) -> Slices[None]:
        while self._queues:
            for queue in self._queues[-_QUEUES_A_SLICE:]:
                queue.retire()
            del self._queues[-_QUEUES_A_SLICE:]
            yield

    def close(self) -> None:
        """Let go of what is held in memory."""
        while self._queues:
            self._queues.pop().retire()
