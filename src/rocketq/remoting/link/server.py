"""Listens on a port and answers requests by a table of handlers.

    server = RemotingServer({RequestCode.GET_ROUTEINFO_BY_TOPIC: handler})
    await server.start("127.0.0.1", 0)
    print(server.port)
    await server.stop(grace_s=3)

Several servers may share one table: a broker's second port is another server with a
smaller one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rocketq.common.clock import SYSTEM_CLOCK, ambient_clock
from rocketq.common.networks import networks
from rocketq.remoting.link.connection import Connection, ConnectionLimits
from rocketq.remoting.link.deadlines import Deadlines
from rocketq.remoting.link.entrance import Entrance, EntranceLimits
from rocketq.remoting.link.handlers import Handler, Handlers, HandleRun, RpcHook, RunHandler
from rocketq.remoting.link.idle import IdleScan
from rocketq.remoting.link.local import join
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.link.shares import Shares
from rocketq.remoting.tls.certificates import ServerTls
from rocketq.remoting.wire.frame import FRAME_LIMIT

__all__ = [
    "HandleRun",
    "Handler",
    "Handlers",
    "RemotingServer",
    "RpcHook",
    "RunHandler",
    "ServerConfig",
]

logger = logging.getLogger(__name__)

# Clients that send do so more often than this.
_QUIET_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Limits of a server and its connections."""

    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1024
    frame_max_length: int = FRAME_LIMIT
    header_max_length: int = 256 * 1024
    """A request's longest header holds 32,767 bytes of properties, each escaped with 6."""
    write_buffer_high_water_mark: int = 1024 * 1024
    unsent_max_length: int = 64 * 1024 * 1024
    """What is kept for a client that does not read; with more it is hung up on."""
    handlers_per_connection: int = 1024
    entrance: EntranceSettings = field(default_factory=EntranceSettings)
    """What strangers may take."""


class RemotingServer:
    """One listening port and the connections accepted on it."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        config: ServerConfig | None = None,
        tls: ServerTls | None = None,
        hooks: Sequence[RpcHook] = (),
        on_connect: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        meter: RequestMeter | None = None,
    ) -> None:
        """`tls`: what connections may or must be encrypted with; without it they cannot be."""
        self._handlers = handlers
        self._meter = meter
        self._config = config or ServerConfig()
        self._hooks = hooks
        self._on_connect = on_connect
        self._on_close = on_close
        self._entrance = Entrance(_entrance_limits(self._config), tls, self._made)
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._accepted = 0
        self._listener: asyncio.Server | None = None
        self._deadlines: Deadlines | None = None
        self._shares: Shares | None = None
        self._idle_scan: IdleScan | None = None

    @property
    def port(self) -> int:
        """The port it listens on; where it was started with 0, the one it was given."""
        assert self._listener is not None, "not started"
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> frozenset[Connection]:
        """The connections open now."""
        return frozenset(self._connections)

    @property
    def connection_count(self) -> int:
        """How many connections are open now."""
        return len(self._connections)

    @property
    def accepted_count(self) -> int:
        """How many connections were ever accepted."""
        return self._accepted

    @property
    def handshake_count(self) -> int:
        """How many are about to be encrypted now."""
        return self._entrance.handshakes.count

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError when the port is taken."""
        assert self._listener is None, "already started"
        loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(loop)
        if ambient_clock.get() is SYSTEM_CLOCK:  # elsewhere nothing takes time
            self._shares = Shares(loop)
        self._idle_scan = IdleScan(
            loop, self._connections, self._config.server_channel_max_idle_time_seconds
        )
        self._listener = await loop.create_server(
            self._entrance.opening,
            host,
            port,
            backlog=self._config.server_socket_backlog,
        )
        self._idle_scan.start()
        logger.info("listening on %s:%d", host, self.port)

    async def stop(
        self,
        grace_s: float = 3.0,
        *,
        sent_away: frozenset[int] = frozenset(),
        answered: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Stop listening, answer what was accepted, close; whoever takes longer is cut off.

        Before that, clients that ask with one of the codes in `sent_away` are told to ask
        elsewhere, until no such request comes any more; then `answered` is waited for.
        """
        if self._listener is None:
            return
        assert self._deadlines is not None
        assert self._idle_scan is not None
        self._listener.close()
        self._idle_scan.stop()
        self._entrance.close()
        if sent_away:
            await self._send_away(sent_away, grace_s)
        if answered is not None:
            await answered()
        finishing = [asyncio.ensure_future(each.finish()) for each in self._connections]
        if finishing:
            _, late = await asyncio.wait(finishing, timeout=grace_s)
            for task in late:
                task.cancel()
            for connection in list(self._connections):
                connection.cut_off()
            await asyncio.gather(*finishing, return_exceptions=True)
            await asyncio.gather(*(each.closed() for each in list(self._connections)))
        await self._listener.wait_closed()
        self._deadlines.close()
        self._listener = None

    async def _send_away(self, codes: frozenset[int], within_s: float) -> None:
        for connection in self._connections:
            connection.send_away(codes)
        deadline = asyncio.get_running_loop().time() + within_s
        before = -1
        while asyncio.get_running_loop().time() < deadline:
            count = sum(connection.sent_away_count for connection in self._connections)
            if count == before or not self._connections:
                return
            before = count
            await asyncio.sleep(_QUIET_S)

    def connect_locally(self, handlers: Handlers, peer: tuple[str, int]) -> Connection:
        """The client's side of a new connection that needs no socket, for this process alone.

        No hook looks at its requests: whoever asks for it has done so.
        """
        assert self._deadlines is not None, "not started"
        client = Connection(
            handlers,
            deadlines=self._deadlines,
            limits=ConnectionLimits(
                frame_limit=self._config.frame_max_length, serves_strangers=False
            ),
        )
        join(client, self._made(hooks=()), peer=peer)
        return client

    def _made(self, hooks: Sequence[RpcHook] | None = None) -> Connection:
        assert self._deadlines is not None
        return Connection(
            self._handlers,
            deadlines=self._deadlines,
            limits=ConnectionLimits(
                frame_limit=self._config.frame_max_length,
                header_limit=self._config.header_max_length,
                stranger_frame_limit=self._config.entrance.max_frame_length_before_login,
                handlers=self._config.handlers_per_connection,
                write_high_water=self._config.write_buffer_high_water_mark,
                unsent=self._config.unsent_max_length,
            ),
            hooks=self._hooks if hooks is None else hooks,
            on_connect=self._connected,
            meter=self._meter,
            shares=self._shares,
        )

    def _connected(self, connection: Connection) -> None:
        self._connections[connection] = None
        self._accepted += 1
        connection.on_close(self._closed)
        if self._on_connect is not None:
            self._on_connect(connection)

    def _closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if self._on_close is not None:
            self._on_close(connection)


def _entrance_limits(config: ServerConfig) -> EntranceLimits:
    settings = config.entrance
    return EntranceLimits(
        connections=settings.max_connections,
        connections_per_address=settings.max_connections_per_address,
        handshakes=settings.max_tls_handshakes,
        handshake_s=settings.tls_handshake_timeout_millis / 1000,
        silence_s=config.server_channel_max_idle_time_seconds,
        proxies=networks("proxyProtocolAddresses", settings.proxy_protocol_addresses),
    )
