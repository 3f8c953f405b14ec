"""Closes connections on which nothing has happened for a while.

One timer serves all connections. Each scan counts a round on every connection; a read or
a write sets the count back to 0, which costs the hot path no look at a clock.
"""

import asyncio
import logging
from collections.abc import Collection

from rocketq.remoting.link.connection import Connection

logger = logging.getLogger(__name__)

_ROUNDS = 12


class IdleScan:
    """Looks after the connections of one server or client."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Collection[Connection],
        idle_s: float,
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._interval_s = idle_s / _ROUNDS
        self._idle_s = idle_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Scan from now on; with an idle time of 0 connections may be idle for ever."""
        if self._idle_s > 0:
            self._timer = self._loop.call_later(self._interval_s, self._scan)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _scan(self) -> None:
        for connection in list(self._connections):
            connection.idle_rounds += 1
            is_waiting = connection.running_handlers or connection.pending_calls
            if connection.idle_rounds > _ROUNDS and not is_waiting:
                logger.info(
                    "closing the connection to %s, idle for %g s",
                    connection.peer_address,
                    self._idle_s,
                )
                connection.close()
        self._timer = self._loop.call_later(self._interval_s, self._scan)
