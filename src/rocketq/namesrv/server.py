"""A NameServer: where clients learn which broker serves a topic.

NameServers do not know each other. Brokers register at all of them, clients ask any one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Final

from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.loop.service import asked_to_stop, running
from rocketq.common.loop.slices import Slices
from rocketq.common.loop.turns import Turns
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.common.metrics.settings import exporter_settings
from rocketq.namesrv.access import NAMESRV_RULES
from rocketq.namesrv.config import LiveConfig, NamesrvConfig
from rocketq.namesrv.kv_config import KvConfig
from rocketq.namesrv.metrics import FAMILIES, NamesrvFigures
from rocketq.namesrv.processor.brokers import BrokerProcessor
from rocketq.namesrv.processor.routes import RouteProcessor
from rocketq.namesrv.processor.settings import SettingsProcessor
from rocketq.namesrv.registration import MinimumIdChange
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.remoting.access.administration import AccessProcessor
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.settings import guards, make_first_users, signing_hooks
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.namesrv import NotifyMinBrokerIdChange
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.link.server import Handlers, RemotingServer, ServerConfig
from rocketq.remoting.tls.certificates import ServerTls, client_tls
from rocketq.remoting.wire.command import Command

logger = logging.getLogger(__name__)

# Whoever listens on every address is reached at the host's own.
_REACHED_AT: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_NOTICE_TIMEOUT_S: Final = 0.3
_STOP_GRACE_S: Final = 1.0
_DONE: Final = object()


class NameServer:
    """Wires the tables to the network; one per process is the rule, several are possible."""

    def __init__(
        self,
        config: NamesrvConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
        monitoring: Monitoring | None = None,
    ) -> None:
        """`monitoring`: where to say how we are, if the process has such a place already."""
        self._config = LiveConfig(config)
        self._clock = clock
        self._is_monitored_elsewhere = monitoring is not None
        self._monitoring = monitoring or Monitoring(exporter_settings(config, config.bind_address))
        meter = RequestMeter() if self._monitoring.is_on else None
        self._registry = RouteRegistry(
            clock=clock,
            on_minimum_id_change=self._tell_group,
            on_new_broker=self._broker_arrived,
            on_long_work=self._do_in_slices,
            limits=lambda: self._config.current.limits,
        )
        self._turns = Turns()
        self._awaited_brokers: dict[str, asyncio.Event] = {}
        self._kv_config = KvConfig(Path(config.kv_config_path))
        self._tls = ServerTls(config)
        self._directory = AccessDirectory(Path(config.kv_config_path).parent)
        self._handlers = self._routes()
        self._server = RemotingServer(
            self._handlers,
            config=ServerConfig(
                server_channel_max_idle_time_seconds=config.server_channel_max_idle_time_seconds,
                server_socket_backlog=config.server_socket_backlog,
                entrance=config,
            ),
            tls=self._tls,
            hooks=guards(config, self._directory, NAMESRV_RULES, cluster=""),
            on_close=self._registry.connection_closed,
            meter=meter,
        )
        if meter is not None:
            part = self._monitoring.part("namesrv", {"node_type": "namesrv"})
            figures = NamesrvFigures(self._registry, self._server, meter)
            part.add(FAMILIES, figures.collect)
            part.check("serving", lambda: self._stage)
        self._stage: str | None = "starting"
        self._client: RemotingClient | None = None
        self._notices: set[asyncio.Task[None]] = set()
        self._long_work: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def _routes(self) -> Handlers:
        registry, kv_config, config = self._registry, self._kv_config, self._config
        return {
            **BrokerProcessor(registry, kv_config, config, self._turns).handlers(),
            **RouteProcessor(registry, kv_config, config, self._clock, self._turns).handlers(),
            **SettingsProcessor(kv_config, config).handlers(),
            **AccessProcessor(self._directory).handlers(),
        }

    @property
    def served_codes(self) -> frozenset[int]:
        """The requests it answers."""
        return frozenset(self._handlers)

    @property
    def registry(self) -> RouteRegistry:
        """The tables, for programs that hold a NameServer in their own process."""
        return self._registry

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was asked for."""
        return self._server.port

    @property
    def address(self) -> str:
        """Where programs of this host reach it, as `host:port`."""
        host = _REACHED_AT.get(self._config.current.bind_address, self._config.current.bind_address)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Where figures are; empty where they are not served."""
        return self._monitoring.url

    async def start(self) -> None:
        """Load the settings and accept requests; raises OSError when the port is taken."""
        assert self._serving is None, "already started"
        started = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(started), name="name server")
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait((waiting, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if not started.is_set():
            waiting.cancel()
            self._serving.result()

    async def stop(self) -> None:
        """Answer what was accepted, then close."""
        self._stop.set()
        if self._serving is not None:
            await self._serving

    async def stopped(self) -> None:
        """Wait for the end; raises what ended it, if nobody asked for it."""
        assert self._serving is not None, "not started"
        await asyncio.shield(self._serving)

    async def broker_known(self, broker_name: str) -> None:
        """Wait until a broker of that name has registered."""
        if broker_name not in self._registry.brokers:
            await self._awaited_brokers.setdefault(broker_name, asyncio.Event()).wait()

    def _broker_arrived(self, broker_name: str) -> None:
        awaited = self._awaited_brokers.pop(broker_name, None)
        if awaited is not None:
            awaited.set()

    async def _serve(self, started: asyncio.Event) -> None:
        """Downwards is the order of starting, upwards that of stopping."""
        self._kv_config.load()
        self._directory.load()
        make_first_users(self._config.current, self._directory)
        async with (
            self._directory,
            nullcontext() if self._is_monitored_elsewhere else self._monitoring.serving(),
            self._telling_brokers(),
            self._listening(),
            running("certificates", self._tls.run),
            running("liveness scan", self._scan),
        ):
            self._stage = None
            started.set()
            await self._stop.wait()
            self._stage = "stopping"

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        config = self._config.current
        await self._server.start(config.bind_address, config.listen_port)
        try:
            yield
        finally:
            await self._server.stop(grace_s=_STOP_GRACE_S)

    @asynccontextmanager
    async def _telling_brokers(self) -> AsyncIterator[None]:
        self._client = RemotingClient(
            hooks=signing_hooks(self._config.current), tls=client_tls(self._config.current)
        )
        try:
            yield
        finally:
            for task in (*self._notices, *self._long_work):
                task.cancel()
            await self._client.close()

    async def _scan(self, stop: asyncio.Event) -> None:
        """Removes brokers that fell silent without closing their connection."""
        interval_s = self._config.current.scan_not_active_broker_interval / 1000
        while not await asked_to_stop(stop, within_s=interval_s):
            for connection in await self._turns.do(self._registry.removing_expired()):
                if isinstance(connection, Connection):
                    connection.close()
            interval_s = self._config.current.scan_not_active_broker_interval / 1000

    def _do_in_slices(self, work: Slices[None]) -> None:
        if next(work, _DONE) is _DONE:
            return  # it was not that long
        task = asyncio.ensure_future(self._turns.do(work))
        self._long_work.add(task)
        task.add_done_callback(self._long_work.discard)

    # Notices to brokers

    def _tell_group(self, change: MinimumIdChange) -> None:
        if not self._config.current.notify_min_broker_id_changed or self._client is None:
            return
        lowest = min(change.members)
        header = NotifyMinBrokerIdChange(
            min_broker_id=lowest,
            broker_name=change.broker_name,
            min_broker_addr=change.members[lowest],
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        for address in change.members.values():
            task = asyncio.ensure_future(self._tell(self._client, address, header))
            self._notices.add(task)
            task.add_done_callback(self._notices.discard)

    async def _tell(
        self, client: RemotingClient, address: str, header: NotifyMinBrokerIdChange
    ) -> None:
        try:
            await client.call_oneway(
                address, Command.request(header, oneway=True), _NOTICE_TIMEOUT_S
            )
        except RemotingError as error:
            logger.warning("broker at %s not told of the lowest id: %s", address, error)
