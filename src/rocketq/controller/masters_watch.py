"""Looks after the masters: notices that one is gone, and has another elected.

A closed connection is acted upon at once, silence when its time is up. Beside that all sets
are looked at now and then, for what an election that failed has left undone.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Literal

from rocketq.common.clock import Clock
from rocketq.controller.config import LiveConfig
from rocketq.controller.deciding import Deciding
from rocketq.controller.keeper.keeper import CannotKeep, Keeper, NotLeader
from rocketq.controller.live_brokers import LiveBrokers
from rocketq.remoting.link.connection import Connection

logger = logging.getLogger(__name__)

# A process that missed so much of its time has stood still, and has heard nobody meanwhile.
_STOOD_STILL_S: Final = 0.5
_SLICE: Final = 500


class MastersWatch:
    """Works on the leader; elsewhere it only forgets the dead."""

    def __init__(
        self,
        deciding: Deciding,
        keeper: Keeper,
        live: LiveBrokers,
        config: LiveConfig,
        clock: Clock,
    ) -> None:
        self._deciding = deciding
        self._keeper = keeper
        self._live = live
        self._config = config
        self._clock = clock
        self._suspects: set[str] = set()
        self._electing: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._looked = clock.monotonic()

    def look_at(self, names: Iterable[str]) -> None:
        """Something has happened to a broker of these sets."""
        self._suspects.update(names)
        self._wake.set()

    def connection_closed(self, connection: Connection) -> None:
        self.look_at(key.name for key in self._live.connection_closed(connection))

    async def run(self, stop: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(stop.wait())
        next_sweep = self._clock.monotonic()
        try:
            while not stop.is_set():
                config = self._config.current
                await self._pause(waiting, config.scan_not_active_broker_interval / 1000)
                self._forget_the_dead(config.scan_not_active_broker_interval / 1000)
                self._look_at_suspects()
                if self._clock.monotonic() >= next_sweep:
                    await self._sweep()
                    next_sweep = (
                        self._clock.monotonic() + config.scan_inactive_master_interval / 1000
                    )
        finally:
            waiting.cancel()
            for task in self._electing.values():
                task.cancel()
            await asyncio.gather(*self._electing.values(), return_exceptions=True)

    async def _pause(self, stop: asyncio.Task[Literal[True]], pause_s: float) -> None:
        woken = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait((woken, stop), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        self._wake.clear()

    def _forget_the_dead(self, interval_s: float) -> None:
        now = self._clock.monotonic()
        late_s = now - self._looked - interval_s
        self._looked = now
        if late_s > _STOOD_STILL_S:
            logger.warning("this process stood still for %.1f s; nobody is dead for that", late_s)
            self._live.nobody_dead_yet()
        for key, connection in self._live.remove_expired():
            logger.warning("broker %d of %s is silent", key.broker_id, key.name)
            self._suspects.add(key.name)
            if isinstance(connection, Connection):
                connection.close()

    def _look_at_suspects(self) -> None:
        suspects, self._suspects = self._suspects, set()
        if self._keeper.leads:
            for name in suspects:
                self._look(name)

    async def _sweep(self) -> None:
        for number, name in enumerate(list(self._keeper.sets)):
            if not self._keeper.leads:
                return
            self._look(name)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    def _look(self, name: str) -> None:
        kept = self._keeper.sets.get(name)
        if kept is None or name in self._electing or not self._deciding.needs_master(kept):
            return
        task = asyncio.create_task(self._elect(name), name=f"election of {name}")
        self._electing[name] = task
        task.add_done_callback(lambda _: self._electing.pop(name))

    async def _elect(self, name: str) -> None:
        try:
            await self._deciding.replace_master(name)
        except NotLeader:
            pass  # whoever leads sees it, too
        except CannotKeep as error:
            logger.error("%s gets no master yet: %s", name, error)
