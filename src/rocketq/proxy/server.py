"""A gRPC server before brokers: everything in this package, put together.

`GrpcServer.serving` is the whole of it, for the length of a block. With a broker in the same
process it calls that one directly; without one, all of them over the network.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import fields
from typing import Final

from rocketq.broker import Broker, BrokerConfig
from rocketq.client.cluster.name_servers import NameServers
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.loop.service import running
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.common.metrics.settings import exporter_settings
from rocketq.common.networks import networks
from rocketq.proxy.access import GrpcAccess
from rocketq.proxy.calls import Rpcs
from rocketq.proxy.cluster import Cluster, OwnBroker
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.http2.connection import Http2Connection, Http2Limits
from rocketq.proxy.http2.listener import GrpcListener, GrpcTls
from rocketq.proxy.metrics import CallMeter, ProxyFigures
from rocketq.proxy.popped import PoppedMessages
from rocketq.proxy.questions import Questions
from rocketq.proxy.registration import Registration
from rocketq.proxy.remote_directory import RemoteDirectory
from rocketq.proxy.renewals import Renewals
from rocketq.proxy.services.offsets import OffsetService
from rocketq.proxy.services.receives import ReceiveService
from rocketq.proxy.services.routes import RouteService
from rocketq.proxy.services.sends import SendService
from rocketq.proxy.services.telemetry import TelemetryService
from rocketq.proxy.sessions import Sessions
from rocketq.remoting import Connection, Handlers, RemotingClient
from rocketq.remoting.access.settings import AccessSettings, signing_hooks
from rocketq.remoting.link.entrance import EntranceLimits
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls.certificates import client_tls
from rocketq.remoting.tls.settings import TlsSettings

_FIRST_BYTES_S: Final = 10.0


def config_beside(broker: BrokerConfig, port: int) -> ProxyConfig:
    """The settings of a server in a broker's process: the broker's, where both have them."""
    shared = {
        field.name: getattr(broker, field.name)
        for part in (AccessSettings, TlsSettings, EntranceSettings)
        for field in fields(part)
    }
    return ProxyConfig(
        grpc_server_port=port,
        bind_address=broker.bind_address,
        namesrv_addr=broker.namesrv_addr,
        rocketmq_cluster_name=broker.broker_cluster_name,
        **shared,
    )


class BrokerHere:
    """A broker of this process, as a proxy sees it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def name(self) -> str:
        return self._broker.config.broker_name

    @property
    def address(self) -> str:
        return self._broker.address

    @property
    def cluster(self) -> str:
        return self._broker.config.broker_cluster_name

    def connect(self, handlers: Handlers, peer: tuple[str, int]) -> Connection:
        return self._broker.connect(handlers, peer)


class GrpcServer:
    """One of them; `start` and `stop`, or `async with server.serving()`."""

    def __init__(
        self,
        config: ProxyConfig,
        *,
        own: OwnBroker | None = None,
        access: GrpcAccess | None = None,
        clock: Clock = SYSTEM_CLOCK,
        monitoring: Monitoring | None = None,
    ) -> None:
        """`monitoring`: where to say how we are, if the process has such a place already."""
        self._config = config
        self._is_monitored_elsewhere = monitoring is not None
        self._monitoring = monitoring or Monitoring(exporter_settings(config, config.bind_address))
        self._own = own
        self._access = access
        self._clock = clock
        self._listener: GrpcListener | None = None
        self._sessions: Sessions | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def beside(
        cls,
        broker: Broker,
        config: ProxyConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "GrpcServer":
        """One for a broker that has been started in this process; its users are that one's."""
        settings = broker.config
        return cls(
            config,
            own=BrokerHere(broker),
            access=GrpcAccess(
                broker.directory,
                authenticates=settings.authentication_enabled,
                authorizes=settings.authorization_enabled,
            ),
            clock=clock,
            monitoring=broker.monitoring,
        )

    @property
    def metrics_url(self) -> str:
        """Where figures are; empty where they are not served."""
        return self._monitoring.url

    @property
    def port(self) -> int:
        assert self._listener is not None, "not started"
        return self._listener.port

    @property
    def address(self) -> str:
        return f"{self._config.bind_address}:{self.port}"

    @property
    def client_count(self) -> int:
        return 0 if self._sessions is None else len(self._sessions)

    # Life

    async def start(self) -> None:
        assert self._task is None, "already started"
        ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(ready), name="grpc")
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task  # raises what went wrong

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def stopped(self) -> None:
        """Wait for the end; raises what ended it, if nobody asked for it."""
        assert self._task is not None, "not started"
        await asyncio.shield(self._task)

    async def _serve(self, ready: "asyncio.Future[None]") -> None:
        async with self.serving():
            ready.set_result(None)
            await self._stop.wait()

    @asynccontextmanager
    async def _figures(
        self,
        cluster: Cluster,
        listener: GrpcListener,
        sessions: Sessions,
        meter: CallMeter | None,
    ) -> AsyncIterator[None]:
        """Say how we are, for the length of a block, where somebody wants to know."""
        if meter is None:
            yield
            return
        figures = ProxyFigures(
            cluster, lambda: len(listener.connections), lambda: len(sessions), meter
        )
        figures.add_to(self._monitoring, self._config)
        async with (
            running("watch on brokers", figures.watch),
            nullcontext() if self._is_monitored_elsewhere else self._monitoring.serving(),
        ):
            yield

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["GrpcServer"]:
        config, clock = self._config, self._clock
        tls = GrpcTls(config)
        sessions = self._sessions = Sessions(config, clock)
        questions = Questions(config, sessions, clock)
        handlers = questions.handlers()
        client = RemotingClient(
            handlers=handlers, hooks=signing_hooks(config), tls=client_tls(config)
        )
        cluster = Cluster(
            name_servers=NameServers(config.namesrv_addr) if config.namesrv_addr else None,
            client=client,
            own=self._own,
            handlers=handlers,
            clock=clock,
        )
        questions.ask_through(cluster)
        access = self._access or GrpcAccess(
            RemoteDirectory(cluster, clock),
            authenticates=config.authentication_enabled,
            authorizes=config.authorization_enabled,
        )
        meter = CallMeter() if self._monitoring.is_on else None
        rpcs = Rpcs(access.check, None if meter is None else meter.observe)
        popped = PoppedMessages(cluster)
        renewals = Renewals(config, popped, cluster, clock)
        sessions.on_leave(renewals.clear)
        registration = Registration(config, cluster, sessions)
        for service in (
            RouteService(config, cluster),
            SendService(config, cluster, clock),
            OffsetService(config, cluster, clock),
            ReceiveService(config, cluster, sessions, popped, renewals, rpcs, clock),
            TelemetryService(config, cluster, sessions, registration, questions, rpcs),
        ):
            service.add_to(rpcs)

        def closed(connection: Http2Connection) -> None:
            cluster.drop_links(connection)

        listener = self._listener = GrpcListener(
            rpcs.open,
            Http2Limits(
                message_size=config.grpc_max_inbound_message_size,
                streams=config.grpc_max_concurrent_calls_per_connection,
            ),
            entrance=EntranceLimits(
                connections=config.max_connections,
                connections_per_address=config.max_connections_per_address,
                handshakes=config.max_tls_handshakes,
                handshake_s=config.tls_handshake_timeout_millis / 1000,
                silence_s=_FIRST_BYTES_S,
                proxies=networks("proxyProtocolAddresses", config.proxy_protocol_addresses),
            ),
            tls=tls,
            idle_s=config.grpc_client_idle_time_mills / 1000,
            on_close=closed,
        )
        try:
            async with (
                self._figures(cluster, listener, sessions, meter),
                running("clients", sessions.run),
                running("renewals", renewals.run),
                running("producers", registration.run),
                running("certificates", tls.run),
            ):
                await listener.start(config.bind_address, config.grpc_server_port)
                try:
                    yield self
                finally:
                    await listener.stop()
                    await rpcs.stop()
        finally:
            await cluster.close()
            await client.close()
