"""Calls other programs: one connection an address, made on first use, shared by all calls.

    client = RemotingClient()
    response = await client.call("127.0.0.1:9876", Command.request(GetRouteInfo(topic="t")))
    await client.close()

Calls are pipelined and answered in any order. A connection that breaks fails its pending
calls at once; the next call makes a new one. An address that does not answer is left alone
for a while that doubles with every failure, and calls to it fail at once meanwhile, so
that whoever can go elsewhere does.
"""

import asyncio
import ipaddress
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from rocketq.common.numbers import parse_int32
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import (
    ConnectFailed,
    ConnectionLost,
    RequestRejected,
    RequestTimeout,
    TooManyRequests,
)
from rocketq.remoting.link.connection import Connection, ConnectionLimits
from rocketq.remoting.link.deadlines import Deadlines
from rocketq.remoting.link.handlers import Handlers, RpcHook
from rocketq.remoting.link.idle import IdleScan
from rocketq.remoting.tls.certificates import ClientTls
from rocketq.remoting.tls.transport import TlsTransport
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FRAME_LIMIT

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingClientConfig:
    """Limits of a client and its connections; the defaults are RocketMQ's."""

    connect_timeout_millis: int = 3000
    client_channel_max_idle_time_seconds: int = 120
    client_oneway_semaphore_value: int = 65535
    client_async_semaphore_value: int = 65535
    client_close_socket_if_timeout: bool = True
    """Whether no more calls are made on a connection that stays silent for the whole time of
    one. RocketMQ closes it at once, and even if other answers came."""
    frame_max_length: int = FRAME_LIMIT
    write_buffer_high_water_mark: int = 4 * 1024 * 1024
    handlers_per_connection: int = 1024
    reconnect_delay_millis: int = 50
    """How long an address is left alone after a failure; doubles with each further one."""
    reconnect_delay_max_millis: int = 2000


class _Backoff:
    """The failures of one address in a row."""

    __slots__ = ("delay_s", "error", "until")

    def __init__(self, delay_s: float, until: float, error: ConnectFailed) -> None:
        self.delay_s = delay_s
        self.until = until
        self.error = error


class RemotingClient:
    """Connections to any number of addresses; used from one event loop."""

    def __init__(
        self,
        config: RemotingClientConfig | None = None,
        *,
        handlers: Handlers | None = None,
        hooks: Sequence[RpcHook] = (),
        on_connect: Callable[[str], None] | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        """`on_connect` is told the address of every connection made.

        With `tls` connections are encrypted; raises ConfigError when its files cannot be used.
        """
        self._tls = tls.context() if tls is not None else None
        self._config = config or RemotingClientConfig()
        self._on_connect = on_connect
        self._handlers: Handlers = handlers if handlers is not None else {}
        self._hooks = hooks
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._backoffs: dict[str, _Backoff] = {}
        self._waiting_oneways = 0
        # Those on which no calls are made any more, but some still wait for answers.
        self._retired: dict[Connection, None] = {}
        self._deadlines: Deadlines | None = None
        self._idle_scan: IdleScan | None = None
        self._closed = False

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connection_to(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one."""
        connection = self._connections.get(address)
        return None if connection is None or connection.is_closing else connection

    async def call(self, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        """Send a request and wait for the response, whatever its code.

        Raises ConnectFailed, ConnectionLost, RequestTimeout or TooManyRequests, all of them
        retriable. The time covers connecting and waiting for a full connection too. A server
        that stops and says so (GO_AWAY) is called once more, on a new connection.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        response = await self._call(address, command, timeout_s)
        if response.code == ResponseCode.GO_AWAY:
            left_s = deadline - asyncio.get_running_loop().time()
            response = await self._call(address, command, max(left_s, 0.0))
        return response

    async def _call(self, address: str, command: Command, timeout_s: float) -> Command:
        connection = self.connection_to(address)
        if connection is not None and not connection.is_write_paused:
            self._check_pending()
            return await connection.call(command, timeout_s)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self.connect(address)
                await connection.writable()
        except TimeoutError:
            raise RequestTimeout(f"no connection to {address} in {timeout_s:g} s") from None
        self._check_pending()
        return await connection.call(command, max(deadline - loop.time(), 0.0))

    def send(
        self, address: str, command: Command, timeout_s: float = 3.0
    ) -> asyncio.Future[Command]:
        """Send a request; the future gets what `call` returns or raises."""
        connection = self.connection_to(address)
        if connection is not None:
            self._check_pending()
            return connection.start_call(command, timeout_s)
        return asyncio.ensure_future(self.call(address, command, timeout_s))

    async def call_oneway(self, address: str, command: Command, timeout_s: float = 3.0) -> None:
        """Send a request that nobody answers; waits only for a connection that can take it."""
        connection = self.connection_to(address)
        if connection is None or connection.is_write_paused:
            if self._waiting_oneways >= self._config.client_oneway_semaphore_value:
                raise TooManyRequests(f"{self._waiting_oneways} oneway requests are waiting")
            self._waiting_oneways += 1
            try:
                async with asyncio.timeout(timeout_s):
                    connection = await self.connect(address)
                    await connection.writable()
            except TimeoutError:
                raise RequestTimeout(f"no connection to {address} in {timeout_s:g} s") from None
            finally:
                self._waiting_oneways -= 1
        connection.call_oneway(command)

    async def connect(self, address: str) -> Connection:
        """The connection to an address; the one there is, or a new one."""
        connection = self.connection_to(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ConnectFailed("the client is closed")
        task = self._connecting.get(address)
        if task is None:
            backoff = self._backoffs.get(address)
            if backoff is not None and asyncio.get_running_loop().time() < backoff.until:
                raise ConnectFailed(str(backoff.error))
            task = asyncio.ensure_future(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # by `close`, and not whoever waits here
                raise ConnectFailed("the client is closed") from None
            raise

    def _connected(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # those who waited for it may have gone; then nobody looks at it

    def disconnect(self, address: str) -> None:
        """Close the connection to an address, if there is one."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close all connections; pending calls fail with ConnectionLost."""
        self._closed = True
        if self._idle_scan is not None:
            self._idle_scan.stop()
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        if connecting:
            await asyncio.wait(connecting)
        connections = [*self._connections.values(), *self._retired]
        for connection in connections:
            connection.close()
        if connections:
            closing = [asyncio.ensure_future(each.closed()) for each in connections]
            _, late = await asyncio.wait(closing, timeout=1.0)
            for connection in connections:
                connection.abort()
            if late:
                await asyncio.wait(late)
        if self._deadlines is not None:
            self._deadlines.close()

    async def _connect(self, address: str) -> Connection:
        loop = asyncio.get_running_loop()
        if self._deadlines is None:
            self._deadlines = Deadlines(loop)
            self._idle_scan = IdleScan(
                loop,
                self._connections.values(),
                self._config.client_channel_max_idle_time_seconds,
            )
            self._idle_scan.start()
        connection = Connection(
            self._handlers,
            deadlines=self._deadlines,
            limits=self._limits(),
            calling_hooks=self._hooks,
            on_go_away=self._sent_away,
            on_silence=self._doubt if self._config.client_close_socket_if_timeout else None,
        )
        try:
            host, port = split_address(address)
            async with asyncio.timeout(self._config.connect_timeout_millis / 1000):
                if self._tls is None:
                    await loop.create_connection(
                        lambda: cast("asyncio.Protocol", connection), host, port
                    )
                else:
                    await _connect_encrypted(self._tls, connection, host, port)
        except (OSError, TimeoutError, ValueError) as error:
            raise self._failed(address, error) from None
        self._backoffs.pop(address, None)
        connection.peer_address = address
        self._connections[address] = connection
        connection.on_close(lambda closed: self._lost(address, closed))
        if self._on_connect is not None:
            self._on_connect(address)
        return connection

    def _limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            frame_limit=self._config.frame_max_length,
            handlers=self._config.handlers_per_connection,
            calls=self._config.client_async_semaphore_value,
            write_high_water=self._config.write_buffer_high_water_mark,
            serves_strangers=False,
        )

    def _failed(self, address: str, reason: Exception) -> ConnectFailed:
        """Remember a failure, so that the address is left alone for a while."""
        earlier = self._backoffs.get(address)
        delay_s = (
            self._config.reconnect_delay_millis / 1000 if earlier is None else earlier.delay_s * 2
        )
        delay_s = min(delay_s, self._config.reconnect_delay_max_millis / 1000)
        what = "timed out" if isinstance(reason, TimeoutError) else str(reason)
        error = ConnectFailed(f"cannot connect to {address}: {what}")
        until = asyncio.get_running_loop().time() + delay_s
        self._backoffs[address] = _Backoff(delay_s, until, error)
        return error

    def _lost(self, address: str, connection: Connection) -> None:
        self._retired.pop(connection, None)
        if self._connections.get(address) is connection:
            del self._connections[address]

    def _sent_away(self, connection: Connection) -> None:
        """Its server is about to stop."""
        if self._retire(connection):
            logger.info("%s asks to go away", connection.peer_address)

    def _doubt(self, connection: Connection) -> None:
        """Its server has been silent; it may not know this connection any more."""
        if self._retire(connection):
            logger.info("%s is silent: the next call makes a new connection", connection)

    def _retire(self, connection: Connection) -> bool:
        """Make no more calls on a connection, let those under way end; False if it was before."""
        if self._connections.get(connection.peer_address) is not connection:
            return False
        del self._connections[connection.peer_address]
        self._retired[connection] = None
        connection.close_when_answered()
        return True

    def _check_pending(self) -> None:
        pending = sum([each.pending_calls for each in self._connections.values()])
        if pending >= self._config.client_async_semaphore_value:
            raise TooManyRequests(f"{pending} requests are under way")


async def _connect_encrypted(
    context: ssl.SSLContext, connection: Connection, host: str, port: int
) -> None:
    """Connect, and have the handshake made; raises OSError when either fails."""
    loop = asyncio.get_running_loop()
    shaken = loop.create_future()

    def done(layer: TlsTransport, error: Exception | None) -> None:
        if error is None:
            layer.carry(connection)
        if shaken.done():
            return
        if error is None:
            shaken.set_result(None)
        elif isinstance(error, OSError):
            shaken.set_exception(error)
        else:
            shaken.set_exception(OSError(str(error)))

    name = None if _is_number(host) and not context.check_hostname else host
    layer = TlsTransport(context, server_side=False, server_name=name, on_done=done)
    await loop.create_connection(lambda: cast("asyncio.Protocol", layer), host, port)
    try:
        await shaken
    except BaseException:
        layer.abort()
        raise


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` -> host, port; ValueError when it is neither."""
    host, separator, port = address.rpartition(":")
    number = parse_int32(port)
    if not separator or number is None or not 0 <= number <= 65_535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), number


def check(response: Command) -> Command:
    """The response, or RequestRejected when its code says that the request failed."""
    if response.code != ResponseCode.SUCCESS:
        raise RequestRejected(response.code, response.remark)
    return response


__all__ = [
    "ConnectFailed",
    "ConnectionLost",
    "RemotingClient",
    "RemotingClientConfig",
    "check",
    "split_address",
]
