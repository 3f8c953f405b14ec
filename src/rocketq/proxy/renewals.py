"""Keeps hidden what push consumers hold.

Their messages are popped for a minute. Shortly before it is over, a message that has neither
been acknowledged nor given back gets more time: 1, 3, 5, 10, 30, 60 minutes, then an hour each.
Clients know the first handle only; what they say about it counts for the newest.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Coroutine
from typing import Any, Final

from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.proxy.adapter.handles import ReceiptHandle
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.popped import PoppedMessages
from rocketq.proxy.sessions import Session

logger = logging.getLogger(__name__)

_MINUTES: Final = (1, 3, 5, 10, 30, 60)
_RETRY_S: Final = 5.0
_LATER_MS: Final = 10_000
_A_TURN: Final = 64
_LONGEST_SLEEP_S: Final = 60.0

Key = tuple[str, str, str, int, int, str]


class _Held:
    """A message that a consumer holds."""

    __slots__ = (
        "failures",
        "first_ms",
        "group",
        "handle",
        "is_done",
        "key",
        "renewed",
        "renewing",
        "topic",
    )

    def __init__(
        self, key: Key, group: str, topic: str, handle: ReceiptHandle, first_ms: int
    ) -> None:
        self.key = key
        self.group = group
        self.topic = topic
        self.handle = handle
        self.first_ms = first_ms
        self.renewed = 0
        self.failures = 0
        self.is_done = False
        self.renewing: asyncio.Task[None] | None = None

    async def settled(self) -> ReceiptHandle:
        """The handle that counts, once a renewal under way has ended."""
        if self.renewing is not None:
            await asyncio.wait([self.renewing])
        return self.handle


class Renewals:
    """Belongs to the event loop."""

    def __init__(
        self, config: ProxyConfig, popped: PoppedMessages, cluster: Cluster, clock: Clock
    ) -> None:
        self._config = config
        self._popped = popped
        self._cluster = cluster
        self._clock = clock
        self._by_client: dict[str, dict[Key, _Held]] = {}
        self._due: list[tuple[int, int, _Held]] = []
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return sum(len(held) for held in self._by_client.values())

    def add(
        self,
        session: Session,
        group: str,
        topic: str,
        handle: ReceiptHandle,
        message_id: str,
        reconsume_times: int,
    ) -> None:
        key = _key(group, message_id, handle)
        held = _Held(key, group, topic, handle, self._clock.now_ms())
        self._by_client.setdefault(session.client_id, {})[key] = held
        self._plan(held)

    def holds(self, client_id: str) -> bool:
        """Whether anything is renewed for a client."""
        return client_id in self._by_client

    async def take(
        self, client_id: str, group: str, message_id: str, handle: ReceiptHandle
    ) -> ReceiptHandle | None:
        """The newest handle of a message, which is renewed no longer; None if it never was."""
        mine = self._by_client.get(client_id)
        held = None if mine is None else mine.pop(_key(group, message_id, handle), None)
        if held is None or mine is None:
            return None
        if not mine:
            del self._by_client[client_id]
        held.is_done = True
        return await held.settled()

    def clear(self, session: Session) -> None:
        """A client is gone: what it held is for others."""
        for held in self._by_client.pop(session.client_id, {}).values():
            held.is_done = True
            self._start(held, self._config.invisible_time_millis_when_clear)

    # Time

    def _plan(self, held: _Held, at_ms: int | None = None) -> None:
        if at_ms is None:
            at_ms = held.handle.receipt.visible_again_ms - self._config.renew_ahead_time_millis
        is_first = not self._due or at_ms < self._due[0][0]
        heapq.heappush(self._due, (at_ms, next(self._numbers), held))
        if is_first:
            self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                now_ms = self._clock.now_ms()
                taken = 0
                while self._due and self._due[0][0] <= now_ms and taken < _A_TURN:
                    held = heapq.heappop(self._due)[2]
                    if not held.is_done:
                        taken += 1
                        self._start_renewal(held)
                wait_s = _LONGEST_SLEEP_S
                if self._due:
                    wait_s = min(max(self._due[0][0] - now_ms, 1) / 1000, wait_s)
                self._wake.clear()
                waking = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait(
                    (stopping, waking), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
                )
                waking.cancel()
        finally:
            stopping.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_renewal(self, held: _Held) -> None:
        age_ms = self._clock.now_ms() - held.first_ms
        if age_ms >= self._config.renew_max_time_millis:
            self._give_up(held)
            return
        minutes = _MINUTES[min(held.renewed, len(_MINUTES) - 1)]
        held.renewing = self._run(self._renew(held, minutes * 60_000))

    def _give_up(self, held: _Held) -> None:
        """It is held too long, or cannot be renewed: others get it."""
        held.is_done = True
        for client_id, mine in list(self._by_client.items()):
            if mine.get(held.key) is held:
                del mine[held.key]
                if not mine:
                    del self._by_client[client_id]
        self._start(held, _LATER_MS)

    async def _renew(self, held: _Held, invisible_ms: int) -> None:
        before = held.handle
        try:
            after = await self._popped.change(before, held.group, held.topic, invisible_ms)
        except RocketqError as error:
            logger.debug("%s is not renewed: %s", before, error)
            held.failures += 1
            held.renewing = None
            if held.is_done:
                return
            if held.failures >= self._config.max_renew_retry_times or before.is_expired(
                self._clock.now_ms()
            ):
                self._give_up(held)
            else:
                self._plan(held, self._clock.now_ms() + round(_RETRY_S * 1000))
            return
        held.failures = 0
        held.renewed += 1
        held.handle = after
        held.renewing = None
        if not held.is_done:
            self._plan(held)

    def _start(self, held: _Held, invisible_ms: int) -> None:
        self._run(self._popped.quietly(self._let_go(held, invisible_ms)))

    async def _let_go(self, held: _Held, invisible_ms: int) -> None:
        handle = held.handle
        if held.renewing is not None:
            handle = await held.settled()
        await self._popped.change(handle, held.group, held.topic, invisible_ms, suspend=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _key(group: str, message_id: str, handle: ReceiptHandle) -> Key:
    return (group, message_id, *handle.place)
