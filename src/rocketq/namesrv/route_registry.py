"""Who serves which topic: the tables of a NameServer.

    topics     topic -> the queues each broker has for it
    brokers    broker name -> cluster, zone, and an address for every broker id (0 is the master)
    clusters   cluster -> broker names
    live       (cluster, address) -> when it was last heard of, its data version, its connection

Nothing here is written to disk: brokers register anew every half minute, so a restarted
NameServer knows them all again soon.

Fifty thousand topics look alike to a route: its text names brokers and queue counts, never the
topic. Topics with the same queues on the same brokers therefore share one `TopicQueues`, and
with it one encoded route.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from rocketq.common.clock import Clock
from rocketq.common.slices import Slices, at_once
from rocketq.message.flags import Permission
from rocketq.namesrv.registration import (
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    MASTER_ID,
    BrokerAddress,
    LiveBroker,
    Master,
    MinimumIdChange,
    Registration,
    RegistrationRefused,
)
from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData

logger = logging.getLogger(__name__)


# The membership topic of a broker group shows who is really there, so no slave is dressed up
# as master in its route.
_MEMBERSHIP_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"


class RouteForm(NamedTuple):
    """How a requester wants its routes."""

    standard_json: bool
    acting_master: bool


class TopicQueues:
    """The queues of a topic on all its brokers; one object for all topics that have the same.

    Never changed once made, but for `encoded`: the route texts made from it, each with the
    generation of the broker table it was made from.
    """

    __slots__ = ("__weakref__", "by_broker", "encoded")

    def __init__(self, by_broker: dict[str, QueueData]) -> None:
        self.by_broker = by_broker
        self.encoded: dict[RouteForm, tuple[int, bytes | None]] = {}


# Topics that are changed in one slice of long work.
_SLICE: Final = 1000


class RouteRegistry:
    """The tables, changed by calls without an `await`.

    What touches very many topics is done in slices: between them a reader sees some topics
    as they were and some as they will be, each of them whole.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        on_minimum_id_change: Callable[[MinimumIdChange], None] = lambda change: None,
        on_new_broker: Callable[[str], None] = lambda broker_name: None,
        on_long_work: Callable[[Slices[None]], None] = at_once,
    ) -> None:
        """`on_long_work` is handed what may be done in slices, and begins with it."""
        self._clock = clock
        self._on_new_broker = on_new_broker
        self._on_minimum_id_change = on_minimum_id_change
        self._on_long_work = on_long_work
        # Brokers that are gone while some of their topics are still to be taken away.
        self._leaving: set[str] = set()
        self._topics: dict[str, TopicQueues] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerAddress, LiveBroker] = {}
        self._filter_servers: dict[BrokerAddress, tuple[str, ...]] = {}
        self._queue_mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._shared: WeakValueDictionary[tuple[QueueData, ...], TopicQueues] = (
            WeakValueDictionary()
        )
        # Counts changes to what routes say besides queues; older route texts are stale.
        self._generation = 0
        # Routes of ordered and static topics name the topic's own settings, so no two share.
        self._own_routes: dict[tuple[str, RouteForm, str | None], bytes] = {}

    # Brokers come and go

    def register(self, new: Registration, *, delete_missing_topics: bool = False) -> Master | None:
        """Take over what a broker says of itself; for a slave, answer with its master.

        Raises `RegistrationRefused` when a broker not yet known brings a single topic: that
        is the form of an update, and would make all its other topics unknown.
        """
        return at_once(self.registering(new, delete_missing_topics=delete_missing_topics))

    def registering(
        self, new: Registration, *, delete_missing_topics: bool = False
    ) -> Slices[Master | None]:
        """The same in slices. Whoever calls this has one under way for each broker."""
        if new.broker_name in self._leaving:
            yield from self._drop_broker_topics(new.broker_name)
        key = BrokerAddress(new.cluster, new.address)
        known = self._brokers.get(new.broker_name)
        addresses = dict(known.broker_addrs) if known is not None else {}
        minimum_before = min(addresses, default=MASTER_ID)

        # A slave promoted to master keeps its address and must not appear under both ids.
        for broker_id in [i for i, a in addresses.items() if a == new.address]:
            if broker_id != new.broker_id:
                del addresses[broker_id]

        holder = addresses.get(new.broker_id)
        if holder is not None and holder != new.address and self._is_newer(holder, new):
            logger.warning(
                "broker %s at %s is ignored: %s holds id %d with a newer state version",
                new.broker_name, new.address, holder, new.broker_id,
            )  # fmt: skip
            self._live.pop(key, None)
            return None
        if holder is None and len(new.topics) == 1:
            raise RegistrationRefused(
                f"broker {new.broker_name} at {new.address} is not yet known and brings one topic"
            )

        addresses[new.broker_id] = new.address
        is_first = not holder
        live_before = self._live.get(key)
        is_changed = live_before is None or live_before.data_version != new.data_version
        broker = BrokerData(
            cluster=new.cluster,
            broker_name=new.broker_name,
            broker_addrs=addresses,
            zone_name=new.zone,
            enable_acting_master=bool(new.enable_acting_master),
        )
        if broker != known:
            self._brokers[new.broker_name] = broker
            self._routes_changed()
        self._clusters.setdefault(new.cluster, set()).add(new.broker_name)

        is_prime_slave = (
            new.enable_acting_master is not None
            and new.broker_id != MASTER_ID
            and new.broker_id == min(addresses)
        )
        self._live[key] = LiveBroker(
            self._clock.now_ms(),
            new.heartbeat_timeout_ms or DEFAULT_HEARTBEAT_TIMEOUT_MS,
            new.data_version,
            new.connection,
            new.ha_address,
        )
        if self._filter_servers.get(key, ()) != new.filter_servers:
            self._filter_servers[key] = new.filter_servers
            if not new.filter_servers:
                del self._filter_servers[key]
            self._routes_changed()
        if new.broker_id == MASTER_ID or is_prime_slave:
            yield from self._take_topics(
                new,
                rewrite=is_first or is_changed,
                read_only=is_prime_slave and broker.enable_acting_master,
                delete_missing=delete_missing_topics,
            )
        if is_first:
            logger.info(
                "broker %s id %d of cluster %s registered at %s with %d topics",
                new.broker_name, new.broker_id, new.cluster, new.address, len(new.topics),
            )  # fmt: skip
            self._on_new_broker(new.broker_name)

        if new.broker_id < minimum_before:
            self._on_minimum_id_change(
                MinimumIdChange(new.broker_name, addresses, None, new.ha_address)
            )
        if new.broker_id == MASTER_ID:
            return None
        return self._master_of(broker)

    def _is_newer(self, holder: str, new: Registration) -> bool:
        live = self._live.get(BrokerAddress(new.cluster, holder))
        return live is not None and live.data_version.state_version > new.data_version.state_version

    def _master_of(self, broker: BrokerData) -> Master | None:
        address = broker.broker_addrs.get(MASTER_ID)
        if address is None:
            return None
        live = self._live.get(BrokerAddress(broker.cluster, address))
        return Master(address, live.ha_address) if live is not None else None

    def _take_topics(
        self, new: Registration, *, rewrite: bool, read_only: bool, delete_missing: bool
    ) -> Slices[None]:
        # One topic alone is an update; only longer lists can be the whole of what there is.
        if delete_missing and not new.queue_mappings and len(new.topics) > 1:
            yield from self._drop_missing(new)
        changes = _Changes(self)
        for number, (topic, queues) in enumerate(new.topics.items(), 1):
            if number % _SLICE == 0:
                yield
                if not self._is_live(new):
                    return
            if read_only:
                queues = replace(queues, perm=queues.perm & ~Permission.WRITE)
            before = self._topics.get(topic)
            if rewrite or before is None or new.broker_name not in before.by_broker:
                self._topics[topic] = changes.with_queues(before, queues)
        if rewrite and new.queue_mappings:
            for topic, mapping in new.queue_mappings.items():
                self._queue_mappings.setdefault(topic, {})[new.broker_name] = mapping
            self._own_routes.clear()

    def _drop_missing(self, new: Registration) -> Slices[None]:
        """Take away what a broker no longer has."""
        known = list(self._topics)
        for start in range(0, len(known), _SLICE):
            if start:
                yield
                if not self._is_live(new):
                    return
            self._drop_queues(
                [topic for topic in known[start : start + _SLICE] if topic not in new.topics],
                {new.broker_name},
            )

    def _is_live(self, new: Registration) -> bool:
        """Whether a broker is still there that was when its registration began."""
        live = self._live.get(BrokerAddress(new.cluster, new.address))
        return live is not None and live.connection is new.connection

    def unregister(self, leaving: BrokerAddress, broker_name: str, broker_id: int) -> None:
        """Forget an address, and with the last address of a broker name its topics."""
        self._live.pop(leaving, None)
        if self._filter_servers.pop(leaving, None) is not None:
            self._routes_changed()
        broker = self._brokers.get(broker_name)
        if broker is None or leaving.address not in broker.broker_addrs.values():
            return
        logger.info("broker %s at %s is gone", broker_name, leaving.address)
        addresses = {i: a for i, a in broker.broker_addrs.items() if a != leaving.address}
        self._routes_changed()
        if not addresses:
            del self._brokers[broker_name]
            for cluster, names in list(self._clusters.items()):
                names.discard(broker_name)
                if not names:
                    del self._clusters[cluster]
            self._leaving.add(broker_name)
            self._on_long_work(self._drop_broker_topics(broker_name))
            return
        self._brokers[broker_name] = replace(broker, broker_addrs=addresses)
        if broker.enable_acting_master and MASTER_ID not in addresses:
            self._change_permissions(broker_name, lambda perm: perm & ~Permission.WRITE)
        if broker_id == min(broker.broker_addrs):
            self._on_minimum_id_change(
                MinimumIdChange(broker_name, addresses, leaving.address, None)
            )

    def _drop_broker_topics(self, broker_name: str) -> Slices[None]:
        """Take away the topics of a broker that is gone, unless somebody else has done it."""
        topics = list(self._topics)
        for start in range(0, len(topics), _SLICE):
            if start:
                yield
                if broker_name not in self._leaving:
                    return
            self._drop_queues(topics[start : start + _SLICE], {broker_name})
        self._leaving.discard(broker_name)

    def unregister_address(self, leaving: BrokerAddress) -> None:
        """Forget a broker of which only the address is known: it fell silent."""
        for broker in list(self._brokers.values()):
            for broker_id, address in broker.broker_addrs.items():
                if address == leaving.address and broker.cluster == leaving.cluster:
                    self.unregister(leaving, broker.broker_name, broker_id)
                    return
        self._live.pop(leaving, None)

    def connection_closed(self, connection: object) -> None:
        """Forget the brokers that registered over a connection."""
        for key in [k for k, live in self._live.items() if live.connection is connection]:
            logger.info("connection of the broker at %s closed", key.address)
            self.unregister_address(key)

    def remove_expired(self) -> list[object]:
        """Forget brokers not heard of in time; answer with their connections, to be closed."""
        now_ms = self._clock.now_ms()
        connections = []
        for key, live in list(self._live.items()):
            if live.is_expired(now_ms):
                logger.warning(
                    "broker at %s not heard of for %d ms", key.address, now_ms - live.updated_ms
                )
                self.unregister_address(key)
                connections.append(live.connection)
        return connections

    def refresh(self, key: BrokerAddress) -> None:
        """A sign of life without news."""
        live = self._live.get(key)
        if live is not None:
            self._live[key] = replace(live, updated_ms=self._clock.now_ms())

    def data_version(self, key: BrokerAddress) -> DataVersion | None:
        live = self._live.get(key)
        return live.data_version if live is not None else None

    def member_addresses(self, broker_name: str) -> Mapping[int, str]:
        broker = self._brokers.get(broker_name)
        return broker.broker_addrs if broker is not None else {}

    # Topics change

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Announce a topic on brokers already known; with an unknown one nothing is stored."""
        entries = list(queues)
        if any(entry.broker_name not in self._brokers for entry in entries):
            logger.warning("topic %s names a broker that is not registered", topic)
            return
        changes = _Changes(self)
        for entry in entries:
            self._topics[topic] = changes.with_queues(self._topics.get(topic), entry)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only its queues on the brokers of one cluster."""
        queues = self._topics.get(topic)
        if queues is not None:
            brokers = set(queues.by_broker) if cluster is None else self._clusters.get(cluster, ())
            self._drop_queues([topic], set(brokers))

    def wipe_write_permission(self, broker_name: str) -> int:
        """Take the write bit from every topic of a broker; answer with their number."""
        return self._change_permissions(broker_name, lambda perm: perm & ~Permission.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Make every topic of a broker readable and writable, and nothing else."""
        return self._change_permissions(
            broker_name, lambda perm: int(Permission.READ | Permission.WRITE)
        )

    def _change_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        changed: dict[TopicQueues, TopicQueues] = {}
        topics = list(self.topics_of_broker(broker_name))
        for topic in topics:
            before = self._topics[topic]
            if before not in changed:
                queues = before.by_broker[broker_name]
                queues = replace(queues, perm=change(queues.perm))
                changed[before] = self.shared({**before.by_broker, broker_name: queues})
            self._topics[topic] = changed[before]
        return len(topics)

    def _drop_queues(self, topics: Iterable[str], broker_names: set[str]) -> None:
        self._own_routes.clear()
        changes = _Changes(self)
        for topic in topics:
            before = self._topics.get(topic)
            if before is None or broker_names.isdisjoint(before.by_broker):
                continue
            for broker_name in broker_names:
                self._queue_mappings.get(topic, {}).pop(broker_name, None)
            after = changes.without_brokers(before, broker_names)
            if after is None:
                del self._topics[topic]
                self._queue_mappings.pop(topic, None)
            else:
                self._topics[topic] = after

    def shared(self, by_broker: dict[str, QueueData]) -> TopicQueues:
        """The one object for topics with these queues."""
        key = tuple(by_broker[name] for name in sorted(by_broker))
        queues = self._shared.get(key)
        if queues is None:
            queues = self._shared[key] = TopicQueues({q.broker_name: q for q in key})
        return queues

    # Questions

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def topics(self) -> Iterable[str]:
        return self._topics.keys()

    @property
    def brokers(self) -> Mapping[str, BrokerData]:
        return self._brokers

    @property
    def clusters(self) -> Mapping[str, set[str]]:
        return self._clusters

    def topics_of_broker(self, broker_name: str) -> Iterator[str]:
        return (t for t, queues in self._topics.items() if broker_name in queues.by_broker)

    def topics_of_cluster(self, cluster: str) -> Iterator[str]:
        names = self._clusters.get(cluster, set())
        return (t for t, q in self._topics.items() if not names.isdisjoint(q.by_broker))

    def topics_with_flags(self, wanted: Callable[[int], bool]) -> Iterator[str]:
        """Topics chosen by their system flag, as their first broker reports it."""
        for topic, queues in self._topics.items():
            if wanted(next(iter(queues.by_broker.values())).topic_sys_flag):
                yield topic

    def route(
        self, topic: str, *, acting_master: bool = False, order_conf: str | None = None
    ) -> TopicRouteData | None:
        """All that a client needs to reach a topic, or None when nobody serves it."""
        queues = self._topics.get(topic)
        if queues is None:
            return None
        acting_master = acting_master and not topic.startswith(_MEMBERSHIP_TOPIC_PREFIX)
        brokers = []
        filter_servers = {}
        for name, queue in queues.by_broker.items():
            broker = self._brokers.get(name)
            if broker is None:  # its last address is gone, and its queues are about to go
                continue
            for address in broker.broker_addrs.values():
                servers = self._filter_servers.get(BrokerAddress(broker.cluster, address))
                if servers:
                    filter_servers[address] = list(servers)
            brokers.append(_with_acting_master(broker, queue) if acting_master else broker)
        if not brokers:
            return None
        return TopicRouteData(
            broker_datas=brokers,
            queue_datas=[q for q in queues.by_broker.values() if q.broker_name in self._brokers],
            filter_server_table=filter_servers,
            order_topic_conf=order_conf,
            topic_queue_mapping_by_broker=self._queue_mappings.get(topic),
        )

    def encoded_route(
        self, topic: str, form: RouteForm, order_conf: str | None = None
    ) -> bytes | None:
        """The text of a route, made once and kept until it changes."""
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if form.acting_master and topic.startswith(_MEMBERSHIP_TOPIC_PREFIX):
            form = form._replace(acting_master=False)
        if order_conf is not None or topic in self._queue_mappings:
            return self._own_encoded_route(topic, form, order_conf)
        generation, text = queues.encoded.get(form, _NEVER)
        if generation != self._generation:
            text = self._encode(topic, form, None)
            queues.encoded[form] = (self._generation, text)
        return text

    def _own_encoded_route(
        self, topic: str, form: RouteForm, order_conf: str | None
    ) -> bytes | None:
        key = (topic, form, order_conf)
        text = self._own_routes.get(key)
        if text is None:
            text = self._encode(topic, form, order_conf)
            if text is not None:
                self._own_routes[key] = text
        return text

    def _encode(self, topic: str, form: RouteForm, order_conf: str | None) -> bytes | None:
        route = self.route(topic, acting_master=form.acting_master, order_conf=order_conf)
        return None if route is None else route.encode(standard=form.standard_json)

    def _routes_changed(self) -> None:
        self._generation += 1
        self._own_routes.clear()


_NEVER: Final[tuple[int, bytes | None]] = (-1, None)


class _Changes:
    """Steps from one `TopicQueues` to another, each worked out once for all topics taking it."""

    def __init__(self, registry: RouteRegistry) -> None:
        self._registry = registry
        self._with: dict[tuple[TopicQueues | None, QueueData], TopicQueues] = {}
        self._without: dict[TopicQueues, TopicQueues | None] = {}

    def with_queues(self, before: TopicQueues | None, queues: QueueData) -> TopicQueues:
        after = self._with.get((before, queues))
        if after is None:
            others = before.by_broker if before is not None else {}
            after = self._registry.shared({**others, queues.broker_name: queues})
            self._with[before, queues] = after
        return after

    def without_brokers(self, before: TopicQueues, names: set[str]) -> TopicQueues | None:
        if before not in self._without:
            left = {name: q for name, q in before.by_broker.items() if name not in names}
            self._without[before] = self._registry.shared(left) if left else None
        return self._without[before]


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    """Present the lowest slave of a group without master as its master, for reading."""
    addresses = broker.broker_addrs
    if MASTER_ID in addresses or not broker.enable_acting_master or queue.perm & Permission.WRITE:
        return broker
    lowest = min(addresses)
    others = {i: a for i, a in addresses.items() if i != lowest}
    return replace(broker, broker_addrs={MASTER_ID: addresses[lowest], **others})
