"""What a connection goes through before its requests are read.

    how many?     connections in all and from one address are limited
    from where?   a proxy that is trusted says whose connection it passes on
    encrypted?    the first byte tells: 0x16 begins a TLS handshake, and no frame begins so

After that the socket belongs to its `Connection`, and nothing of this is in its way. Where there
is nothing to look at, that is at once.

Strangers cost little here: an object of a few words for each, a time within which they have to
say something, a number of handshakes at a time, and a few milliseconds of the loop for
handshakes before everybody else gets a turn.
"""

import asyncio
import ipaddress
import logging
import resource
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from rocketq.common.access.policy import Network
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.proxy_protocol import BadPreamble, may_begin, read_preamble
from rocketq.remoting.tls.certificates import ServerTls
from rocketq.remoting.tls.settings import TlsMode
from rocketq.remoting.tls.transport import TlsTransport

logger = logging.getLogger(__name__)

_TLS_HANDSHAKE: Final = 0x16
# So long the loop makes handshakes before it looks at other events.
_SLICE_S: Final = 0.005
_WARN_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntranceLimits:
    """What strangers may take."""

    connections: int = 100_000
    connections_per_address: int = 50_000
    handshakes: int = 256
    handshake_s: float = 10.0
    silence_s: float = 120.0
    """Within this time something has to come; 0 is any time."""
    proxies: tuple[Network, ...] = ()
    """Who is believed when they say whose connection they pass on."""


class Entrance:
    """The way in of one server. Belongs to its loop."""

    def __init__(
        self,
        limits: EntranceLimits,
        tls: ServerTls | None,
        make_connection: Callable[[], Connection],
    ) -> None:
        self._limits = limits
        self._limit = _within_open_files(limits.connections)
        self._tls = tls
        self._make_connection = make_connection
        self._openings: set[Opening] = set()
        self._count = 0
        self._by_address: dict[str, int] = {}
        self._handshakes = _Handshakes(limits.handshakes)
        self._warned_at = -_WARN_INTERVAL_S
        mode = TlsMode.disabled if tls is None else tls.mode
        self._mode = mode
        # Whether the first bytes matter. Without TLS they would be no frame in any case.
        self._looks = mode is not TlsMode.disabled or bool(limits.proxies)

    def opening(self) -> "Opening":
        """The first protocol of a connection."""
        return Opening(self)

    @property
    def waiting(self) -> int:
        """Connections that have not come through yet."""
        return len(self._openings)

    def close(self) -> None:
        """Hang up on those who have not come through."""
        for opening in list(self._openings):
            opening.abort()

    # What openings ask

    @property
    def looks(self) -> bool:
        return self._looks

    @property
    def limits(self) -> EntranceLimits:
        return self._limits

    @property
    def handshakes(self) -> "_Handshakes":
        return self._handshakes

    def is_proxy(self, host: str) -> bool:
        if not self._limits.proxies:
            return False
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self._limits.proxies)

    def enter(self, opening: "Opening") -> bool:
        if self._count >= self._limit:
            self._warn(f"{self._count} connections are open already, so others are refused")
            return False
        self._count += 1
        self._openings.add(opening)
        return True

    def enter_from(self, host: str) -> bool:
        count = self._by_address.get(host, 0)
        if count >= self._limits.connections_per_address:
            self._warn(f"{host} has {count} connections already, more are refused")
            return False
        self._by_address[host] = count + 1
        return True

    def leave(self, host: str | None) -> None:
        self._count -= 1
        if host is not None:
            left = self._by_address[host] - 1
            if left:
                self._by_address[host] = left
            else:
                del self._by_address[host]

    def through(self, opening: "Opening", source: tuple[str, int] | None) -> Connection:
        """What the socket belongs to from now on."""
        self._openings.discard(opening)
        connection = self._make_connection()
        if source is not None:
            connection.peer = source
        return connection

    def gone(self, opening: "Opening") -> None:
        self._openings.discard(opening)

    def encrypted(self, opening: "Opening", is_encrypted: bool) -> TlsTransport | None:
        """The layer for an encrypted connection; raises _Unwelcome for what may not be."""
        if not is_encrypted:
            if self._mode is TlsMode.enforcing:
                raise _Unwelcome("it is not encrypted")
            return None
        if self._tls is None or self._mode is TlsMode.disabled:
            raise _Unwelcome("it is encrypted")
        if not self._handshakes.has_room:
            self._warn(f"{self._limits.handshakes} handshakes are under way, others are refused")
            raise _Unwelcome("too many handshakes are under way")
        return TlsTransport(
            self._tls.context(),
            server_side=True,
            on_step=self._handshakes.step,
            on_done=opening.shaken,
        )

    def _warn(self, text: str) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARN_INTERVAL_S:
            self._warned_at = now
            logger.warning("%s", text)


class _Unwelcome(Exception):
    """A connection of a kind that this server does not take."""


class Opening(asyncio.Protocol):
    """A connection before it is known what it is."""

    __slots__ = (
        "_data",
        "_entrance",
        "_host",
        "_is_counted",
        "_is_proxy",
        "_source",
        "_timer",
        "_transport",
    )

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance
        self._transport: asyncio.Transport | None = None
        self._is_counted = False
        self._host: str | None = None  # whom it counts for
        self._source: tuple[str, int] | None = None  # whose it is, if a proxy says so
        self._is_proxy = False
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._is_counted = self._entrance.enter(self)
        if not self._is_counted:
            self._transport.abort()
            return
        peer = transport.get_extra_info("peername")
        host = peer[0] if isinstance(peer, tuple) else ""
        self._is_proxy = self._entrance.is_proxy(host)
        if not self._is_proxy and not self._count_for(host):
            return
        if not self._entrance.looks:
            self._pass_on()
            return
        silence_s = self._entrance.limits.silence_s
        if silence_s > 0:
            self._timer = asyncio.get_running_loop().call_later(silence_s, self.abort)

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            if self._is_proxy and not self._has_read_preamble():
                return
            if self._data:
                self._decide()
        except (_Unwelcome, BadPreamble) as error:
            assert self._transport is not None
            peer = self._transport.get_extra_info("peername")
            logger.info("closing the connection to %s: %s", peer, error)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._leave()

    def abort(self) -> None:
        """It has said nothing, or not enough, or the server stops."""
        if self._transport is not None:
            self._transport.abort()

    def _count_for(self, host: str) -> bool:
        if self._entrance.enter_from(host):
            self._host = host
            return True
        assert self._transport is not None
        self._transport.abort()
        return False

    def _has_read_preamble(self) -> bool:
        if not may_begin(self._data):
            peer = self._transport.get_extra_info("peername") if self._transport else None
            self._is_proxy = False
            return self._count_for(peer[0] if isinstance(peer, tuple) else "")
        found = read_preamble(self._data)
        if found is None:
            return False
        self._is_proxy = False
        self._data = self._data[found.size :]
        self._source = found.source
        if found.source is not None:
            return self._count_for(found.source[0])
        assert self._transport is not None
        return self._count_for(str(self._transport.get_extra_info("peername")[0]))

    def _decide(self) -> None:
        assert self._transport is not None
        layer = self._entrance.encrypted(self, self._data[0] == _TLS_HANDSHAKE)
        self._stop_timer()
        if layer is None:
            self._pass_on()
            return
        # The same time for the handshake as a whole.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._entrance.limits.handshake_s, self.abort)
        self._entrance.handshakes.begin(layer)
        data, self._data = self._data, b""
        self._transport.set_protocol(cast("asyncio.BaseProtocol", layer))
        layer.connection_made(self._transport)
        layer.data_received(data)

    def shaken(self, layer: TlsTransport, error: Exception | None) -> None:
        """The handshake is done, or nothing came of it."""
        self._stop_timer()
        self._entrance.handshakes.end(layer)
        if error is not None:
            logger.info("no handshake with %s: %s", layer.get_extra_info("peername"), error)
            self._leave()
            return
        connection = self._entrance.through(self, self._source)
        connection.on_close(self._left)
        layer.carry(connection)

    def _pass_on(self) -> None:
        assert self._transport is not None
        connection = self._entrance.through(self, self._source)
        connection.on_close(self._left)
        self._transport.set_protocol(cast("asyncio.BaseProtocol", connection))
        connection.connection_made(self._transport)
        if self._data:
            data, self._data = self._data, b""
            connection.data_received(data)

    def _left(self, connection: Connection) -> None:
        self._leave()

    def _leave(self) -> None:
        self._stop_timer()
        self._entrance.gone(self)
        if self._is_counted:
            self._is_counted = False
            self._entrance.leave(self._host)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Handshakes:
    """Handshakes under way: so many at a time, and a slice of the loop for all of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way: set[TlsTransport] = set()
        self._ready: deque[TlsTransport] = deque()
        self._is_scheduled = False

    @property
    def count(self) -> int:
        return len(self._under_way)

    @property
    def has_room(self) -> bool:
        return len(self._under_way) < self._limit

    def begin(self, layer: TlsTransport) -> None:
        self._under_way.add(layer)

    def end(self, layer: TlsTransport) -> None:
        self._under_way.discard(layer)

    def step(self, layer: TlsTransport) -> None:
        """Make a step of a handshake, when its turn comes."""
        if layer in self._under_way:
            self._ready.append(layer)
            if not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        end = time.perf_counter() + _SLICE_S
        while self._ready:
            self._ready.popleft().step()
            if self._ready and time.perf_counter() >= end:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._run)
                return


def _within_open_files(limit: int) -> int:
    """As many as asked for, or as the process may open and still have files to spare."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return limit
    return max(min(limit, allowed - max(allowed // 5, 64)), 16)
