"""Waiting for what comes about by itself, in other tasks, threads or processes.

Patience is long because machines are busy; nobody waits longer than it takes.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

T = TypeVar("T")

PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.002


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], what: str = "", *, within_s: float = PATIENCE_S
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T], what: str = "", *, within_s: float = PATIENCE_S
) -> T: ...


async def eventually(
    condition: Callable[[], object], what: str = "", *, within_s: float = PATIENCE_S
) -> object:
    """Wait until a condition, plain or async, is true, and return what it said."""
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        assert time.monotonic() < deadline, f"waited {within_s} s in vain for {what or condition}"
        await asyncio.sleep(_PAUSE_S)


async def patiently(ask: Callable[[], Awaitable[T]], *errors: type[Exception]) -> T:
    """Ask again while it fails with one of these errors."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except errors:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_PAUSE_S)


def wait_until(condition: Callable[[], T], what: str = "", *, within_s: float = 60.0) -> T:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {within_s} s in vain for {what or condition}"
        time.sleep(_PAUSE_S)
    return result
