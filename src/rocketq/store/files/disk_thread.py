"""A thread that waits for the disk, so that the event loop need not."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class DiskThread:
    """A thread of its own to wait for the disk: others may be waiting for slow disks too.

    A pool would do, but with SYNC_FLUSH the way there and back is gone thousands of times a
    second, and a pool's way is several times as long.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[T], None], what: T) -> asyncio.Future[None]:
        """Have it done; the future gets what it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

        def do() -> None:
            error: BaseException | None = None
            try:
                work(what)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_resolve, future, error)
            except RuntimeError:
                pass  # the loop is closed, and nobody waits any more

        self._work.put(do)
        return future

    async def stop(self) -> None:
        """End it, after what it was given."""
        if self._thread is not None:
            self._work.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _resolve(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
