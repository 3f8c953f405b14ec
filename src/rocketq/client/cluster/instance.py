"""The client instance: what the producers and consumers of one client id share.

Connections, routes, heartbeats, stored offsets, which broker of a queue is asked, and (in
`broker_requests.py`) the answers to what brokers ask of clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from contextlib import asynccontextmanager
from typing import ClassVar, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from rocketq.client.cluster.broker_requests import BrokerRequests
from rocketq.client.cluster.name_servers import NameServers
from rocketq.client.cluster.outages import OUTAGES, is_outage
from rocketq.client.cluster.replies import PendingReplies
from rocketq.client.cluster.roles import ConsumerRole, ProducerRole
from rocketq.client.cluster.routes import MASTER_ID, BrokerAddress, RouteTable
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.cluster.signing import signing_hooks
from rocketq.client.config import ClientConfig
from rocketq.client.errors import ClientClosed, GroupInUse
from rocketq.client.identity import Identity, identity_of
from rocketq.common.clock import SYSTEM_CLOCK, Clock, ambient_clock
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.message.queue import MessageQueue
from rocketq.remoting import RemotingClient, RemotingClientConfig
from rocketq.remoting.bodies.heartbeat import HeartbeatData, ProducerData

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MISSING_TOPIC_INTERVAL_S: Final = 0.3
"""How soon to ask again for a topic nobody serves yet: its first message waits for us."""
_PROBE_INTERVAL_S: Final = 3.0
"""How often a broker that is away is asked whether it is back."""
_FIRST_REFRESH_PAUSE_S: Final = 0.05
_REFRESH_PAUSE_GROWTH: Final = 1.5
_REFRESH_PAUSE_S: Final = 1.0
"""How long a route asked for in the background is taken to be fresh: at first not for long, as
another master may be elected any moment."""
_CALM_S: Final = 5.0
_GOODBYE_TIMEOUT_S: Final = 1.0

_Key: TypeAlias = tuple[str, str, Identity]


class ClientInstance:
    """Shared by the clients of one id; belongs to one event loop."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, ClientInstance]]] = (
        WeakKeyDictionary()
    )

    def __init__(
        self,
        config: ClientConfig,
        client_id: str,
        *,
        stream: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.config = config
        self.client_id = client_id
        self.clock = clock
        self.replies = PendingReplies()
        self._producers: dict[str, ProducerRole] = {}
        self._consumers: dict[str, ConsumerRole] = {}
        who = identity_of(config)
        requests = BrokerRequests(self._producers, self._consumers, self.replies, clock)
        self.remoting = RemotingClient(
            RemotingClientConfig(),
            handlers=requests.handlers(),
            hooks=signing_hooks(who),
            on_connect=self._connected,
            tls=who.tls,
        )
        self.api = BrokerApi(
            self.remoting,
            NameServers(config.namesrv),
            timeout_s=config.api_timeout_s,
            stream=stream,
        )
        self.routes = RouteTable(self.api)
        self.routes.on_change(self._route_changed)
        self._key: _Key = ("", "", who)
        self._users = 0
        self._versions: dict[str, int] = {}
        self._stop = asyncio.Event()
        self._heartbeat_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._topics_missing = asyncio.Event()
        self._refreshes: dict[str, tuple[float, float]] = {}
        self._background: set[asyncio.Task[None]] = set()

    # Life

    @classmethod
    async def acquire(
        cls, config: ClientConfig, *, stream: bool = False, unique_name: bool = True
    ) -> ClientInstance:
        """The running instance of this configuration's client id; `release` it once."""
        client_id = config.client_id(unique_name=unique_name, stream=stream)
        instances = cls._of_loop.setdefault(asyncio.get_running_loop(), {})
        # One name may be used with two clusters, and by two users.
        key = client_id, str(NameServers(config.namesrv)), identity_of(config)
        instance = instances.get(key)
        if instance is None:
            clock = ambient_clock.get()
            instance = instances[key] = cls(config, client_id, stream=stream, clock=clock)
            instance._key = key
            instance._start()
        instance._users += 1
        return instance

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, config: ClientConfig, *, stream: bool = False
    ) -> AsyncIterator[ClientInstance]:
        """For tools that need the RPC layer and the routes only."""
        instance = await cls.acquire(config, stream=stream)
        try:
            yield instance
        finally:
            await instance.release()

    async def release(self) -> None:
        """One user less; the last one closes everything."""
        self._users -= 1
        if self._users == 0:
            instances = self._of_loop.get(asyncio.get_running_loop(), {})
            instances.pop(self._key, None)
            await self._close()

    def _start(self) -> None:
        for name, loop in (
            ("routes", self._keep_routes),
            ("missing topics", self._keep_looking_for_topics),
            ("heartbeats", self._keep_heartbeats),
            ("offsets", self._keep_offsets),
        ):
            self._tasks.append(asyncio.create_task(loop(), name=f"rocketq {name}"))

    async def _close(self) -> None:
        self._stop.set()
        self._heartbeat_wanted.set()
        tasks = [*self._tasks, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.routes.close()
        self.replies.close(ClientClosed(f"client {self.client_id}"))
        await self.remoting.close()

    # Users

    def register_producer(self, producer: ProducerRole) -> None:
        """Announce a producer group; brokers learn of it with the next heartbeat."""
        if producer.group in self._producers:
            raise GroupInUse("producer", producer.group, self.client_id)
        self._producers[producer.group] = producer
        for topic in producer.announced_topics():
            self.refresh_route_soon(topic)

    async def unregister_producer(self, group: str) -> None:
        """Forget a producer group, here and at every broker."""
        if self._producers.pop(group, None) is not None:
            await self._say_goodbye(producer_group=group)

    def register_consumer(self, consumer: ConsumerRole) -> None:
        """Announce a consumer group."""
        if consumer.group in self._consumers:
            raise GroupInUse("consumer", consumer.group, self.client_id)
        self._consumers[consumer.group] = consumer

    async def unregister_consumer(self, group: str) -> None:
        """Forget a consumer group, here and at every broker, which tells its other members."""
        if self._consumers.pop(group, None) is not None:
            await self._say_goodbye(consumer_group=group)

    async def _say_goodbye(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        async def tell(address: str) -> None:
            try:
                await self.api.unregister(
                    address,
                    self.client_id,
                    producer_group=producer_group,
                    consumer_group=consumer_group,
                    timeout_s=_GOODBYE_TIMEOUT_S,
                )
            except RocketqError as error:
                # The broker notices the closed connection anyway.
                logger.debug("could not unregister at %s: %s", address, error)

        # Only where somebody knows us: no connection, nothing to take back.
        addresses = [a for a in self._versions if a in self._known_addresses(masters_only=False)]
        await asyncio.gather(*(tell(address) for address in addresses))

    # Heartbeats

    def broker_version(self, address: str) -> int | None:
        """What the broker said of itself in its last answer to a heartbeat."""
        return self._versions.get(address)

    def heartbeat_soon(self) -> None:
        """Send heartbeats in the background; several wishes become one round."""
        self._heartbeat_wanted.set()

    async def heartbeat(self, *, only: Container[str] | None = None) -> None:
        """Tell every broker, or `only` some, who is here; none holds up the others."""
        if not self._producers and not self._consumers:
            return
        self.routes.forget_unused_brokers()
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=[consumer.consumer_data() for consumer in self._consumers.values()],
        )
        addresses = self._known_addresses(masters_only=not self._consumers)
        if only is not None:
            addresses = [address for address in addresses if address in only]
        await asyncio.gather(*(self._heartbeat_to(address, data) for address in addresses))

    async def _heartbeat_to(self, address: str, data: HeartbeatData) -> None:
        try:
            reply = await self.api.heartbeat(address, data)
        except RocketqError as error:
            was_known = self._versions.pop(address, None) is not None
            if is_outage(error):
                self._broker_is_away(address, error)
            else:
                level = logging.WARNING if was_known else logging.DEBUG
                logger.log(level, "heartbeat to %s failed: %s", address, error)
            return
        self._broker_is_there(address)
        self._versions[address] = reply.version

    def _broker_is_away(self, address: str, error: BaseException) -> None:
        OUTAGES.failed(f"broker {address}", error)
        if address not in self.routes.away:
            self.routes.away.add(address)
            self.heartbeat_soon()  # and from then on often, until it is back

    def _broker_is_there(self, address: str) -> None:
        OUTAGES.answered(f"broker {address}")
        self.routes.away.discard(address)

    def _known_addresses(self, *, masters_only: bool) -> list[str]:
        return [
            address
            for addresses in self.routes.brokers().values()
            for broker_id, address in addresses.items()
            if broker_id == MASTER_ID or not masters_only
        ]

    async def _keep_heartbeats(self) -> None:
        interval_s = self.config.heartbeat_interval_s
        next_round = self.clock.monotonic() + interval_s
        while not self._stop.is_set():
            # A broker that is away is looked for more often: somebody may wait for it.
            wait_s = min(_PROBE_INTERVAL_S, interval_s) if self.routes.away else interval_s
            if await asked_to_stop(self._heartbeat_wanted, within_s=wait_s):
                next_round = 0.0
            self._heartbeat_wanted.clear()
            now = self.clock.monotonic()
            if now >= next_round or not self.routes.away:
                next_round = now + interval_s
                await self.heartbeat()
            else:
                await self.heartbeat(only=self.routes.away)

    def _connected(self, address: str) -> None:
        """A broker was reached, maybe again: it has forgotten us with the old connection."""
        self._broker_is_there(address)
        if address not in self._known_addresses(masters_only=not self._consumers):
            return
        self.heartbeat_soon()
        if address in self._versions:
            for consumer in self._consumers.values():
                consumer.rebalance_soon()

    # Routes

    async def _keep_routes(self) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(self.config.route_interval_s)
            await self.refresh_routes()

    def look_for_topics(self) -> None:
        """Topics are consumed that nobody serves yet: ask for them until somebody does."""
        self._topics_missing.set()

    async def _keep_looking_for_topics(self) -> None:
        while not self._stop.is_set():
            missing = [t for t in self._consumed_topics() if self.routes.route(t) is None]
            if not missing:
                self._topics_missing.clear()
                await self._topics_missing.wait()
                continue
            await asyncio.sleep(min(_MISSING_TOPIC_INTERVAL_S, self.config.route_interval_s))
            await self._refresh(missing)

    async def refresh_routes(self) -> None:
        """Ask for every topic in use; a NameServer that is away changes nothing."""
        announced = [t for each in self._producers.values() for t in each.announced_topics()]
        await self._refresh({*self.routes.topics(), *self._consumed_topics(), *announced})

    async def _refresh(self, topics: Iterable[str]) -> None:
        for topic in topics:
            try:
                await self.routes.refresh(topic)
            except RocketqError as error:
                logger.debug("route of %s not refreshed: %s", topic, error)
            except Exception:
                logger.exception("route of %s not refreshed", topic)

    def refresh_route_soon(self, topic: str) -> None:
        """Ask for a topic's route in the background: what is known seems to be out of date."""
        now = self.clock.monotonic()
        asked_at, pause_s = self._refreshes.get(topic, (-_CALM_S, 0.0))
        if now < asked_at + pause_s:
            return
        pause_s = min(pause_s * _REFRESH_PAUSE_GROWTH, _REFRESH_PAUSE_S)
        if now >= asked_at + _CALM_S:
            pause_s = _FIRST_REFRESH_PAUSE_S
        self._refreshes[topic] = (now, pause_s)
        task = asyncio.create_task(self._refresh_in_background(topic))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _refresh_in_background(self, topic: str) -> None:
        try:
            await self.routes.refresh(topic)
        except RocketqError as error:
            logger.debug("route of %s not refreshed: %s", topic, error)

    async def ask_broker_of(
        self,
        queue: MessageQueue,
        ask: Callable[[BrokerAddress], Awaitable[T]],
        *,
        broker_id: int = MASTER_ID,
    ) -> T:
        """Ask the broker of this id that serves a queue; where it is away, another of its name.

        A slave has the queue as well, and takes offsets while the master is away. This is the
        one place that chooses among them: each answer about a queue tells whether its broker is
        there.
        """
        while True:
            broker = await self.routes.broker_of(queue, broker_id)
            try:
                answer = await ask(broker)
            except RocketqError as error:
                if not is_outage(error):
                    raise
                self._broker_is_away(broker.address, error)
                self.refresh_route_soon(queue.topic)
                other = self.routes.find(queue.broker_name, broker_id=broker_id)
                if other is None or other.address in self.routes.away:
                    raise
                logger.info("%s is asked of broker %d now", queue, other.broker_id)
                continue
            if broker.address in self.routes.away:
                self._broker_is_there(broker.address)
            return answer

    def _consumed_topics(self) -> set[str]:
        return {topic for consumer in self._consumers.values() for topic in consumer.topics()}

    def _route_changed(self, topic: str) -> None:
        for consumer in self._consumers.values():
            consumer.routes_changed(topic)
        masters_only = not self._consumers
        if any(a not in self._versions for a in self._known_addresses(masters_only=masters_only)):
            self.heartbeat_soon()

    # Offsets

    async def _keep_offsets(self) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(self.config.persist_interval_s)
            for consumer in list(self._consumers.values()):
                try:
                    await consumer.persist_offsets()
                except (RocketqError, OSError) as error:
                    logger.warning("offsets of %s not stored: %s", consumer.group, error)
                except Exception:
                    logger.exception("offsets of %s not stored", consumer.group)
