"""Where topics live: what the NameServers said, kept and refreshed.

A route lists a topic's queues by broker (how many, readable, writable) and the brokers'
addresses by id (0 is the master). Two views are derived from it:

    publish     writable queues of brokers with a master, in broker order
    subscribe   readable queues, also where only slaves are left

An ordered topic's route may carry `orderTopicConf` ("brokerA:4;brokerB:4"), which then names
the publish queues exactly, in its order. A topic nobody has created yet borrows the route of
the template topic TBW102; the broker that gets the first message creates it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from rocketq.client.errors import BrokerUnknown, NoBroker, NoRoute
from rocketq.message.flags import Permission
from rocketq.message.names import AUTO_CREATE_TOPIC
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.route import TopicRouteData

T = TypeVar("T")

logger = logging.getLogger(__name__)

MASTER_ID: Final = 0


class RouteSource(Protocol):
    """Whom to ask for routes (the NameServers)."""

    async def route(self, topic: str) -> TopicRouteData | None: ...

    async def has_brokers(self) -> bool: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...


class BrokerAddress(NamedTuple):
    """One broker process: where it is, and which of its name it is."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


@dataclass(frozen=True, slots=True)
class PublishInfo:
    """The queues messages of a topic may go to."""

    topic: str
    queues: tuple[MessageQueue, ...]
    ordered: bool = False
    borrowed: bool = False
    """Made from the template: the topic itself does not exist yet."""


class RouteTable:
    """Everything one client instance knows about routes. Belongs to its loop."""

    def __init__(self, source: RouteSource, *, chance: random.Random | None = None) -> None:
        self._source = source
        self._chance = chance or random.Random()
        self._routes: dict[str, TopicRouteData] = {}
        self._publish: dict[str, PublishInfo] = {}
        self._subscribe: dict[str, tuple[MessageQueue, ...]] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self.away: set[str] = set()
        """Addresses of brokers that did not answer when they were last asked."""
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._borrowing: dict[str, asyncio.Task[PublishInfo]] = {}
        self._listeners: list[Callable[[str], None]] = []

    # What is known

    def route(self, topic: str) -> TopicRouteData | None:
        """The topic's route as it was last seen; none for a borrowed one."""
        return self._routes.get(topic)

    def topics(self) -> Iterable[str]:
        """Every topic with a route, own or borrowed."""
        return list(self._publish)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """Addresses by broker name and id."""
        return self._brokers

    def master(self, broker_name: str) -> str | None:
        """Where to send and commit for a broker name."""
        addresses = self._brokers.get(broker_name)
        return None if addresses is None else addresses.get(MASTER_ID)

    def find(
        self, broker_name: str, *, broker_id: int = MASTER_ID, only_this: bool = False
    ) -> BrokerAddress | None:
        """The broker of this id; else, unless `only_this`, the next id or any that is left.

        One that is away is chosen only when all are.
        """
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        wanted = [broker_id]
        if not only_this:
            wanted += [broker_id + 1, *addresses]
        found = [BrokerAddress(addresses[each], each) for each in wanted if each in addresses]
        there = [broker for broker in found if broker.address not in self.away]
        return next(iter(there or found), None)

    def some_broker(self, topic: str) -> str | None:
        """The address of one of the topic's brokers, by chance; a master where there is one."""
        route = self._routes.get(topic)
        if route is None or not route.broker_datas:
            return None
        brokers = self._chance.sample(route.broker_datas, len(route.broker_datas))
        candidates = [
            address for data in brokers for _, address in sorted(data.broker_addrs.items())
        ]
        there = [address for address in candidates if address not in self.away]
        return next(iter(there or candidates), None)

    def known_publish_info(self, topic: str) -> PublishInfo | None:
        """Without asking anybody: the way of every send but the first."""
        return self._publish.get(topic)

    def on_change(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener(topic)` whenever a topic's route has changed; returns how to stop it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # Asking

    async def publish_info(
        self, topic: str, *, template: str = AUTO_CREATE_TOPIC, template_queues: int = 4
    ) -> PublishInfo:
        """The queues to send to; a topic not yet created borrows the template's."""
        info = self._publish.get(topic)
        if info is None or not info.queues:
            await self._refresh_once(topic)
            info = self._publish.get(topic)
        if info is None or not info.queues:
            info = await _together(
                self._borrowing, topic, lambda: self._borrow(topic, template, template_queues)
            )
        return info

    async def subscribe_queues(
        self, topic: str, *, refresh: bool = False
    ) -> tuple[MessageQueue, ...]:
        """The queues to read from, sorted."""
        if refresh or topic not in self._subscribe:
            await self._refresh_once(topic)
        queues = self._subscribe.get(topic)
        if queues is None:
            raise NoRoute(topic, self._source.addresses)
        return queues

    async def broker_of(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> BrokerAddress:
        """The broker of this id that serves a queue, else another one of the same name.

        A name that is not known is looked up once more.
        """
        broker = self.find(queue.broker_name, broker_id=broker_id)
        if broker is None:
            await self.refresh(queue.topic)
            broker = self.find(queue.broker_name, broker_id=broker_id)
        if broker is None:
            raise BrokerUnknown(queue.broker_name)
        return broker

    async def refresh(self, topic: str) -> bool:
        """Ask the NameServer now; whether the route is another one than before."""
        changed = await self._refresh_once(topic)
        if topic not in self._publish:
            raise NoRoute(topic, self._source.addresses)
        return changed

    async def _refresh_once(self, topic: str) -> bool:
        """Ask, together with everybody who wants the same route at this moment."""
        return await _together(self._under_way, topic, lambda: self._fetch(topic))

    async def close(self) -> None:
        """Give up what is being asked for."""
        tasks = [*self._under_way.values(), *self._borrowing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetch(self, topic: str) -> bool:
        route = await self._source.route(topic)
        if route is None:
            return False
        return self.learn(topic, route)

    async def _borrow(self, topic: str, template: str, template_queues: int) -> PublishInfo:
        route = await self._source.route(template)
        if route is None:
            if not await self._source.has_brokers():
                raise NoBroker(self._source.addresses)
            # One may have come between these questions: the answers only count together.
            await self._fetch(topic)
            if (info := self._publish.get(topic)) is not None and info.queues:
                return info
            route = await self._source.route(template)
        if route is None:
            raise NoRoute(topic, self._source.addresses, template=template)
        queues = []
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name):
            count = min(template_queues, data.read_queue_nums)
            queues += [MessageQueue(topic, data.broker_name, number) for number in range(count)]
        info = PublishInfo(topic, tuple(queues), borrowed=True)
        if not info.queues:
            raise NoRoute(topic, self._source.addresses, template=template)
        self._publish[topic] = info
        self._learn_brokers(route)
        self._tell(topic)
        return info

    # Learning

    def learn(self, topic: str, route: TopicRouteData) -> bool:
        """Take over a route; whether it differs from the one known."""
        before = self._routes.get(topic)
        self._routes[topic] = route
        self._learn_brokers(route)
        if before is not None and _sorted(before) == _sorted(route):
            return False
        self._publish[topic] = publish_view(topic, route)
        self._subscribe[topic] = subscribe_view(topic, route)
        logger.info(
            "route of %s: %d queues to write, %d to read, brokers %s",
            topic,
            len(self._publish[topic].queues),
            len(self._subscribe[topic]),
            ", ".join(sorted(data.broker_name for data in route.broker_datas)),
        )
        self._tell(topic)
        return True

    def _tell(self, topic: str) -> None:
        for listener in list(self._listeners):
            listener(topic)

    def _learn_brokers(self, route: TopicRouteData) -> None:
        for data in route.broker_datas:
            self._brokers[data.broker_name] = dict(sorted(data.broker_addrs.items()))

    def forget_unused_brokers(self) -> None:
        """Drop brokers that no route names any more (before heartbeats go out)."""
        named = {data.broker_name for route in self._routes.values() for data in route.broker_datas}
        for info in self._publish.values():
            if info.borrowed:
                named.update(queue.broker_name for queue in info.queues)
        for broker_name in self._brokers.keys() - named:
            logger.info("broker %s is in no route any more", broker_name)
            del self._brokers[broker_name]
        known = {address for by_id in self._brokers.values() for address in by_id.values()}
        self.away &= known


def publish_view(topic: str, route: TopicRouteData) -> PublishInfo:
    """The queues a producer may send to."""
    if route.order_topic_conf:
        return PublishInfo(topic, _ordered_queues(topic, route.order_topic_conf), ordered=True)
    with_master = {
        data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs
    }
    queues = [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & Permission.WRITE and data.broker_name in with_master
        for number in range(data.write_queue_nums)
    ]
    return PublishInfo(topic, tuple(queues))


def subscribe_view(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """The queues a consumer may read, sorted."""
    queues = [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.perm & Permission.READ
        for number in range(data.read_queue_nums)
    ]
    return tuple(sorted(queues))


def _ordered_queues(topic: str, conf: str) -> tuple[MessageQueue, ...]:
    """`brokerA:4;brokerB:4`: exactly these, in this order."""
    queues = []
    for part in filter(None, conf.split(";")):
        broker_name, _, count = part.rpartition(":")
        queues += [MessageQueue(topic, broker_name, number) for number in range(int(count))]
    return tuple(queues)


def _sorted(route: TopicRouteData) -> tuple[object, ...]:
    """Routes list queues and brokers in no particular order."""
    return (
        route.order_topic_conf,
        sorted(
            (data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm)
            for data in route.queue_datas
        ),
        sorted(
            (data.broker_name, sorted(data.broker_addrs.items())) for data in route.broker_datas
        ),
    )


async def _together(
    under_way: dict[str, asyncio.Task[T]], key: str, ask: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """One question for everybody who has it at this moment."""
    task = under_way.get(key)
    if task is None:
        task = under_way[key] = asyncio.create_task(ask(), name=f"route of {key}")

        def answered(done: asyncio.Task[T]) -> None:
            under_way.pop(key, None)
            if not done.cancelled():
                done.exception()  # seen, even when everybody who asked has given up

        task.add_done_callback(answered)
    # A caller that gives up must not take the answer away from the others.
    return await asyncio.shield(task)
