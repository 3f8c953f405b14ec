"""The broker: everything in this package, put together.

`Broker.serving` is the whole system in one place. Downwards it is the order of start: the
store first, the tables, the services above the store, the listeners, and last the word to
the NameServers that we are here. Upwards it is the order of stop.

One event loop owns everything. Threads only wait for the disk.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

from rocketq.broker.access.references import References
from rocketq.broker.access.setup import guards, make_users, plain_files
from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.arrivals import Arrivals
from rocketq.broker.clients.consumers import ConsumerTable
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.cluster.addresses import with_addresses
from rocketq.broker.cluster.registration import Registration, ha_port
from rocketq.broker.cluster.topic_routes import TopicRoutes
from rocketq.broker.cluster.topic_spreading import TopicSpreading
from rocketq.broker.cold_read_limits import ColdReadLimits
from rocketq.broker.config import BrokerConfig, LiveConfig, check_configs
from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.housekeeping import Housekeeping, OffsetSaving
from rocketq.broker.large_answers import LargeAnswers
from rocketq.broker.listeners import Listeners
from rocketq.broker.long_polling import LongPolling
from rocketq.broker.metrics.deferred import DeferredFigures
from rocketq.broker.metrics.exposition import add_figures, labels
from rocketq.broker.metrics.health import BrokerHealth
from rocketq.broker.metrics.lag import LagFigures
from rocketq.broker.metrics.storage import DiskWatch, StorageFigures
from rocketq.broker.metrics.traffic import TrafficFigures
from rocketq.broker.pop import (
    HeldPops,
    MergeBuffer,
    OrderedQueues,
    Popping,
    Revival,
    ReviveLog,
)
from rocketq.broker.processor.ack import AckProcessor
from rocketq.broker.processor.admin.cold_reads import ColdReadAdminProcessor
from rocketq.broker.processor.admin.config import ConfigAdminProcessor
from rocketq.broker.processor.admin.connections import ConnectionAdminProcessor
from rocketq.broker.processor.admin.groups import GroupAdminProcessor
from rocketq.broker.processor.admin.offsets import OffsetAdminProcessor
from rocketq.broker.processor.admin.plain_access import PlainAccessProcessor
from rocketq.broker.processor.admin.progress import ProgressAdminProcessor
from rocketq.broker.processor.admin.relay import RelayAdminProcessor
from rocketq.broker.processor.admin.replication import ReplicationAdminProcessor
from rocketq.broker.processor.admin.storage import StorageAdminProcessor
from rocketq.broker.processor.admin.topics import TopicAdminProcessor
from rocketq.broker.processor.admin.transactions import TransactionAdminProcessor
from rocketq.broker.processor.assignment import AssignmentProcessor
from rocketq.broker.processor.client import ClientProcessor
from rocketq.broker.processor.consumer_offset import ConsumerOffsetProcessor
from rocketq.broker.processor.end_transaction import EndTransactionProcessor
from rocketq.broker.processor.lock import LockProcessor
from rocketq.broker.processor.pop import PopProcessor
from rocketq.broker.processor.pull import PullProcessor
from rocketq.broker.processor.query import QueryProcessor
from rocketq.broker.processor.reply import ReplyProcessor
from rocketq.broker.processor.send import SendProcessor
from rocketq.broker.processor.send_back import SendBackProcessor
from rocketq.broker.processor.timer import TimerProcessor
from rocketq.broker.queue_locks import QueueLocks
from rocketq.broker.replication.comparison import LogComparison
from rocketq.broker.replication.controlled import ControlledRole
from rocketq.broker.replication.controllers import Controllers
from rocketq.broker.replication.master_location import LogSearch, MasterLocation, MasterSearch
from rocketq.broker.replication.metadata_sync import MetadataSync
from rocketq.broker.replication.reading import Reading
from rocketq.broker.replication.role import Role, RoleHolder, first_role, warn_of_no_waiting
from rocketq.broker.replication.services import RoleServices
from rocketq.broker.retry import RetryTopics
from rocketq.broker.stats.runtime_info import RuntimeInfo
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.request_modes import RequestModes
from rocketq.broker.tables.topics import Topics
from rocketq.broker.timer import TimerMessages
from rocketq.broker.transaction import TransactionalMessages
from rocketq.broker.writer import MessageWriter
from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.loop.promptness import be_prompt
from rocketq.common.loop.service import running
from rocketq.common.loop.turns import Turns
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.common.metrics.settings import exporter_settings
from rocketq.message.hosts import encode_host
from rocketq.remoting import Connection, RemotingClient, RemotingClientConfig
from rocketq.remoting.access.administration import AccessProcessor
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.settings import signing_hooks
from rocketq.remoting.link.alertness import keep_awake
from rocketq.remoting.link.handlers import Handlers
from rocketq.remoting.link.meter import RequestMeter
from rocketq.remoting.tls.certificates import ServerTls, client_tls
from rocketq.store import Disk, MessageStore, StoreConfig
from rocketq.store.durability.running_flags import Flag
from rocketq.store.replication.follower import LogFollower

logger = logging.getLogger(__name__)


class Broker:
    """One broker in this process.

    `async with Broker(...).serving()` runs it for the length of a block; `start` and `stop`
    do the same for callers that have no block.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk | None = None,
        config_path: Path | None = None,
        owns_process: bool = False,
        monitoring: Monitoring | None = None,
    ) -> None:
        """`owns_process`: nothing else of note runs here, so its memory may be tuned for us.

        `monitoring`: where to say how we are, if the process has such a place already.
        """
        check_configs(config, store_config)
        self._config = config
        self._store_config = store_config
        self._clock = clock
        self._disk = disk
        self._config_path = config_path
        self._owns_process = owns_process
        self._monitoring = monitoring
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listeners: Listeners | None = None
        self._directory: AccessDirectory | None = None
        self._codes: frozenset[int] = frozenset()

    @property
    def port(self) -> int:
        """The port clients use; where the configuration said 0, the one it was given."""
        return self._config.listen_port

    @property
    def address(self) -> str:
        """What NameServers and clients are told."""
        return f"{self._config.broker_ip1}:{self.port}"

    @property
    def monitoring(self) -> Monitoring | None:
        """Where it says how it is, once it was started."""
        return self._monitoring

    @property
    def metrics_url(self) -> str:
        """Where figures are; empty where they are not served."""
        return "" if self._monitoring is None else self._monitoring.url

    @property
    def served_codes(self) -> frozenset[int]:
        """The requests it answers."""
        return self._codes

    @property
    def connections(self) -> frozenset[Connection]:
        """The connections open now, on both ports."""
        return frozenset() if self._listeners is None else self._listeners.connections

    @property
    def config(self) -> BrokerConfig:
        """As it was started."""
        return self._config

    @property
    def directory(self) -> AccessDirectory:
        """Its users and their rights."""
        assert self._directory is not None, "not started"
        return self._directory

    def connect(self, handlers: Handlers, peer: tuple[str, int]) -> Connection:
        """A connection for what runs in this process and speaks for others, such as a proxy.

        `handlers` answer what the broker asks; `peer` is for whom it speaks. Rights are not
        looked at here: whoever connects so has done that.
        """
        assert self._listeners is not None, "not started"
        return self._listeners.main.connect_locally(handlers, peer)

    # Life

    async def start(self) -> None:
        """Start everything; returns when the broker can be used."""
        assert self._task is None, "already started"
        ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(
            self._serve(ready), name=f"broker {self._config.broker_name}"
        )
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task  # raises what went wrong

    async def stop(self) -> None:
        """Stop everything; returns when all of it is on the disk."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def stopped(self) -> None:
        """Wait for the end; raises what ended it, if nobody asked for it."""
        assert self._task is not None, "not started"
        await asyncio.shield(self._task)

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        try:
            async with self.serving():
                ready.set_result(None)
                await self._stop.wait()
        except BaseExceptionGroup as group:
            # One thing went wrong, and every service above it wrapped it once more.
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            raise error from None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Broker"]:
        """The broker, for the length of a block."""
        config = self._config = await with_addresses(self._config)
        clock = self._clock
        is_monitored_elsewhere = self._monitoring is not None
        monitoring = self._monitoring = self._monitoring or Monitoring(
            exporter_settings(config, config.broker_ip1, config.broker_ip1)
        )
        live = LiveConfig(config, self._store_config, path=self._config_path, clock=clock)
        folder = Path(self._store_config.store_path_root_dir) / "config"
        store_host = encode_host(config.broker_ip1, config.listen_port)

        # What the broker is.
        roles = RoleHolder(first_role(config, self._store_config))
        warn_of_no_waiting(roles.current, self._store_config)
        location = MasterLocation(live)
        is_controlled = config.enable_controller_mode

        # What the broker knows.
        topics = Topics(live, folder / "topics.json", clock)
        groups = SubscriptionGroups(live, folder / "subscriptionGroup.json", clock)
        offsets = ConsumerOffsets(
            folder / "consumerOffset.json", clock, limit=lambda: live.broker.max_consumer_offsets
        )
        modes = RequestModes(folder / "messageRequestMode.json")
        producers = ProducerTable(clock)
        consumers = ConsumerTable(live, groups, clock)
        locks = QueueLocks(clock)
        stats = BrokerStats(live, clock)
        turns = Turns(monotonic=clock.monotonic)

        # What it does with messages.
        store = MessageStore(self._store_config, clock=clock, disk=self._disk)
        store.is_controlled = is_controlled
        writer = MessageWriter(store)
        acknowledgements = Acknowledgements(live, store)
        arrivals = Arrivals(store)
        long_polling = LongPolling(
            clock,
            limit=config.max_held_pulls,
            peer_limit=config.max_held_pulls_per_connection,
            listen=arrivals.listen("pulls"),
        )
        live.on_change(lambda before, after: store.apply(live.store))
        retries = RetryTopics(topics, groups, locks, stats)
        scheduled = ScheduledMessages(live, store, stats, folder / "delayOffset.json", clock)
        writer.add_transformation(scheduled.transform)
        timers = TimerMessages(live, store, stats, clock)
        writer.add_transformation(timers.transform)
        revive_log = ReviveLog(live, writer, clock, store_host)
        ordered = OrderedQueues(folder / "consumerOrderInfo.json", clock)
        buffer = MergeBuffer(
            *(live, offsets, revive_log),
            lambda topic, group: topic in topics and group in groups,
            clock,
        )
        popping = Popping(
            *(live, topics, groups, offsets, store, revive_log, buffer, ordered, stats, clock)
        )
        held_pops = HeldPops(clock, arrivals.listen("pops"), newest_first=False)
        held_notifications = HeldPops(clock, arrivals.listen("notifications"), newest_first=True)
        revival = Revival(live, topics, groups, offsets, store, revive_log, timers, stats)
        directory = self._directory = AccessDirectory(folder)
        accounts = plain_files(config, clock)
        references = References(guards(config, directory, accounts))
        transactions = TransactionalMessages(
            live, topics, store, writer, offsets, producers, clock, references
        )
        housekeeping = Housekeeping(
            live, groups, offsets, producers, consumers, locks, ordered, topics, store
        )
        tls = ServerTls(config)
        client = RemotingClient(hooks=signing_hooks(config), tls=client_tls(config))
        registration = Registration(live, topics, client, self.address, roles, location)
        topic_routes = TopicRoutes(live, topics, client, clock)
        spreading = TopicSpreading(live, topics, client, registration.announced)

        # What it does as master, and as slave.
        log_port = ha_port(live)
        comparison = LogComparison(client, location)
        follower = LogFollower(self._store_config, store.received, comparison)
        location.on_change(lambda: follower.follow(location.log_address))
        follower.follow(location.log_address)
        live.on_change(lambda before, after: follower.configure(live.store))
        # A controller takes the end of a connection for the end of the broker.
        controllers_client = RemotingClient(
            RemotingClientConfig(client_close_socket_if_timeout=False),
            hooks=signing_hooks(config),
            tls=client_tls(config),
        )
        controllers = Controllers(controllers_client, lambda: live.broker.controllers)
        controlled = ControlledRole(
            *(live, store, roles, location, follower, controllers, clock, self.address),
            on_role=registration.begin,
        )
        if is_controlled:
            reason = "the controller has not said who is master"
            store.flags.set(Flag.FENCED, reason, logging.INFO)
            follower.expect_epochs(store.epochs, lambda: role_services.restart())
        reading = Reading(live, roles, follower)
        runtime_info = RuntimeInfo(live, store, stats, scheduled, timers, clock, follower)
        metadata = MetadataSync(
            client,
            location,
            comparison,
            follower,
            store,
            topics,
            groups,
            offsets,
            scheduled,
            timers,
            modes,
        )
        follower.on_change(long_polling.wake_all)

        def take_role(role: Role) -> None:
            store.take_role(role.kind, None if role.is_slave else controlled.reign)
            if role.epoch:
                topics.begin_epoch(role.epoch)
            sends.role_taken()
            offsets.keep_apart(role.is_slave)
            timers.is_delivering = not role.is_slave

        role_services = RoleServices(
            roles,
            master={
                "slaves": partial(_serve_slaves, store, config.bind_address, log_port),
                "delayed messages": scheduled.run,
                "popped messages": revival.run,
                "merged check points": buffer.run,
                "transactions": transactions.run,
                "who is in sync": controlled.sync_states.run,
            },
            slave={
                "copy of the log": follower.run,
                "copies of tables": metadata.run,
                "search for the master": (
                    LogSearch(client, location).run
                    if is_controlled
                    else MasterSearch(follower, registration.register_all).run
                ),
            },
            always={"timed messages": timers.run},
            take_role=take_role,
        )

        # Who answers what.
        sends = SendProcessor(
            *(live, topics, retries, store, writer, transactions, acknowledgements, stats),
            *(clock, store_host),
        )
        routes = _merged(
            sends.handlers(),
            SendBackProcessor(live, retries, store, writer, stats, references).handlers(),
            ReplyProcessor(live, sends, producers, writer, clock, store_host).handlers(),
            PullProcessor(
                live, topics, groups, offsets, consumers, long_polling, store, stats, reading
            ).handlers(),
            PopProcessor(
                live, topics, groups, popping, held_pops, held_notifications, store, turns, clock
            ).handlers(),
            AccessProcessor(directory).handlers(),
            PlainAccessProcessor(
                live, accounts if config.acl_enable else None, self.address
            ).handlers(),
            AckProcessor(
                *(live, topics, offsets, store, revive_log, buffer, ordered),
                *((held_pops, held_notifications), stats, turns, clock),
            ).handlers(),
            ClientProcessor(live, topics, groups, producers, consumers, turns, clock).handlers(),
            ConsumerOffsetProcessor(live, topics, groups, offsets, store).handlers(),
            LockProcessor(locks, topics, groups, turns).handlers(),
            TimerProcessor(live, topics, timers, writer, clock, store_host).handlers(),
            QueryProcessor(live, store, references).handlers(),
            EndTransactionProcessor(
                live, transactions, writer, store, stats, clock, references
            ).handlers(),
            AssignmentProcessor(live, topics, groups, consumers, modes, topic_routes).handlers(),
            # Administration.
            TopicAdminProcessor(live, topics, offsets, store, stats, turns).handlers(),
            GroupAdminProcessor(live, groups, offsets, stats, turns).handlers(),
            OffsetAdminProcessor(
                live, topics, groups, offsets, consumers, scheduled, long_polling, store, turns
            ).handlers(),
            ProgressAdminProcessor(
                *(live, topics, groups, offsets, consumers, store, stats, turns, clock),
                self.address,
            ).handlers(),
            ConnectionAdminProcessor(producers, consumers, offsets, turns, self.address).handlers(),
            RelayAdminProcessor(live, topics, groups, consumers, store, references).handlers(),
            StorageAdminProcessor(topics, consumers, store, runtime_info, turns).handlers(),
            ReplicationAdminProcessor(
                *(live, store, roles, follower, controlled, clock),
                address=self.address,
                log_address=f"{config.broker_ip2}:{log_port}",
            ).handlers(),
            ConfigAdminProcessor(live).handlers(),
            TransactionAdminProcessor(transactions, store).handlers(),
            ColdReadAdminProcessor(ColdReadLimits(live), store).handlers(),
        )
        routes = LargeAnswers().limited(routes)

        def on_connect(connection: Connection) -> None:
            stats.channel_event("CONNECT")

        def on_close(connection: Connection) -> None:
            stats.channel_event("CLOSE")
            producers.drop_connection(connection)
            consumers.drop_connection(connection)
            long_polling.drop_peer(connection)
            held_pops.drop_peer(connection)
            held_notifications.drop_peer(connection)

        # How it is.
        disk_watch = DiskWatch(store, clock)
        health = BrokerHealth(live, store, disk_watch, follower, registration)
        meter = RequestMeter() if monitoring.is_on and config.enable_remoting_metrics else None

        if self._owns_process:
            keep_awake(asyncio.get_running_loop(), config.stay_awake_micros)
        listeners = self._listeners = Listeners(
            config,
            routes,
            tls,
            guards(config, directory, accounts),
            on_connect=on_connect,
            on_close=on_close,
            meter=meter,
        )
        self._codes = frozenset(routes)
        if monitoring.is_on:
            if config.enable_request_metrics:
                stats.sizes = {}
            traffic = TrafficFigures(
                live, topics, groups, stats, producers, consumers, acknowledgements
            )
            add_figures(
                monitoring.part("broker", labels(config)),
                config,
                health,
                traffic,
                partial(
                    traffic.clients,
                    {
                        "main": lambda: listeners.main.connection_count,
                        "vip": lambda: listeners.vip.connection_count,
                    },
                    lambda: listeners.accepted_count,
                    {
                        "pull": lambda: long_polling.held_count,
                        "pop": lambda: held_pops.count,
                        "notification": lambda: held_notifications.count,
                    },
                ),
                LagFigures(topics, offsets, store, clock),
                StorageFigures(store, disk_watch, acknowledgements, follower, clock),
                DeferredFigures(
                    *(live, stats, transactions, timers, scheduled, revive_log, revival),
                    *(buffer, clock),
                ),
                meter,
            )
        for table in (topics, groups, offsets, modes, scheduled, ordered, directory):
            table.load()
        offsets.keep_behind(store.flush_log)
        make_users(config, directory, accounts)

        async with (
            nullcontext() if is_monitored_elsewhere else monitoring.serving(turns),
            store,
            running("watch on the disk", disk_watch.run) if monitoring.is_on else nullcontext(),
            _progress_within(store, offsets, roles),
            _kept_on_disk(topics, groups, offsets, ordered, directory),
            running("consumer offsets", OffsetSaving(live, offsets, ordered).run),
            running("statistics", stats.run),
            _closing(client),
            running("services of the role", role_services.run),
            running("housekeeping", housekeeping.run),
            running("certificates", tls.run),
            running("accounts", accounts.run if accounts is not None else _nothing),
            listeners.serving(acknowledgements.answered),
            running("registration", registration.run),
            running("topics for all brokers", spreading.run),
            _closing(controllers_client),
            running("role", controlled.run if is_controlled else _nothing),
        ):
            await role_services.started()
            await registration.first_round()
            if self._owns_process:
                be_prompt()
            logger.info("broker %s serves at %s", config.broker_name, self.address)
            health.stage = None
            try:
                yield self
            finally:
                health.stage = "stopping"
                long_polling.close()
                held_pops.close()
                held_notifications.close()


def _merged(*parts: Handlers) -> Handlers:
    """One table out of many; a code that two of them want is a mistake of ours."""
    routes: Handlers = {}
    for part in parts:
        assert not routes.keys() & part.keys(), sorted(routes.keys() & part.keys())
        routes |= part
    return routes


@asynccontextmanager
async def _progress_within(
    store: MessageStore, offsets: ConsumerOffsets, roles: RoleHolder
) -> AsyncIterator[None]:
    """Begin with no group ahead of the log. A slave's groups may be: its master knows them."""
    report = store.recovery
    if report is not None and report.may_lack_its_end and not roles.current.is_slave:
        offsets.follow_log(store.max_offset)
    yield


@asynccontextmanager
async def _kept_on_disk(
    *tables: Topics | SubscriptionGroups | ConsumerOffsets | OrderedQueues | AccessDirectory,
) -> AsyncIterator[None]:
    """Write the tables once more at the end."""
    try:
        yield
    finally:
        for table in tables:
            await table.close()


@asynccontextmanager
async def _closing(client: RemotingClient) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await client.close()


async def _nothing(stop: asyncio.Event) -> None:
    """A part that this broker does not have."""


async def _serve_slaves(store: MessageStore, host: str, port: int, stop: asyncio.Event) -> None:
    """Let slaves copy the log, while this is a master."""
    await store.replicas.listen(host, port)
    try:
        await stop.wait()
    finally:
        await store.replicas.close()
