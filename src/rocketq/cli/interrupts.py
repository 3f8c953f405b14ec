"""Ctrl-C, by one rule for every command.

The first one ends what is going on: an asynchronous command is cancelled and cleans up,
another ends where it is. A second one ends the process at once. Neither shows a traceback.

    code 0      servers and `tail`, for which this is the usual end
    code 130    everything else, which was cut short, and a server that was not let to stop
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

CUT_SHORT: Final = 130


def leave_at_once(code: int) -> None:
    """Make Ctrl-C end the process, with what it has printed so far."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: _leave(code))


@contextlib.contextmanager
def first_calls(
    callback: Callable[[], object], *, then_code: int = CUT_SHORT, always: bool = False
) -> Iterator[None]:
    """For the length of a block, the first Ctrl-C calls back, and the next ends the process.

    `always` listens even where a shell has told the process to ignore Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN and not always:
        yield
        return
    asked = False

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            _leave(then_code)
        asked = True
        callback()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raise_keyboard_interrupt() -> None:
    """A callback for blocking code that has something to clean up."""
    raise KeyboardInterrupt


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, RuntimeError, ValueError):
            pass  # closed, or interrupted in the middle of writing
    os._exit(code)
