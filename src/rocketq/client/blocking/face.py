"""How a blocking class is made of its asyncio twin.

    class Producer(Face[aio.Producer]):
        @arguments_of(aio.Producer)
        def __init__(self, *arguments, **options):
            super().__init__(aio.Producer(*arguments, **options))

        send = blocking(aio.Producer.send)

Names, arguments, docstrings and types are the twin's; the calls run on the shared loop
thread (`loop_thread.py`) and wait there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from rocketq.client.blocking.loop_thread import LoopThread, loop_thread


class Twin(Protocol):
    """What every asyncio client has."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


A = TypeVar("A", bound=Twin)
P = ParamSpec("P")
R = TypeVar("R")


class Face(Generic[A]):
    """A blocking client. Any thread may use it."""

    def __init__(self, twin: A) -> None:
        self._twin = twin
        self._thread: LoopThread = loop_thread()
        self._name = f"this {type(self).__name__}"

    def start(self) -> None:
        """Connect, and begin to work."""
        self._thread.run(self._twin.start(), what=self._name)
        self._thread.closes_at_exit(self)

    def close(self) -> None:
        """Finish what was accepted, then disconnect. May be called twice, and at any time."""
        if self._thread.is_usable:
            self._thread.run(self._twin.close(), what=self._name)
            self._thread.is_closed(self)

    def _on_loop(self, function: Callable[[], R]) -> R:
        """Call a function where the twin's state lives."""
        return self._thread.call(function, what=self._name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Face[Any], P], R]:
    """A coroutine method of the twin, waited for."""

    @functools.wraps(method)
    def call(self: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._twin, *args, **kwargs), what=self._name)

    return call


def on_loop(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Face[Any], P], R]:
    """A plain method of the twin, called where the twin's state lives."""

    @functools.wraps(method)
    def call(self: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._on_loop(lambda: method(self._twin, *args, **kwargs))

    return call


def arguments_of(
    twin: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates an `__init__` that hands its arguments on to the twin's."""

    def decorate(function: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(twin.__init__)(function)

    return decorate
