"""A port that takes TLS and plaintext, with or without word of the true peer before it.

The first bytes of a connection say what it is: a PROXY header (of a load balancer), a TLS record,
or HTTP/2 as it is. They are looked at while they still lie in the socket.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from rocketq.proxy.http2.connection import ENHANCE_YOUR_CALM, Http2Connection, Http2Limits, Opener

logger = logging.getLogger(__name__)

_FIRST_BYTES_S: Final = 10.0
_TLS_HANDSHAKE_S: Final = 10.0
_TLS_RECORD: Final = 0x16
_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_MOST_PREAMBLE: Final = 536
_ACCEPTED_AT_ONCE: Final = 64
_ROUND_S: Final = 20.0
_PING_AFTER: Final = 2
_DEAD_AFTER: Final = 4


class NotHttp2(Exception):
    """A connection that begins with something else."""


class GrpcListener:
    """The listening port and its connections."""

    def __init__(
        self,
        opener: Opener,
        limits: Http2Limits,
        *,
        tls: Callable[[], ssl.SSLContext | None] | None = None,
        takes_plaintext: bool = True,
        idle_s: float = 120.0,
        on_close: Callable[[Http2Connection], None] | None = None,
    ) -> None:
        """`tls` gives the context for a new connection; None where there is no TLS."""
        self._opener = opener
        self._limits = limits
        self._tls = tls
        self._takes_plaintext = takes_plaintext
        self._idle_rounds = max(round(idle_s / _ROUND_S), 1)
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._connections: set[Http2Connection] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    @property
    def connections(self) -> frozenset[Http2Connection]:
        return frozenset(self._connections)

    # Life

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Listen; raises OSError when the port is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.setblocking(False)
            listening.bind((host, port))
            listening.listen(1024)
        except OSError:
            listening.close()
            raise
        self._sockets.append(listening)
        self._loop.add_reader(listening.fileno(), self._accept, listening)
        self._sweep = self._loop.call_later(_ROUND_S, self._round)

    async def stop(self, grace_s: float = 3.0) -> None:
        """Stop listening, let calls end, close; whoever takes longer is cut off."""
        if self._sweep is not None:
            self._sweep.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for connection in list(self._connections):
            connection.go_away()
        ending = [asyncio.ensure_future(each.closed()) for each in self._connections]
        if ending:
            await asyncio.wait(ending, timeout=grace_s)
            for connection in list(self._connections):
                connection.abort()
            await asyncio.wait(ending)

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
        self._sweep = self._loop.call_later(_ROUND_S, self._round)

    # New connections

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.warning("a connection could not be accepted: %s", error)
                return
            accepted.setblocking(False)
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._begin(accepted))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            async with asyncio.timeout(_FIRST_BYTES_S):
                peer = await self._proxied_peer(accepted)
                first = await self._peek(accepted, 1)
            context = None
            if first[0] == _TLS_RECORD:
                context = self._tls() if self._tls is not None else None
                if context is None:
                    raise NotHttp2("TLS is not served")
            elif not self._takes_plaintext:
                raise NotHttp2("plaintext is not served")
            await self._loop.connect_accepted_socket(
                lambda: cast("asyncio.Protocol", self._connection(peer)),
                accepted,
                ssl=context,
                ssl_handshake_timeout=_TLS_HANDSHAKE_S if context is not None else None,
            )
        except (OSError, TimeoutError, NotHttp2, ssl.SSLError) as error:
            logger.debug("a connection was refused: %s", error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _connection(self, peer: tuple[str, int] | None) -> Http2Connection:
        return Http2Connection(
            self._opener,
            self._limits,
            peer=peer,
            on_connect=self._connected,
            on_close=self._closed,
        )

    def _connected(self, connection: Http2Connection) -> None:
        transport = connection.transport
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            connection.go_away(ENHANCE_YOUR_CALM, "ALPN h2 is needed")
        self._connections.add(connection)

    def _closed(self, connection: Http2Connection) -> None:
        self._connections.discard(connection)
        if self._on_close is not None:
            self._on_close(connection)

    # First bytes

    async def _proxied_peer(self, accepted: socket.socket) -> tuple[str, int] | None:
        """Who a PROXY header says it is; the header is taken out."""
        start = await self._peek(accepted, 1)
        if start[:1] not in (_V1[:1], _V2[:1]):
            return None
        start = await self._peek(accepted, len(_V1))
        if start.startswith(_V1):
            return await self._proxied_v1(accepted)
        if start[: len(_V2)] == _V2[: len(start)]:
            return await self._proxied_v2(accepted)
        return None

    async def _proxied_v1(self, accepted: socket.socket) -> tuple[str, int] | None:
        size = 0
        while True:
            seen = await self._peek(accepted, size + 1)
            end = seen.find(b"\r\n", 0, 108)
            if end >= 0:
                break
            if len(seen) >= 108:
                raise NotHttp2("a PROXY header that does not end")
            size = len(seen)
        words = accepted.recv(end + 2).decode("ascii", "replace").split()
        if len(words) >= 6 and words[1] in ("TCP4", "TCP6"):
            return _peer(words[2], words[4])
        return None

    async def _proxied_v2(self, accepted: socket.socket) -> tuple[str, int] | None:
        head = await self._peek(accepted, 16)
        size = int.from_bytes(head[14:16], "big")
        if not head.startswith(_V2) or head[12] >> 4 != 2 or size > _MOST_PREAMBLE:
            raise NotHttp2("a PROXY header that is none")
        await self._peek(accepted, 16 + size)
        body = accepted.recv(16 + size)[16:]
        family = head[13] >> 4
        if head[12] & 15 != 1:  # LOCAL: the balancer's own
            return None
        if family == 1 and size >= 12:
            return socket.inet_ntop(socket.AF_INET, body[:4]), int.from_bytes(body[8:10], "big")
        if family == 2 and size >= 36:
            return (
                socket.inet_ntop(socket.AF_INET6, body[:16]),
                int.from_bytes(body[32:34], "big"),
            )
        return None

    async def _peek(self, accepted: socket.socket, size: int) -> bytes:
        """At least so many of the first bytes, which stay where they are."""
        while True:
            await self._readable(accepted)
            seen = accepted.recv(max(size, 1024), socket.MSG_PEEK)
            if not seen:
                raise NotHttp2("it was closed again")
            if len(seen) >= size:
                return seen
            # The rest is on its way; what is there already would wake us at once.
            await asyncio.sleep(0.01)

    async def _readable(self, accepted: socket.socket) -> None:
        waiting: asyncio.Future[None] = self._loop.create_future()

        def ready() -> None:
            if not waiting.done():
                waiting.set_result(None)

        self._loop.add_reader(accepted.fileno(), ready)
        try:
            await waiting
        finally:
            self._loop.remove_reader(accepted.fileno())


def _peer(host: str, port: str) -> tuple[str, int] | None:
    try:
        number = int(port)
        return (str(ipaddress.ip_address(host)), number) if 0 <= number < 65536 else None
    except ValueError:
        return None
