"""Masters that say nothing: frozen, or cut off, with their connections open.

Where a controller elects masters, another takes over from one that hangs, and a client learns of
it from the NameServers. Sends that the old one was given would still wait for it until their
time is up. So a producer looks now and then whether some of its sends have waited for longer than
usual, and if so asks for their routes. When a route then names another master, the connection to
the old one is given up: what waits on it is sent again, to the new one.
"""

import asyncio
import itertools
from collections.abc import Callable, Set
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.producer.result import SendResult

_LOOK_EVERY_S: Final = 0.5
_SAMPLE: Final = 16
"""How many sends are looked at; a master that says nothing answers none of them."""


class SilenceWatch:
    """Belongs to one producer and its loop."""

    def __init__(
        self,
        instance: ClientInstance,
        pending: Set[asyncio.Future[SendResult]],
        address_of: Callable[[str], str | None],
    ) -> None:
        self._instance = instance
        self._pending = pending
        self._address_of = address_of
        self._seen: list[asyncio.Future[SendResult]] = []
        self._doubted: dict[str, str] = {}
        """Masters by broker name, as they were when sends began to wait for long."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(_LOOK_EVERY_S, self._look)
        is_silent = any(not future.done() for future in self._seen)
        self._seen = list(itertools.islice(self._pending, _SAMPLE))
        if not is_silent:
            self._doubted = {}
            return
        for name in self._instance.routes.brokers():
            address = self._address_of(name)
            if address is not None:
                self._doubted.setdefault(name, address)
        for topic in self._instance.routes.topics():
            self._instance.refresh_route_soon(topic)

    def leave_old_masters(self) -> None:
        """A route has changed: give up those that sends wait for and that are not masters."""
        for name, address in list(self._doubted.items()):
            if self._address_of(name) not in (address, None):
                del self._doubted[name]
                connection = self._instance.remoting.connection_to(address)
                if connection is not None:
                    connection.abort()
