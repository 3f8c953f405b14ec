"""The console in a process of its own, started by `rocketq up --console`.

Nothing depends on it: when it ends, the brokers go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from rocketq.cli.failures import AlreadyTold, CannotStart
from rocketq.cli.servers.logs import LogOptions
from rocketq.cli.servers.up.processes import start_process, stop_process

logger = logging.getLogger(__name__)

_READY_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 10.0


class ConsolePlace(NamedTuple):
    """Where the console is wanted; port 0 is any free one."""

    host: str
    port: int


@asynccontextmanager
async def console_beside(
    place: ConsolePlace | None, name_server: str, logs: LogOptions
) -> AsyncIterator[dict[str, str]]:
    """Run it for the length of a block: `console` and its URL; nothing where it is not wanted."""
    if place is None:
        yield {}
        return
    words = ["console", "-n", name_server, "--host", place.host, "--port", str(place.port)]
    process = await start_process(words, logs, "console")
    watch = None
    try:
        url = await _ready(process)
        watch = asyncio.create_task(_watch(process))
        yield {"console": url}
    finally:
        if watch is not None:
            watch.cancel()
        await stop_process(process, _STOP_WITHIN_S)


async def _ready(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_READY_WITHIN_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        raise CannotStart("the console did not start") from None
    if not line:
        raise AlreadyTold  # on our stderr, which is its own, too
    return dict(word.split("=", 1) for word in line.split()[1:])["console"]


async def _watch(process: asyncio.subprocess.Process) -> None:
    code = await process.wait()
    logger.warning("the console (pid %d) ended with %d; the brokers go on", process.pid, code)


def ports_of(place: ConsolePlace | None) -> list[int]:
    return [] if place is None else [place.port]
