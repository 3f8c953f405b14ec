"""The two ports of a broker.

Clients use the first. The second takes the same requests but for those that consumers may
fill it with, so that it stays free for senders.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from rocketq.broker.config import BrokerConfig
from rocketq.remoting import Connection, RemotingServer, RequestCode, ServerConfig
from rocketq.remoting.link.handlers import Handlers, RpcHook
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.tls.certificates import ServerTls

VIP_DISTANCE: Final = 2
"""How far below the first port the second one is."""

_STOP_GRACE_S: Final = 3.0
_UNREAD_LIMIT: Final = 1 << 20

# What the second port leaves out, so that it stays free for senders when consumers fill
# the first.
NOT_ON_VIP: Final = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)

# What clients are told to ask other brokers for, when this one stops. What they say about work
# that is done (offsets, acks, decisions) is taken until the end.
_ELSEWHERE: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.NOTIFICATION,
    }
)


class Listeners:
    """The servers on both ports, with the same handlers, rights and limits."""

    def __init__(
        self,
        config: BrokerConfig,
        handlers: Handlers,
        tls: ServerTls,
        hooks: Sequence[RpcHook],
        *,
        on_connect: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        meter: RequestMeter | None,
    ) -> None:
        limits = ServerConfig(
            server_channel_max_idle_time_seconds=config.server_channel_max_idle_time_seconds,
            write_buffer_high_water_mark=config.write_buffer_high_water_mark or _UNREAD_LIMIT,
            entrance=config,
        )
        urgent = {code: handler for code, handler in handlers.items() if code not in NOT_ON_VIP}
        self.main, self.vip = (
            RemotingServer(
                each,
                config=limits,
                tls=tls,
                hooks=hooks,
                on_connect=on_connect,
                on_close=on_close,
                meter=meter,
            )
            for each in (handlers, urgent)
        )
        self._host = config.bind_address
        self._port = config.listen_port

    @property
    def connections(self) -> frozenset[Connection]:
        """The connections open now."""
        return self.main.connections | self.vip.connections

    @property
    def accepted_count(self) -> int:
        """How many connections there have been."""
        return self.main.accepted_count + self.vip.accepted_count

    @asynccontextmanager
    async def serving(self, answered: Callable[[float], Awaitable[None]]) -> AsyncIterator[None]:
        """Both ports, for the length of a block.

        At its end clients are sent to other brokers, and `answered` waits, for at most so many
        seconds, until what they had sent is answered.
        """
        async with (
            self._listening(self.main, self._port, answered),
            self._listening(self.vip, self._port - VIP_DISTANCE, answered),
        ):
            yield

    @asynccontextmanager
    async def _listening(
        self, server: RemotingServer, port: int, answered: Callable[[float], Awaitable[None]]
    ) -> AsyncIterator[None]:
        await server.start(self._host, port)
        try:
            yield
        finally:
            within = partial(answered, _STOP_GRACE_S)
            await server.stop(_STOP_GRACE_S, sent_away=_ELSEWHERE, answered=within)
