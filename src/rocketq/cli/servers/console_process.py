"""The console in a process of its own, started by `rocketq up --console`.

It has the same two pipes to its parent as a broker that was started so (see
`broker_processes`). Nothing depends on it: when it ends, the brokers go on.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from rocketq.cli.failures import AlreadyTold, CannotStart
from rocketq.cli.servers.broker_processes import WITH_PARENT
from rocketq.cli.servers.logs import LogOptions

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
    words = [sys.executable, "-m", "rocketq.cli", "console", WITH_PARENT, "-n", name_server]
    words += ["--host", place.host, "--port", str(place.port), "--log-level", logs.level]
    if logs.file is not None:
        words += ["--log-file", str(logs.file.with_stem(f"{logs.file.stem}-console"))]
    words += ["--log-json"] if logs.as_json else []
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    watch = None
    try:
        url = await _ready(process)
        watch = asyncio.create_task(_watch(process))
        yield {"console": url}
    finally:
        if watch is not None:
            watch.cancel()
        await _stop(process)


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


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Its stdin ends, and so does it; what does not is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_WITHIN_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
