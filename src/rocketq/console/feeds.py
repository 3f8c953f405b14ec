"""Answers of the cluster that several pages share for a short time."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from rocketq.common.errors import RocketqError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_REMEMBERED: Final = 2_000


class Feed(Generic[T]):
    """One question. Whoever asks while it is under way waits for the same answer.

    Nothing is asked unless somebody wants to know, and not while the last answer is young
    enough. A failure is not remembered: the next one who asks tries again.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._now = now
        self._value: T | None = None
        self._asked_at: float | None = None
        self._under_way: asyncio.Task[T] | None = None
        self.took_s = 0.0
        self.failure: RocketqError | None = None
        """Why there was no answer the last time."""

    @property
    def last(self) -> T | None:
        """The last answer, however old."""
        return self._value

    @property
    def age_s(self) -> float:
        return float("inf") if self._asked_at is None else self._now() - self._asked_at

    def forget(self) -> None:
        """Something was changed: the next one who asks gets a new answer."""
        self._asked_at = None

    async def get(self, max_age_s: float) -> T:
        """An answer that was asked for at most this long ago."""
        if self._asked_at is not None and self.age_s <= max_age_s:
            return self._value  # type: ignore[return-value]
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._fetch())
        # One impatient reader must not take the answer from the others.
        return await asyncio.shield(self._under_way)

    async def _fetch(self) -> T:
        began = self._now()
        try:
            value = await self._ask()
        except RocketqError as error:
            self.failure = error
            raise
        finally:
            self._under_way = None
            self.took_s = self._now() - began
        self._value, self._asked_at, self.failure = value, began, None
        return value


class Feeds(Generic[K, T]):
    """The same question about many things; those not asked about for longest are forgotten."""

    def __init__(self, ask: Callable[[K], Awaitable[T]]) -> None:
        self._ask = ask
        self._feeds: OrderedDict[K, Feed[T]] = OrderedDict()

    async def get(self, key: K, max_age_s: float) -> T:
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(lambda: self._ask(key))
            if len(self._feeds) > _REMEMBERED:
                self._feeds.popitem(last=False)
        self._feeds.move_to_end(key)
        return await feed.get(max_age_s)

    def forget(self) -> None:
        self._feeds.clear()
