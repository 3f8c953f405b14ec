"""The brokers behind a proxy: what they have, and how they are asked.

The broker in whose process a proxy runs, if it runs in one, is called without a socket, by a
connection for each client: so it knows each of them, with its address. All other brokers are
called over the network, by connections that all clients share.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from rocketq.client.cluster.name_servers import NameServers
from rocketq.common.clock import Clock
from rocketq.proxy.adapter.queues import MASTER_ID, Writable
from rocketq.proxy.cache import Cache
from rocketq.proxy.calls import Call
from rocketq.proxy.http2.connection import Http2Connection
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused, refusal_of
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RemotingClient,
    RequestCode,
    ResponseCode,
)
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfigAndQueueMapping
from rocketq.remoting.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.namesrv import GetRouteInfo
from rocketq.remoting.headers.topics import GetSubscriptionGroupConfig, GetTopicConfig

logger = logging.getLogger(__name__)

CALL_S: Final = 3.0
_LINKS: Final = "links"
_MOST_LINKS: Final = 16_384


class OwnBroker(Protocol):
    """The broker in whose process a proxy runs."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def cluster(self) -> str: ...

    def connect(self, handlers: Handlers, peer: tuple[str, int]) -> Connection: ...


class Topic:
    """What a proxy knows of one topic."""

    __slots__ = ("message_type", "name", "route", "writable")

    def __init__(self, name: str, route: TopicRouteData, message_type: str | None) -> None:
        self.name = name
        self.route = route
        self.message_type = message_type
        self.writable = Writable(route)


class Cluster:
    """Belongs to the event loop."""

    def __init__(
        self,
        *,
        name_servers: NameServers | None,
        client: RemotingClient,
        own: OwnBroker | None,
        handlers: Handlers,
        clock: Clock,
    ) -> None:
        """`handlers` answer what the own broker asks of clients."""
        assert name_servers is not None or own is not None
        self._name_servers = name_servers
        self._client = client
        self._own = own
        self._handlers = handlers
        self._clock = clock
        fresh_s = 1.0 if own is not None else 10.0
        self.topics = Cache(self._load_topic, clock, fresh_s=fresh_s)
        self.groups = Cache(self._load_group, clock, fresh_s=fresh_s)
        self._masters: dict[str, str] = {}
        self._shared: Connection | None = None

    @property
    def own(self) -> OwnBroker | None:
        return self._own

    @property
    def masters(self) -> Mapping[str, str]:
        """Addresses of the masters seen so far, by their broker's name."""
        return self._masters

    async def close(self) -> None:
        await self.topics.close()
        await self.groups.close()
        if self._shared is not None:
            self._shared.close()

    # What there is

    async def topic(self, name: str) -> Topic:
        found = self.topics.now(name) or await self.topics.get(name)
        if found is None:
            raise Refused(pb.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        return found

    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        return self.groups.now(name) or await self.groups.get(name)

    async def _load_topic(self, name: str) -> Topic | None:
        if self._name_servers is None:
            return await self._load_own_topic(name)
        route = await self._route(name)
        if route is None or not route.queue_datas:
            return None
        masters = [
            broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs
        ]
        config = None
        for broker_name in self._own_first(masters):
            try:
                config = await self._topic_config(broker_name, name)
            except RemotingError as error:
                logger.debug("%s of broker %s: %s", name, broker_name, error)
            if config is not None:
                break
        message_type = None
        if config is not None:
            message_type = config.attributes.get("message.type", "NORMAL")
        return Topic(name, route, message_type)

    async def _load_own_topic(self, name: str) -> Topic | None:
        """Of a broker that registers nowhere."""
        own = self._own
        assert own is not None
        config = await self._topic_config(own.name, name)
        if config is None:
            return None
        route = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name=own.name,
                    read_queue_nums=config.read_queue_nums,
                    write_queue_nums=config.write_queue_nums,
                    perm=config.perm,
                )
            ],
            broker_datas=[
                BrokerData(
                    cluster=own.cluster, broker_name=own.name, broker_addrs={MASTER_ID: own.address}
                )
            ],
        )
        return Topic(name, route, config.attributes.get("message.type", "NORMAL"))

    async def _topic_config(
        self, broker_name: str, topic: str
    ) -> TopicConfigAndQueueMapping | None:
        reply = await self.ask(broker_name, Command.request(GetTopicConfig(topic=topic)))
        if reply.code == ResponseCode.SUCCESS:
            return TopicConfigAndQueueMapping.decode(reply.body)
        return None

    async def _route(self, topic: str) -> TopicRouteData | None:
        reply = await self._ask_name_server(Command.request(GetRouteInfo(topic=topic)))
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        route = TopicRouteData.decode(reply.body)
        self._note(route.broker_datas)
        return route

    def _note(self, brokers: Sequence[BrokerData]) -> None:
        for broker in brokers:
            address = broker.broker_addrs.get(MASTER_ID)
            if address is not None:
                self._masters[broker.broker_name] = address

    async def _ask_name_server(self, command: Command) -> Command:
        servers = self._name_servers
        assert servers is not None
        for _ in range(len(servers.addresses) - 1):
            address = servers.current
            try:
                return await self._client.call(address, command, CALL_S)
            except RemotingError as error:
                logger.debug("NameServer %s: %s", address, error)
                servers.failed(address)
        return await self._client.call(servers.current, command, CALL_S)

    async def _load_group(self, name: str) -> SubscriptionGroupConfig | None:
        if self._own is None and not self._masters:
            await self.look_around()
        for broker_name in self._own_first(list(self._masters)):
            try:
                reply = await self.ask(
                    broker_name, Command.request(GetSubscriptionGroupConfig(group=name))
                )
            except RemotingError as error:
                logger.debug("group %s of broker %s: %s", name, broker_name, error)
                continue
            if reply.code == ResponseCode.SUCCESS and reply.body:
                return SubscriptionGroupConfig.decode(reply.body)
            return None
        return None

    async def look_around(self) -> None:
        """Find out which brokers there are."""
        if self._name_servers is None:
            return
        reply = await self._ask_name_server(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        if reply.code == ResponseCode.SUCCESS:
            info = ClusterInfo.decode(reply.body)
            self._note(list(info.broker_addr_table.values()))

    def _own_first(self, broker_names: Sequence[str]) -> list[str]:
        if self._own is None:
            return sorted(broker_names)
        own = self._own.name
        return [own, *sorted(name for name in broker_names if name != own)]

    # Asking brokers

    async def ask(
        self,
        broker_name: str,
        command: Command,
        timeout_s: float = CALL_S,
        *,
        call: Call | None = None,
    ) -> Command:
        """The answer of a broker, whatever it says; in the name of a client where there is one."""
        if self._own is not None and broker_name == self._own.name:
            return await self._link(call).call(command, timeout_s)
        address = self._masters.get(broker_name)
        if address is None:
            raise Refused(pb.BAD_REQUEST, f"broker {broker_name} is not known")
        return await self._client.call(address, command, timeout_s)

    async def ask_all(self, broker_names: Sequence[str], command: Command) -> None:
        """Tell some brokers something, and do not wait for what they say."""
        for name in broker_names:
            try:
                address = self._masters.get(name)
                if address is not None:
                    await self._client.call_oneway(address, command)
            except RemotingError as error:
                logger.debug("broker %s: %s", name, error)

    def knows(self, broker_name: str) -> bool:
        return broker_name in self._masters or (
            self._own is not None and broker_name == self._own.name
        )

    def link(self, connection: Http2Connection, client_id: str) -> Connection:
        """A client's own connection to the own broker."""
        assert self._own is not None
        links: dict[str, Connection] = connection.attributes.setdefault(_LINKS, {})
        found = links.get(client_id)
        if found is None or found.is_closing:
            if len(links) >= _MOST_LINKS:
                raise Refused(pb.TOO_MANY_REQUESTS, "too many clients on one connection")
            found = self._own.connect(self._handlers, connection.peer or ("", 0))
            found.attributes["client_id"] = client_id
            links[client_id] = found
        return found

    def _link(self, call: Call | None) -> Connection:
        if call is not None:
            return self.link(call.connection, call.client_id)
        if self._shared is None or self._shared.is_closing:
            assert self._own is not None
            self._shared = self._own.connect(self._handlers, ("127.0.0.1", 0))
        return self._shared

    @staticmethod
    def drop_links(connection: Http2Connection) -> None:
        """A client is gone, and so are its connections."""
        for link in connection.attributes.pop(_LINKS, {}).values():
            link.close()

    @staticmethod
    def drop_link(connection: Http2Connection, client_id: str) -> None:
        link = connection.attributes.get(_LINKS, {}).pop(client_id, None)
        if link is not None:
            link.close()
