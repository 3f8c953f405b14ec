"""Closes connections from which nothing has come for a while.

One timer serves all connections. Each scan counts a round on every connection; a read sets
the count back to 0, which costs the hot path no look at a clock. In a client a write does so
too: it may send for hours what nobody answers. In a server it does not, as what a client is
sent says nothing about whether it is still there; what it takes of that does.
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
            unsent = connection.unsent
            is_reading = unsent < connection.unsent_before
            connection.unsent_before = unsent
            connection.idle_rounds = 0 if is_reading else connection.idle_rounds + 1
            is_waiting = connection.running_handlers or connection.pending_calls
            if connection.idle_rounds > _ROUNDS and not is_waiting:
                self._close(connection)
        self._timer = self._loop.call_later(self._interval_s, self._scan)

    def _close(self, connection: Connection) -> None:
        if connection.is_closing:
            connection.abort()  # closed before, and has still not read what it was sent
            return
        logger.info(
            "closing the connection to %s, idle for %g s", connection.peer_address, self._idle_s
        )
        connection.close()
