"""What brokers and NameServers said, kept for a while.

An answer is used for `fresh_s`. An older one is still used once, while a new one is fetched
beside it; so only the first who asks ever waits. "There is none" is believed for a moment only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError

T = TypeVar("T")

logger = logging.getLogger(__name__)

_MOST: Final = 20_000
_NONE_S: Final = 0.5
_KEPT_S: Final = 300.0


class _Entry(Generic[T]):
    __slots__ = ("loaded_at", "value")

    def __init__(self, value: T | None, loaded_at: float) -> None:
        self.value = value
        self.loaded_at = loaded_at


class Cache(Generic[T]):
    """By name. Belongs to the event loop."""

    def __init__(
        self, load: Callable[[str], Awaitable[T | None]], clock: Clock, *, fresh_s: float
    ) -> None:
        self._load = load
        self._clock = clock
        self._fresh_s = fresh_s
        self._entries: dict[str, _Entry[T]] = {}
        self._loading: dict[str, asyncio.Task[T | None]] = {}

    def now(self, name: str) -> T | None:
        """What is known, where it may be used without asking."""
        entry = self._entries.get(name)
        if entry is None or entry.value is None:
            return None
        age_s = self._clock.monotonic() - entry.loaded_at
        if age_s > self._fresh_s:
            if age_s > _KEPT_S:
                return None
            self._start(name)
        return entry.value

    async def get(self, name: str) -> T | None:
        found = self.now(name)
        if found is not None:
            return found
        entry = self._entries.get(name)
        if (
            entry is not None
            and entry.value is None
            and self._clock.monotonic() - entry.loaded_at < _NONE_S
        ):
            return None
        return await asyncio.shield(self._start(name))

    def forget(self, name: str) -> None:
        self._entries.pop(name, None)

    async def close(self) -> None:
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    def _start(self, name: str) -> asyncio.Task[T | None]:
        task = self._loading.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(name))
            self._loading[name] = task
            task.add_done_callback(lambda done: self._done(name, done))
        return task

    async def _fetch(self, name: str) -> T | None:
        value = await self._load(name)
        self._entries.pop(name, None)
        if len(self._entries) >= _MOST:
            del self._entries[next(iter(self._entries))]
        self._entries[name] = _Entry(value, self._clock.monotonic())
        return value

    def _done(self, name: str, task: asyncio.Task[T | None]) -> None:
        del self._loading[name]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # Whoever waits is told; for the others what was known still counts.
            log = logger.debug if isinstance(error, RocketqError) else logger.error
            log("%s could not be loaded: %s", name, error)
