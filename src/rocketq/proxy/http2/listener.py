"""The port of gRPC clients, and the connections accepted on it.

The way in is that of all servers here (`remoting/link/entrance.py`): TLS and plaintext on one
port, limits, and word of the true peer from proxies that are trusted. What is encrypted has to
have agreed on HTTP/2 (ALPN h2).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, cast

from rocketq.proxy.http2.connection import Http2Connection, Http2Limits, Opener
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.entrance import Entrance, EntranceLimits
from rocketq.remoting.tls.certificates import ServerTls

logger = logging.getLogger(__name__)

_ROUND_S: Final = 20.0
_PING_AFTER: Final = 2
_DEAD_AFTER: Final = 4
_HTTP2: Final = "h2"


class GrpcTls(ServerTls):
    """Certificates and keys as everywhere, for HTTP/2."""

    def context(self) -> ssl.SSLContext:
        context = super().context()
        context.set_alpn_protocols([_HTTP2])
        return context


class GrpcListener:
    """Belongs to the event loop."""

    def __init__(
        self,
        opener: Opener,
        limits: Http2Limits,
        *,
        entrance: EntranceLimits,
        tls: GrpcTls | None = None,
        idle_s: float = 120.0,
        on_close: Callable[[Http2Connection], None] | None = None,
    ) -> None:
        self._opener = opener
        self._limits = limits
        self._idle_rounds = max(round(idle_s / _ROUND_S), 1)
        self._on_close = on_close
        # It only has to be told of its peer and of the end, as those of remoting.
        made = cast("Callable[[], Connection]", self._made)
        self._entrance = Entrance(entrance, tls, made)
        self._connections: set[Http2Connection] = set()
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "not started"
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> frozenset[Http2Connection]:
        return frozenset(self._connections)

    # Life

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._entrance.opening, host, port, backlog=1024)
        self._sweep = loop.call_later(_ROUND_S, self._round)
        logger.info("listening for gRPC on %s:%d", host, self.port)

    async def stop(self, grace_s: float = 3.0) -> None:
        """Stop listening, let calls end, close; whoever takes longer is cut off."""
        if self._listener is None:
            return
        if self._sweep is not None:
            self._sweep.cancel()
        self._listener.close()
        self._entrance.close()
        for connection in list(self._connections):
            connection.go_away()
        ending = [asyncio.ensure_future(each.closed()) for each in self._connections]
        if ending:
            await asyncio.wait(ending, timeout=grace_s)
            for connection in list(self._connections):
                connection.abort()
            await asyncio.wait(ending)
        await self._listener.wait_closed()

    def _round(self) -> None:
        """Look after connections that are silent: ask them, or hang up."""
        for connection in list(self._connections):
            connection.resets = 0
            connection.quiet_rounds += 1
            connection.idle_rounds = 0 if connection.stream_count else connection.idle_rounds + 1
            if connection.idle_rounds >= self._idle_rounds:
                connection.go_away()
            elif connection.quiet_rounds >= _DEAD_AFTER:
                logger.info("%r does not answer", connection)
                connection.abort()
            elif connection.quiet_rounds >= _PING_AFTER:
                connection.ping()
        self._sweep = asyncio.get_running_loop().call_later(_ROUND_S, self._round)

    # Connections

    def _made(self) -> Http2Connection:
        return Http2Connection(self._opener, self._limits, on_connect=self._connected)

    def _connected(self, connection: Http2Connection) -> None:
        connection.on_close(self._closed)
        self._connections.add(connection)
        tls = connection.transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != _HTTP2:
            logger.info("%r has not agreed on HTTP/2", connection)
            connection.abort()

    def _closed(self, connection: Http2Connection) -> None:
        self._connections.discard(connection)
        if self._on_close is not None:
            self._on_close(connection)
