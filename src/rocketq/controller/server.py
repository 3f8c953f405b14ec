"""A controller: decides which broker of a name is master.

Any number of them share one etcd; one leads, the others know who does. A controller without
etcd keeps its state in a file, and is the only one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.loop.service import running
from rocketq.common.metrics.monitoring import Monitoring, Part
from rocketq.common.metrics.settings import exporter_settings
from rocketq.controller.access import CONTROLLER_RULES
from rocketq.controller.config import ControllerConfig, LiveConfig, as_peer
from rocketq.controller.deciding import Deciding
from rocketq.controller.keeper.file_keeper import FileKeeper
from rocketq.controller.keeper.keeper import Keeper
from rocketq.controller.live_brokers import LiveBrokers
from rocketq.controller.masters_watch import MastersWatch
from rocketq.controller.metrics import FAMILIES, ControllerFigures, request_meter
from rocketq.controller.processor import ControllerProcessor
from rocketq.controller.role_notices import RoleNotices
from rocketq.remoting.access.administration import AccessProcessor
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.settings import guards, make_first_users, signing_hooks
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.link.server import Handlers, RemotingServer, ServerConfig
from rocketq.remoting.tls.certificates import ServerTls, client_tls

if TYPE_CHECKING:
    from rocketq.controller.etcd.client import EtcdAccess, EtcdClient

logger = logging.getLogger(__name__)

_REACHED_AT: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_STATE_FILE: Final = "brokerSets.json"
_STOP_GRACE_S: Final = 1.0

# What a controller is asked is small, and a broker asks little of it.
_LIMITS: Final = ServerConfig(
    frame_max_length=1024 * 1024,
    header_max_length=64 * 1024,
    unsent_max_length=8 * 1024 * 1024,
    handlers_per_connection=128,
)


class Controller:
    """Wires decisions to the network and to the place where they are kept."""

    def __init__(
        self,
        config: ControllerConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
        etcd: "Callable[[EtcdAccess], EtcdClient] | None" = None,
    ) -> None:
        """`etcd` makes what speaks to it, where that is not to be the usual client."""
        config = as_peer(config)
        self._etcd = etcd
        self._monitoring = Monitoring(exporter_settings(config, config.bind_address))
        self._part: Part | None = None
        meter = request_meter() if self._monitoring.is_on else None
        self._config = LiveConfig(config)
        self._client = RemotingClient(hooks=signing_hooks(config), tls=client_tls(config))
        self._tls = ServerTls(config)
        self._directory = AccessDirectory(Path(config.controller_store_path))
        self._live = LiveBrokers(clock)
        self._keeper = self._make_keeper(config, clock)
        self._keeper.on_lead(self._begin_to_lead)
        self._notices = RoleNotices(self._client)
        deciding = Deciding(self._keeper, self._live, self._notices, self._config)
        self._watch = MastersWatch(deciding, self._keeper, self._live, self._config, clock)
        processor = ControllerProcessor(
            deciding,
            self._keeper,
            self._live,
            self._config,
            on_arrival=lambda name: self._watch.look_at((name,)),
        )
        self._handlers: Handlers = {
            **processor.handlers(),
            **AccessProcessor(self._directory).handlers(),
        }
        self._server = RemotingServer(
            self._handlers,
            config=replace(_LIMITS, entrance=config),
            tls=self._tls,
            hooks=guards(config, self._directory, CONTROLLER_RULES, cluster=""),
            on_close=self._watch.connection_closed,
            meter=meter,
        )
        if meter is not None:
            figures = ControllerFigures(self._keeper, self._live, deciding, self._server, meter)
            part = self._part = self._monitoring.part(
                "controller",
                {
                    "node_type": "controller",
                    "group": config.controller_group,
                    "peer_id": config.controller_id,
                },
            )
            part.add(FAMILIES, figures.collect)
            part.check("leading", figures.fault)
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def _make_keeper(self, config: ControllerConfig, clock: Clock) -> Keeper:
        if not config.endpoints:
            path = Path(config.controller_store_path) / _STATE_FILE
            return FileKeeper(path, config.controller_id or "n0", lambda: self.address)
        # Only who uses etcd needs what speaks to it.
        from rocketq.controller.etcd.client import EtcdAccess, EtcdClient
        from rocketq.controller.keeper.etcd_keeper import EtcdKeeper

        return EtcdKeeper(
            EtcdAccess(
                endpoints=config.endpoints,
                user=config.etcd_user,
                password=config.etcd_password,
                ca_file=config.etcd_ca_file,
                cert_file=config.etcd_cert_file,
                key_file=config.etcd_key_file,
            ),
            prefix=config.etcd_prefix,
            # Without a name, the address is one that no other controller has.
            name=lambda: config.controller_id or self.address.replace(":", "-"),
            address=lambda: self.address,
            lease_s=config.etcd_lease_seconds,
            clock=clock,
            connect=self._etcd or EtcdClient,
        )

    @property
    def metrics_url(self) -> str:
        """Where figures are; empty where they are not served."""
        return self._monitoring.url

    @property
    def served_codes(self) -> frozenset[int]:
        """The requests it answers."""
        return frozenset(self._handlers)

    @property
    def keeper(self) -> Keeper:
        """The state, for programs that hold a controller in their own process."""
        return self._keeper

    @property
    def address(self) -> str:
        """Where brokers reach it, as `host:port`."""
        config = self._config.current
        bound = config.bind_address
        host = config.advertised_host or _REACHED_AT.get(bound, bound)
        return f"[{host}]:{self._server.port}" if ":" in host else f"{host}:{self._server.port}"

    async def start(self) -> None:
        """Accept requests; raises OSError when the port is taken."""
        assert self._serving is None, "already started"
        started = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(started), name="controller")
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait((waiting, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if not started.is_set():
            waiting.cancel()
            self._serving.result()

    async def stop(self) -> None:
        """Give up the lead, answer what was accepted, close."""
        self._stop.set()
        if self._serving is not None:
            await self._serving

    async def stopped(self) -> None:
        """Wait for the end; raises what ended it, if nobody asked for it."""
        assert self._serving is not None, "not started"
        await asyncio.shield(self._serving)

    async def _serve(self, started: asyncio.Event) -> None:
        self._directory.load()
        make_first_users(self._config.current, self._directory)
        async with (
            self._monitoring.serving(),
            self._directory,
            self._telling_brokers(),
            self._listening(),
            self._keeping(),
            running("certificates", self._tls.run),
            running("masters watch", self._watch.run),
        ):
            started.set()
            await self._stop.wait()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        config = self._config.current
        await self._server.start(config.bind_address, config.listen_port)
        if self._part is not None:
            self._part.labels["address"] = self.address
        try:
            yield
        finally:
            await self._server.stop(grace_s=_STOP_GRACE_S)

    @asynccontextmanager
    async def _keeping(self) -> AsyncIterator[None]:
        await self._keeper.start()
        try:
            yield
        finally:
            await self._keeper.stop()

    @asynccontextmanager
    async def _telling_brokers(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._notices.cancel()
            await self._client.close()

    def _begin_to_lead(self, another_may_lead_s: float) -> None:
        self._live.nobody_dead_yet(another_may_lead_s)
        self._watch.look_at(self._keeper.sets)
