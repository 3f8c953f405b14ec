"""How long the steps of an event loop take: while a step runs, everybody else waits.

Measured in time of the processor, which does not depend on what else the machine does.
"""

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final

import pytest

WORST_STEP_S: Final = 0.05
# What the host takes from a virtual processor counts as ours now and then: a step that is
# really long is long each time.
ATTEMPTS: Final = 3
# Sources that are not compiled take several times as long, and nobody runs a server on them.
PURE_FACTOR: Final = 8


class Steps:
    """The longest step of one thread's event loop, and where it was."""

    def __init__(self) -> None:
        self.is_measuring = False
        self.worst_s = 0.0
        self.where = ""
        self._is_over = threading.Event()
        self._began_s = 0.0
        self._seen = ""

    @property
    def are_short(self) -> bool:
        """Whether no step was so long that others would have noticed."""
        factor = PURE_FACTOR if os.environ.get("ROCKETQ_PURE") == "1" else 1
        return self.worst_s < WORST_STEP_S * factor

    def __str__(self) -> str:
        return f"{self.worst_s * 1000:.0f} ms: {self.where}"

    def watch(self, thread: threading.Thread) -> None:
        """Look now and then what the thread is doing, to say where a long step was."""
        while not self._is_over.wait(0.01):
            began_s = self._began_s
            frame = sys._current_frames().get(thread.ident or 0)
            if began_s and time.perf_counter() - began_s > 0.02 and frame is not None:
                self._seen = "".join(traceback.format_stack(frame)[-4:])

    def stop(self) -> None:
        self._is_over.set()

    def run(self, step: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        self._seen = ""
        self._began_s = time.perf_counter()
        began_s = time.thread_time()
        step(handle)
        took_s = time.thread_time() - began_s
        self._began_s = 0.0
        if self.is_measuring and took_s > self.worst_s:
            self.worst_s, self.where = took_s, self._seen or repr(handle)[:300]


@contextmanager
def measured_steps(thread: threading.Thread, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """The steps of a thread's loop, from now on; the thread may start later."""
    steps = Steps()
    # A test's process has far more objects than a server's; looking through all of them now and
    # then is not the server's doing.
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    run_handle = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        if threading.current_thread() is thread:
            steps.run(run_handle, handle)
        else:
            run_handle(handle)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    watcher = threading.Thread(target=steps.watch, args=(thread,))
    watcher.start()
    try:
        yield steps
    finally:
        steps.stop()
        watcher.join()
        monkeypatch.setattr(asyncio.Handle, "_run", run_handle)
        gc.unfreeze()
        gc.set_threshold(*thresholds)


@contextmanager
def measured_server(
    serving: Callable[[], AbstractAsyncContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Steps]]:
    """A server in a thread: its address, and what its steps take."""
    started: list[str] = []
    ready = threading.Event()
    stop: list[Any] = []

    async def serve() -> None:
        ended = asyncio.Event()
        async with serving() as address:
            stop.extend([asyncio.get_running_loop(), ended])
            started.append(address)
            ready.set()
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    with measured_steps(thread, monkeypatch) as steps:
        thread.start()
        ready.wait(60)
        assert started, "the server did not start"
        try:
            yield started[0], steps
        finally:
            stop[0].call_soon_threadsafe(stop[1].set)
            thread.join(60)
