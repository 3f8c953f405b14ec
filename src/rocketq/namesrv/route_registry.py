"""Who serves which topic: the tables of a NameServer.

    topics     topic -> the queues each broker has for it
    brokers    broker name -> cluster, zone, and an address for every broker id (0 is the master)
    clusters   cluster -> broker names
    live       (cluster, address) -> when it was last heard of, its data version, its connection

Nothing here is written to disk: brokers register anew every half minute, so a restarted
NameServer knows them all again soon.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from rocketq.common.clock import Clock
from rocketq.common.loop.slices import Slices, at_once
from rocketq.message.flags import Permission
from rocketq.namesrv.registration import (
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    LONGEST_NAME,
    MASTER_ID,
    MOST_MEMBERS,
    BrokerAddress,
    Limits,
    LiveBroker,
    Master,
    MinimumIdChange,
    Registration,
    RegistrationRefused,
    why_refused,
)
from rocketq.namesrv.route_texts import RouteForm, RouteKey, RouteTexts
from rocketq.namesrv.topic_queues import QueueChanges, SharedQueues, TopicQueues
from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData

logger = logging.getLogger(__name__)


# The membership topic of a broker group shows who is really there, so no slave is dressed up
# as master in its route.
_MEMBERSHIP_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"


# Topics that are looked at in one slice of long work, and entries that are made in one: to make
# one takes some microseconds.
_SLICE: Final = 1000
_SLICE_ENTRIES: Final = 4_000
_SLICE_TOPICS_LOOKED_AT: Final = 20_000


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
        limits: Callable[[], Limits] = Limits,
    ) -> None:
        """`on_long_work` is handed what may be done in slices, and begins with it."""
        self._limits = limits
        self._clock = clock
        self._on_new_broker = on_new_broker
        self._on_minimum_id_change = on_minimum_id_change
        self._on_long_work = on_long_work
        # Brokers that are gone while some of their topics are still to be taken away.
        self._leaving: set[str] = set()
        self._is_dropping = False
        self._topics: dict[str, TopicQueues] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerAddress, LiveBroker] = {}
        self._by_connection: dict[object, set[BrokerAddress]] = {}
        self._filter_servers: dict[BrokerAddress, tuple[str, ...]] = {}
        self._queue_mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._mapped_queues = 0
        self.queues = SharedQueues()
        self.texts = RouteTexts()

    # Brokers come and go

    def register(self, new: Registration, *, delete_missing_topics: bool = False) -> Master | None:
        """Take over what a broker says of itself; for a slave, answer with its master.

        Raises `RegistrationRefused` when a broker not yet known brings a single topic: that
        is the form of an update, and would make all its other topics unknown. And when there
        would be too many brokers; of too many topics those that are new are left out.
        """
        return at_once(self.registering(new, delete_missing_topics=delete_missing_topics))

    def registering(
        self, new: Registration, *, delete_missing_topics: bool = False
    ) -> Slices[Master | None]:
        """The same in slices. Whoever calls this has one under way for each broker."""
        refusal = why_refused(new)
        if refusal is not None:
            raise RegistrationRefused(refusal)
        if new.broker_name in self._leaving:
            yield from self._drop_broker_topics(new.broker_name)
        key = BrokerAddress(new.cluster, new.address)
        self._check_room(key, new)
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
            self._forget_live(key)
            return None
        if holder is None and len(addresses) >= MOST_MEMBERS:
            raise RegistrationRefused(f"{new.broker_name} has {MOST_MEMBERS} addresses already")
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
            self.texts.forget()
        if known is not None and known.cluster != new.cluster:
            self._leave_clusters(new.broker_name)
        self._clusters.setdefault(new.cluster, set()).add(new.broker_name)

        is_prime_slave = (
            new.enable_acting_master is not None
            and new.broker_id != MASTER_ID
            and new.broker_id == min(addresses)
        )
        self._forget_live(key)
        self._live[key] = LiveBroker(
            self._clock.now_ms(),
            new.heartbeat_timeout_ms or DEFAULT_HEARTBEAT_TIMEOUT_MS,
            new.data_version,
            new.connection,
            new.ha_address,
            new.broker_name,
            new.broker_id,
        )
        self._by_connection.setdefault(new.connection, set()).add(key)
        if self._filter_servers.get(key, ()) != new.filter_servers:
            self._filter_servers[key] = new.filter_servers
            if not new.filter_servers:
                del self._filter_servers[key]
            self.texts.forget()
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

    def _check_room(self, key: BrokerAddress, new: Registration) -> None:
        """Refuse one broker too many; those that are known stay welcome."""
        limits = self._limits()
        if key in self._live:
            return
        if len(self._live) >= limits.brokers:
            raise RegistrationRefused(f"{limits.brokers} brokers are registered already")
        brought = self._by_connection.get(new.connection, ())
        if new.connection is not None and len(brought) >= limits.brokers_per_connection:
            raise RegistrationRefused(
                f"{limits.brokers_per_connection} brokers came over this connection already"
            )

    def _forget_live(self, key: BrokerAddress) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            brought = self._by_connection[live.connection]
            brought.discard(key)
            if not brought:
                del self._by_connection[live.connection]

    def _leave_clusters(self, broker_name: str) -> None:
        for cluster, names in list(self._clusters.items()):
            names.discard(broker_name)
            if not names:
                del self._clusters[cluster]

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
        changes = QueueChanges(self.queues)
        limits = self._limits()
        left_out = 0
        for number, (topic, queues) in enumerate(new.topics.items(), 1):
            if number % _SLICE == 0 or changes.made >= _SLICE_ENTRIES:
                changes.made = 0
                yield
                if not self._is_live(new):
                    return
            if read_only:
                queues = replace(queues, perm=queues.perm & ~Permission.WRITE)
            before = self._topics.get(topic)
            if before is not None and not rewrite and new.broker_name in before.by_broker:
                continue
            is_full = before is None and len(self._topics) >= limits.topics
            if is_full or self.queues.entries >= limits.entries or len(topic) > LONGEST_NAME:
                left_out += 1
                continue
            self._topics[topic] = changes.with_queues(before, queues)
        if left_out:
            logger.warning(
                "%d topics of broker %s are left out: there are %d topics with %d entries",
                *(left_out, new.broker_name, len(self._topics), self.queues.entries),
            )
        if rewrite and new.queue_mappings:
            yield from self._take_mappings(new)

    def _take_mappings(self, new: Registration) -> Slices[None]:
        for number, (topic, mapping) in enumerate(new.queue_mappings.items(), 1):
            if number % _SLICE == 0:
                yield
                if not self._is_live(new):
                    return
            self._forget_mapping(topic, new.broker_name)
            size = _mapped(mapping)
            if topic in self._topics and self._mapped_queues + size <= self._limits().entries:
                self._queue_mappings.setdefault(topic, {})[new.broker_name] = mapping
                self._mapped_queues += size
        self.texts.forget()

    def _forget_mapping(self, topic: str, broker_name: str) -> None:
        mappings = self._queue_mappings.get(topic)
        mapping = mappings.pop(broker_name, None) if mappings else None
        if mapping is not None:
            self._mapped_queues -= _mapped(mapping)
            if not mappings:
                del self._queue_mappings[topic]

    def _drop_missing(self, new: Registration) -> Slices[None]:
        """Take away what a broker no longer has."""
        known = list(self._topics)
        for start in range(0, len(known), _SLICE):
            if start:
                yield
                if not self._is_live(new):
                    return
            yield from self._drop_queues(
                [topic for topic in known[start : start + _SLICE] if topic not in new.topics],
                {new.broker_name},
            )

    def _is_live(self, new: Registration) -> bool:
        """Whether a broker is still there that was when its registration began."""
        live = self._live.get(BrokerAddress(new.cluster, new.address))
        return live is not None and live.connection is new.connection

    def unregister(self, leaving: BrokerAddress, broker_name: str, broker_id: int) -> None:
        """Forget an address, and with the last address of a broker name its topics."""
        self._forget_live(leaving)
        if self._filter_servers.pop(leaving, None) is not None:
            self.texts.forget()
        broker = self._brokers.get(broker_name)
        if broker is None or leaving.address not in broker.broker_addrs.values():
            return
        logger.info("broker %s at %s is gone", broker_name, leaving.address)
        addresses = {i: a for i, a in broker.broker_addrs.items() if a != leaving.address}
        self.texts.forget()
        if not addresses:
            del self._brokers[broker_name]
            self._leave_clusters(broker_name)
            self._leaving.add(broker_name)
            if not self._is_dropping:
                self._is_dropping = True
                self._on_long_work(self._drop_leaving())
            return
        self._brokers[broker_name] = replace(broker, broker_addrs=addresses)
        if broker.enable_acting_master and MASTER_ID not in addresses:
            self._on_long_work(self._without_write_permission(broker_name))
        if broker_id == min(broker.broker_addrs):
            self._on_minimum_id_change(
                MinimumIdChange(broker_name, addresses, leaving.address, None)
            )

    def _drop_leaving(self) -> Slices[None]:
        """Take away the topics of brokers that are gone, of all of them in one pass.

        Whoever leaves meanwhile has to wait for the next one.
        """
        try:
            while self._leaving:
                yield from self._drop_topics_of(set(self._leaving))
        finally:
            self._is_dropping = False

    def _drop_broker_topics(self, broker_name: str) -> Slices[None]:
        """Take away the topics of a broker that is back before that was done."""
        yield from self._drop_topics_of({broker_name})

    def _drop_topics_of(self, broker_names: set[str]) -> Slices[None]:
        topics = list(self._topics)
        for start in range(0, len(topics), _SLICE):
            if start:
                yield
                broker_names &= self._leaving  # others have done it for some
                if not broker_names:
                    return
            yield from self._drop_queues(topics[start : start + _SLICE], broker_names)
        self._leaving -= broker_names

    def unregister_address(self, leaving: BrokerAddress) -> None:
        """Forget a broker of which only the address is known: it fell silent."""
        live = self._live.get(leaving)
        broker = self._brokers.get(live.broker_name) if live is not None else None
        if live is not None and broker is not None and broker.cluster == leaving.cluster:
            self.unregister(leaving, live.broker_name, live.broker_id)
        self._forget_live(leaving)

    def connection_closed(self, connection: object) -> None:
        """Forget the brokers that registered over a connection."""
        for key in list(self._by_connection.get(connection, ())):
            logger.info("connection of the broker at %s closed", key.address)
            self.unregister_address(key)

    def remove_expired(self) -> list[object]:
        """Forget brokers not heard of in time; answer with their connections, to be closed."""
        return at_once(self.removing_expired())

    def removing_expired(self) -> Slices[list[object]]:
        """The same in slices."""
        now_ms = self._clock.now_ms()
        connections = []
        for key, live in list(self._live.items()):
            if live.is_expired(now_ms) and self._live.get(key) is live:
                yield
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
        before = self._topics.get(topic)
        limits = self._limits()
        if before is None and (len(self._topics) >= limits.topics or len(topic) > LONGEST_NAME):
            logger.warning("topic %.100s is left out: there are %d", topic, len(self._topics))
            return
        by_broker = dict(before.by_broker) if before is not None else {}
        by_broker |= {entry.broker_name: entry for entry in entries}
        if by_broker and self.queues.entries + len(by_broker) <= limits.entries:
            self._topics[topic] = self.queues.shared(by_broker)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only its queues on the brokers of one cluster."""
        queues = self._topics.get(topic)
        if queues is not None:
            brokers = set(queues.by_broker) if cluster is None else self._clusters.get(cluster, ())
            at_once(self._drop_queues([topic], set(brokers)))

    def wiping_write_permission(self, broker_name: str) -> Slices[int]:
        """Take the write bit from every topic of a broker; answer with their number."""
        return self._changing_permissions(broker_name, lambda perm: perm & ~Permission.WRITE)

    def adding_write_permission(self, broker_name: str) -> Slices[int]:
        """Make every topic of a broker readable and writable, and nothing else."""
        return self._changing_permissions(
            broker_name, lambda perm: int(Permission.READ | Permission.WRITE)
        )

    def _without_write_permission(self, broker_name: str) -> Slices[None]:
        yield from self.wiping_write_permission(broker_name)

    def _changing_permissions(self, broker_name: str, change: Callable[[int], int]) -> Slices[int]:
        changes = QueueChanges(self.queues)
        changed: dict[QueueData, QueueData] = {}
        count = 0
        for number, topic in enumerate(list(self._topics), 1):
            if number % _SLICE == 0 or changes.made >= _SLICE_ENTRIES:
                changes.made = 0
                yield
            before = self._topics.get(topic)
            if before is None or broker_name not in before.by_broker:
                continue
            queues = before.by_broker[broker_name]
            if queues not in changed:
                changed[queues] = replace(queues, perm=change(queues.perm))
            self._topics[topic] = changes.with_queues(before, changed[queues])
            count += 1
        return count

    def _drop_queues(self, topics: Iterable[str], broker_names: set[str]) -> Slices[None]:
        self.texts.forget()
        changes = QueueChanges(self.queues)
        for topic in topics:
            if changes.made >= _SLICE_ENTRIES:
                changes.made = 0
                yield
            before = self._topics.get(topic)
            gone = broker_names & before.by_broker.keys() if before is not None else ()
            if before is None or not gone:
                continue
            for broker_name in gone:
                self._forget_mapping(topic, broker_name)
            after = changes.without_brokers(before, broker_names)
            if after is None:
                del self._topics[topic]
            else:
                self._topics[topic] = after

    # Questions

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def topics(self) -> Iterable[str]:
        return self._topics.keys()

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    @property
    def live_count(self) -> int:
        """Brokers that have registered and not fallen silent, slaves included."""
        return len(self._live)

    @property
    def brokers(self) -> Mapping[str, BrokerData]:
        return self._brokers

    @property
    def clusters(self) -> Mapping[str, set[str]]:
        return self._clusters

    def topics_of_broker(self, broker_name: str) -> Iterator[str]:
        return (t for t, queues in self._topics.items() if broker_name in queues.by_broker)

    def topics_of_cluster(self, cluster: str) -> Slices[list[str]]:
        names = frozenset(self._clusters.get(cluster, ()))
        return self._chosen(lambda queues: not names.isdisjoint(queues.by_broker))

    def topics_with_flags(self, wanted: Callable[[int], bool]) -> Slices[list[str]]:
        """Topics chosen by their system flag, as their first broker reports it."""
        return self._chosen(
            lambda queues: wanted(next(iter(queues.by_broker.values())).topic_sys_flag)
        )

    def _chosen(self, wanted: Callable[[TopicQueues], bool]) -> Slices[list[str]]:
        """In slices: topics by what their queues are, which is looked at once for all alike."""
        known: dict[TopicQueues, bool] = {}
        chosen = []
        looked_at = 0
        for topic, queues in list(self._topics.items()):
            if queues not in known:
                known[queues] = wanted(queues)
                looked_at += len(queues.by_broker)
            looked_at += 1
            if known[queues]:
                chosen.append(topic)
            if looked_at >= _SLICE_TOPICS_LOOKED_AT:
                looked_at = 0
                yield
        return chosen

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

    def route_key(self, topic: str, form: RouteForm, order_conf: str | None) -> RouteKey | None:
        """Under what the text of a route is kept; None when nobody serves the topic."""
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if form.acting_master and topic.startswith(_MEMBERSHIP_TOPIC_PREFIX):
            form = form._replace(acting_master=False)
        # Routes of ordered and static topics name the topic's own settings, so no two share.
        is_own = order_conf is not None or topic in self._queue_mappings
        return RouteKey(queues, form, topic if is_own else "", order_conf)

    def encoded_route(
        self, topic: str, form: RouteForm, order_conf: str | None = None
    ) -> bytes | None:
        """The text of a route, made once and kept until it changes."""
        key = self.route_key(topic, form, order_conf)
        if key is None:
            return None
        text = self.texts.get(key)
        if text is None:
            route = self.route(topic, acting_master=key.form.acting_master, order_conf=order_conf)
            if route is None:
                return None
            text = route.encode(standard=form.standard_json)
            self.texts.keep(key, text)
        return text


def _mapped(mapping: TopicQueueMappingInfo) -> int:
    """What a mapping counts for: its queues, and itself."""
    return 1 + len(mapping.curr_id_map or ())


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    """Present the lowest slave of a group without master as its master, for reading."""
    addresses = broker.broker_addrs
    if MASTER_ID in addresses or not broker.enable_acting_master or queue.perm & Permission.WRITE:
        return broker
    lowest = min(addresses)
    others = {i: a for i, a in addresses.items() if i != lowest}
    return replace(broker, broker_addrs={MASTER_ID: addresses[lowest], **others})
