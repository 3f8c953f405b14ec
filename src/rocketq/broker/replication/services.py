"""Background services that belong to a role, run for as long as it is held.

Between two roles everything of the old one has stopped before anything of the new one starts,
and in that moment the store takes the new role over. What belongs to every role goes on: senders
wait for the next master, and some things take long to stop.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

from rocketq.broker.replication.role import Role, RoleHolder
from rocketq.common.loop.service import BackgroundLoop, running
from rocketq.store.files.disk import is_passing

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


class RoleServices:
    """Runs what the role of the moment wants to have run."""

    def __init__(
        self,
        roles: RoleHolder,
        *,
        master: Mapping[str, BackgroundLoop],
        slave: Mapping[str, BackgroundLoop],
        always: Mapping[str, BackgroundLoop],
        take_role: Callable[[Role], None],
    ) -> None:
        self._roles = roles
        self._master = master
        self._slave = slave
        self._always = always
        self._begins_anew = False
        self._take_role = take_role
        self._has_changed = asyncio.Event()
        self._has_started = asyncio.Event()
        roles.on_change(lambda role: self._has_changed.set())

    def restart(self) -> None:
        """Have all services begin anew: what they are made from is another."""
        self._begins_anew = True
        self._has_changed.set()

    async def started(self) -> None:
        """Wait until the services of the current role have begun."""
        await self._has_started.wait()

    async def run(self, stop: asyncio.Event) -> None:
        stopping: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._begins_anew = False
                async with AsyncExitStack() as lasting:
                    waiting = dict(self._always)
                    while not stop.is_set() and not self._begins_anew:
                        self._has_changed.clear()
                        role = self._roles.current
                        if not self._take(role):
                            await self._until_change(stopping, _AGAIN_S)
                            continue
                        for name, loop in waiting.items():
                            await lasting.enter_async_context(running(name, loop))
                        waiting = {}
                        await self._run_role(role, stopping)
        finally:
            stopping.cancel()
            with suppress(asyncio.CancelledError):
                await stopping

    def _take(self, role: Role) -> bool:
        """Take a role over; False if the disk has no room for what has to be noted of it."""
        try:
            self._take_role(role)
        except OSError as error:
            if not is_passing(error):
                raise
            logger.warning("the role of a %s cannot be taken over yet: %s", role.kind.name, error)
            return False
        return True

    async def _run_role(self, role: Role, stopping: asyncio.Future[bool]) -> None:
        async with AsyncExitStack() as services:
            for name, loop in (self._slave if role.is_slave else self._master).items():
                await services.enter_async_context(running(name, loop))
            await asyncio.sleep(0)  # they begin in the next turn
            self._has_started.set()
            await self._until_change(stopping)
        self._has_started.clear()

    async def _until_change(
        self, stopping: asyncio.Future[bool], within_s: float | None = None
    ) -> None:
        changed = asyncio.ensure_future(self._has_changed.wait())
        try:
            await asyncio.wait(
                (changed, stopping), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            changed.cancel()
