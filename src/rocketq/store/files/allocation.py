"""The next file of the log, made while the current one is still being filled.

Making a file of 1 GiB means reserving its blocks, making its name durable and perhaps warming
it up. All of that happens in a thread, so that going on to the next file costs an append
nothing. A file that was prepared and not used is removed when the store closes; after a crash
recovery removes it, as RocketMQ does.
"""

import logging
from concurrent.futures import Executor, Future
from pathlib import Path

from rocketq.store.files.disk import Disk
from rocketq.store.files.segment import Segment

logger = logging.getLogger(__name__)


class FileAllocation:
    """Asked by the commit log on the event loop; works in a thread of its own."""

    def __init__(self, disk: Disk, file_size: int, warm: bool) -> None:
        self._disk = disk
        self._file_size = file_size
        self._warm = warm
        self._start = -1
        self._path: Path | None = None
        self._future: Future[None] | None = None
        self._thread: Executor | None = None

    def prepare(self, path: Path, start: int) -> None:
        """Begin making the file that starts at this position, unless that has begun."""
        if start == self._start:
            return
        self.discard()
        if self._thread is None:
            self._thread = self._disk.executor("allocation")
        self._start = start
        self._path = path
        self._future = self._thread.submit(self._make, path)

    def _make(self, path: Path) -> None:
        self._disk.create(path, self._file_size, reserve=True)
        try:
            if self._warm:
                self._warm_up(path)
            self._disk.sync_folder(path.parent)
        except BaseException:
            self._disk.remove(path)  # the next try begins with a file that does not exist
            raise

    def _warm_up(self, path: Path) -> None:
        descriptor = self._disk.open(path)
        try:
            self._disk.write_zeros(descriptor, 0, self._file_size)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def take(self, start: int) -> Segment | None:
        """The prepared file, if it is the wanted one. Waits for one that is being made."""
        if self._future is None or self._path is None or start != self._start:
            return None
        future, path = self._future, self._path
        self._future = self._path = None
        self._start = -1
        try:
            future.result()
        except FileExistsError:
            return None  # not made here; whoever wants it has to see what it is
        return Segment(path, start, self._file_size, self._disk)

    def discard(self) -> None:
        """Remove what was prepared and not used."""
        if self._future is not None and self._path is not None:
            try:
                self._future.result()
            except OSError as error:
                logger.info("%s could not be made ahead of time: %s", self._path, error)
            self._disk.remove(self._path)
        self._future = self._path = None
        self._start = -1
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
