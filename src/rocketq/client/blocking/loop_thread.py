"""The event loop behind the blocking SDK: one daemon thread for the whole process.

Blocking clients are thin faces over their asyncio twins. All of them share this loop, so a
process with a hundred consumers has one more thread, not hundreds, and it works the same in
scripts, notebooks (whose own loop is busy) and thread pools.

    caller's thread                     loop thread
    producer.send(m) ── coroutine ──▶   aio producer sends, awaits the answer
         waits       ◀── result ────    done

At interpreter exit everything still open is closed in order and the loop ends, silently. A
forked child finds the thread gone: every use there says so clearly.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from rocketq.client.errors import ClientClosed, ForkedClient, InvalidState

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CLOSE_WITHIN_S: Final = 10.0


class Closeable(Protocol):
    """Anything with a blocking `close()`."""

    def close(self) -> None: ...


class LoopThread:
    """Runs coroutines for threads that have no loop. Any thread may call it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop: Final = _new_loop()
        self._open: set[Closeable] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="rocketq-loop", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself."""
        return self._loop

    @property
    def is_usable(self) -> bool:
        """Whether it still runs, in this process."""
        return not self._closed and self._pid == os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on the loop's own thread."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, T], *, what: str = "this client") -> T:
        """Run a coroutine on the loop and wait for what it returns or raises."""
        future = self.submit(coroutine, what=what)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the waiting thread: what was asked for is called off, too.
            future.cancel()
            raise

    def submit(
        self, coroutine: Coroutine[Any, Any, T], *, what: str = "this client"
    ) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop and do not wait."""
        try:
            self.check(what)
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, function: Callable[[], T], *, what: str = "this client") -> T:
        """Call a plain function on the loop's thread and wait for it."""
        if self.is_current:
            return function()
        self.check(what)
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(work, context=contextvars.copy_context())
        return future.result()

    def check(self, what: str) -> None:
        """Refuse where waiting could never end."""
        if self._pid != os.getpid():
            raise ForkedClient(what)
        if self._closed:
            raise ClientClosed(what)
        if self.is_current:
            raise InvalidState(
                f"{what} blocks, and was called from an async listener or callback on its own "
                "loop: use rocketq.aio there, or make the listener a plain function"
            )

    def closes_at_exit(self, client: Closeable) -> None:
        """Close this client, if nobody has by then, before the loop ends."""
        self._open.add(client)

    def is_closed(self, client: Closeable) -> None:
        """This client needs nothing more."""
        self._open.discard(client)

    def close(self) -> None:
        """Close every client still open, then the loop. Called at interpreter exit."""
        if self._closed or self._pid != os.getpid():
            return
        for client in list(self._open):
            try:
                client.close()
            except Exception as error:
                logger.warning("closing %r at exit: %s", client, error)
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_WITHIN_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._closed:
                self._serve_on()
        finally:
            leftovers = asyncio.all_tasks(self._loop)
            for task in leftovers:
                task.cancel()
            if leftovers:
                self._loop.run_until_complete(asyncio.wait(leftovers, timeout=1.0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _serve_on(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException:
            # A SystemExit in somebody's coroutine would end the loop of all blocking clients.
            logger.exception("what was raised on the loop of the blocking clients stays there")


_shared: LoopThread | None = None
_shared_lock = threading.Lock()


def loop_thread() -> LoopThread:
    """The process's loop thread, started when first needed (again after a fork)."""
    global _shared
    with _shared_lock:
        if _shared is None or not _shared.is_usable:
            _shared = LoopThread()
        return _shared


def _close_shared() -> None:
    if _shared is not None:
        _shared.close()


def _forget_after_fork() -> None:
    """The child has neither the thread nor, maybe, a lock that is free."""
    global _shared, _shared_lock
    _shared = None
    _shared_lock = threading.Lock()


# Before the interpreter ends the thread pools (which concurrent.futures, imported above,
# registered earlier, and this list runs backwards): consumers closed here may still finish
# what their blocking listeners have begun.
_register_exit: Callable[[Callable[[], None]], object] = getattr(
    threading, "_register_atexit", atexit.register
)
_register_exit(_close_shared)
os.register_at_fork(after_in_child=_forget_after_fork)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on uvloop where there is one."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main)
