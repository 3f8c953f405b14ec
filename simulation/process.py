"""Programs of a simulated cluster, and the hosts they run on.

All programs share one event loop. Which of them a task, a timer or a callback belongs to is
kept in a context variable, and so it is handed on to whatever it starts. A program that is
killed is never run again: no `finally`, no destructor, as after SIGKILL. A program that is
stopped (SIGSTOP) is run later, with everything that was due meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from rocketq.common.clock import ambient_clock

current: Final[ContextVar["Process | None"]] = ContextVar("current", default=None)


class HostClock:
    """The clock of one host: the simulation's time, shifted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self.shift_ms = 0
        """How far it is off; steps are changes of it."""

    def now_ms(self) -> int:
        return self._start_ms + self.shift_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


class Host:
    """A machine: it has an address and a clock, and it may be without power."""

    def __init__(self, address: str, clock: HostClock) -> None:
        self.address = address
        self.clock = clock
        self.has_power = True

    def __repr__(self) -> str:
        return f"<host {self.address}>"


class TimerCell:
    """Knows the handle of a timer that has it among its arguments.

    Handles are compared with all their arguments: no other cell is equal to this one.
    """

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: asyncio.Handle | None = None


class Process:
    """One run of a program."""

    def __init__(self, name: str, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.host = host
        self.is_alive = True
        self.error: BaseException | None = None
        """What ended it, if it ended by itself."""
        self._loop = loop
        self.is_stopped = False
        self._stops = 0
        self._due: list[
            tuple[asyncio.Handle | None, Callable[..., object], tuple[Any, ...], Context]
        ] = []
        self._on_death: list[Callable[[], None]] = []
        # What belongs to a dead program is kept: collecting it would run its `finally` blocks.
        self._tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(current.set, self)
        self.context.run(ambient_clock.set, host.clock)

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run its main program."""
        task = self._loop.create_task(self._watched(main), context=self.context, name=self.name)
        self._tasks.append(task)
        return task

    async def _watched(self, main: Awaitable[None]) -> None:
        try:
            await main
        except Exception as error:
            self.error = error

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Note a task of this program."""
        self._tasks.append(task)

    def on_death(self, callback: Callable[[], None]) -> None:
        """Have something called when it is killed."""
        self._on_death.append(callback)

    # Called by the loop

    def run(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run a callback of this program, unless it is dead; later, if it is stopped."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._due.append((None, callback, arguments, copy_context()))
            return
        callback(*arguments)

    def run_timer(
        self,
        cell: "TimerCell",
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
    ) -> None:
        """The same for a timer, which may be cancelled until it has run."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._due.append((cell.handle, callback, arguments, copy_context()))
            return
        callback(*arguments)

    # Done to it

    def kill(self) -> None:
        """End it here and now."""
        self.is_alive = False
        self._due.clear()
        for callback in self._on_death:
            callback()

    def stop(self) -> None:
        """Let it stand still, as SIGSTOP does. As often as it is stopped it must go on."""
        self._stops += 1
        self.is_stopped = True

    def go_on(self) -> None:
        """Let it run again."""
        self._stops -= 1
        if self._stops == 0:
            self.is_stopped = False
            due, self._due = self._due, []
            for handle, callback, arguments, context in due:
                self._loop.call_soon(
                    _unless_cancelled, handle, callback, arguments, context=context
                )


def _unless_cancelled(
    handle: asyncio.Handle | None, callback: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    if handle is None or not handle.cancelled():
        callback(*arguments)
