"""An event loop whose time is simulated.

Time stands still while anything is to be done, and jumps to the next timer when nothing is. No
thread is used: what would wait in one is done in the loop, after a while that chance decides.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from simulation.process import Process, TimerCell, current

if TYPE_CHECKING:
    from simulation.network import Network, SimulatedServer


_TURN_S: Final = 0.000_001


class NothingLeft(Exception):
    """Everybody waits, and for nothing that will ever come."""


class _Clockwork:
    """Stands where other loops wait for sockets: lets the time pass instead."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft
        self._loop.pass_time(timeout)
        return []

    def close(self) -> None:
        pass


class SimulatedLoop(asyncio.BaseEventLoop):
    """One source of time and order for a whole cluster."""

    network: "Network"

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._now = 0.0
        self._selector = _Clockwork(self)
        self.steps = 0
        """Callbacks handed to the loop so far: equal runs have equal counts."""
        self.set_task_factory(_make_task)

    # Time

    def time(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        # A turn of the loop takes a moment, too: whoever tries again and again gets on in time.
        self._now += seconds + _TURN_S

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # Whose callback it is

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self.steps += 1
        process = current.get() if context is None else context.get(current)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(process.run, callback, args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.steps += 1
        process = current.get() if context is None else context.get(current)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        cell = TimerCell()
        handle = super().call_at(when, process.run_timer, cell, callback, args, context=context)
        cell.handle = handle
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    # Threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do it in a moment. Whoever dies before that has not done it."""
        future = self.create_future()
        self.call_later(self._chance.expovariate(2_000), _do, future, func, args)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    # Network

    async def getaddrinfo(self, host: Any, port: Any, **how: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port or 0))]

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **how: Any
    ) -> tuple[Any, Any]:
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **how: Any
    ) -> "SimulatedServer":
        return self.network.listen(protocol_factory, port)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    _count = 0

    def __init__(self, coroutine: Any, **how: Any) -> None:
        _Task._count += 1
        self._number = _Task._count
        super().__init__(coroutine, **how)

    def __hash__(self) -> int:
        return self._number


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
    task = _Task(coroutine, loop=loop, **how)
    context = how.get("context")
    process: Process | None = current.get() if context is None else context.get(current)
    if process is not None:
        process.keep(task)
    return task


def _do(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except BaseException as error:
        if not future.cancelled():
            future.set_exception(error)
    else:
        if not future.cancelled():
            future.set_result(result)
