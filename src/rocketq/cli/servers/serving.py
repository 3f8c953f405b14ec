"""Servers in the foreground: start, say so, wait for a signal, stop."""

import asyncio
import errno
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from rocketq.cli.failures import AlreadyTold, CannotStart, fail
from rocketq.cli.interrupts import CUT_SHORT, first_calls
from rocketq.common.errors import RocketqError

logger = logging.getLogger(__name__)

_WILDCARDS = ("0.0.0.0", "::", "")


class Ending(Protocol):
    """What can end by itself."""

    async def stopped(self) -> None: ...


class Service(Ending, Protocol):
    """A NameServer or a broker."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@asynccontextmanager
async def started(service: Service) -> AsyncIterator[None]:
    """Run a service for the length of a block."""
    await service.start()
    try:
        yield
    finally:
        await service.stop()


async def wait_for_either(stop: asyncio.Event, *services: Ending) -> None:
    """Wait until somebody asks to stop, or a service ends by itself; raises why it did."""
    ends = [asyncio.ensure_future(each.stopped()) for each in services]
    asked = asyncio.ensure_future(stop.wait())
    try:
        done, _ = await asyncio.wait((asked, *ends), return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in (asked, *ends):
            each.cancel()


def run_async(
    main: Callable[[], Coroutine[Any, Any, None]], *, second_code: int = CUT_SHORT
) -> None:
    """Run an asynchronous program, on uvloop where it is installed.

    Ctrl-C cancels it, and raises KeyboardInterrupt here once it has cleaned up.
    """
    cancelled = False

    async def cancellable() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            loop.call_soon_threadsafe(task.cancel)

        with first_calls(cancel, then_code=second_code):
            await main()

    try:
        with _runner() as runner:
            runner.run(cancellable())
    except asyncio.CancelledError:
        if cancelled:
            raise KeyboardInterrupt from None
        raise


def _runner() -> asyncio.Runner:
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    return asyncio.Runner(loop_factory=factory)


def serve(program: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run servers until SIGTERM or Ctrl-C; what keeps them from starting ends in code 1.

    The program waits for the event it is handed once its servers are up. Whoever asks twice
    does not want to wait: a second signal ends the process.
    """

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def terminated() -> None:
            loop.remove_signal_handler(signal.SIGTERM)  # the next one is the system's
            ask("SIGTERM")

        def ask(name: str) -> None:
            logger.info("%s: stopping", name)
            stop.set()

        def interrupted() -> None:
            loop.call_soon_threadsafe(ask, "SIGINT")

        loop.add_signal_handler(signal.SIGTERM, terminated)
        with first_calls(interrupted, always=True):
            await program(stop)

    _allow_many_files()
    try:
        with _runner() as runner:
            runner.run(main())
    except AlreadyTold:
        raise SystemExit(1) from None
    except (CannotStart, RocketqError, OSError) as error:
        fail(error)
    except BaseExceptionGroup as group:
        # Services run in task groups; the first thing that went wrong is what to say.
        known, unforeseen = group.split((CannotStart, RocketqError, OSError))
        if known is None or unforeseen is not None:
            raise
        fail(_first(known))


def _allow_many_files() -> None:
    """Connections and queue files take descriptors; shells allow few until they are asked."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def check_ports_free(host: str, ports: Iterable[int]) -> None:
    """Refuse ports that somebody listens on, before anything else is done."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        if port <= 0:
            continue
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise CannotStart(_why_not(host, port, error)) from None


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use on {host}; choose another one, or 0 for any free one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; ports from 1024 on are free for everyone"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def reachable_host(host: str, own_address: Callable[[], str]) -> str:
    """The address to give to others for one that is listened on."""
    return own_address() if host in _WILDCARDS else host
