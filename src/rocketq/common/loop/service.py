"""Background loops that live as long as a block of code."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

BackgroundLoop = Callable[[asyncio.Event], Awaitable[None]]
"""Works until the event it is handed is set, then finishes what it has begun and returns."""


@asynccontextmanager
async def running(name: str, loop: BackgroundLoop) -> AsyncIterator[None]:
    """Keep a background loop alive for the length of a block.

    Leaving asks the loop to stop and waits for it. A loop that dies cancels the
    block, so nothing goes on serving above a dead service.
    """
    stop = asyncio.Event()

    async def work() -> None:
        await loop(stop)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work(), name=name)
        try:
            yield
        finally:
            stop.set()


async def asked_to_stop(stop: asyncio.Event, within_s: float) -> bool:
    """Wait for the next round: `True` as soon as `stop` is set, `False` after `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            await stop.wait()
    except TimeoutError:
        return stop.is_set()
    return True


class AsyncLife:
    """What has a start and an end, and can be used with `async with`."""

    async def start(self) -> None:
        raise AssertionError("each has its own")

    async def close(self) -> None:
        raise AssertionError("each has its own")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
