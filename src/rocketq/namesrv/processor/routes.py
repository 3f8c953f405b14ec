"""Requests about topics and the brokers that serve them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from rocketq.common.clock import Clock
from rocketq.common.loop.slices import Slices
from rocketq.common.loop.turns import Turns
from rocketq.namesrv.config import LiveConfig
from rocketq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketq.namesrv.registration import MASTER_ID
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.namesrv.route_texts import RouteForm, RouteKey
from rocketq.remoting.bodies.route import ClusterInfo, TopicList, TopicRouteData
from rocketq.remoting.codes import RequestCode, ResponseCode, Version
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.namesrv import (
    AddWritePerm,
    AddWritePermResponse,
    DeleteTopicInNamesrv,
    GetRouteInfo,
    GetTopicsByCluster,
    RegisterTopicInNamesrv,
    WipeWritePerm,
    WipeWritePermResponse,
)
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import Handlers
from rocketq.remoting.wire.command import Command

_FAQ: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

# With more, an answer is encoded by a thread: a broker takes some ten microseconds.
_MANY_BROKERS: Final = 200
_MANY_TOPICS: Final = 10_000
# Of characters; what does not fit into a frame of 16 MiB no client reads.
_LONGEST_LIST: Final = 15 << 20

# Bits of a topic's system flag: of a unit, and subscribed to by one.
_UNIT: Final = 1
_UNIT_SUB: Final = 2


class RouteProcessor:
    """Answers who serves which topic, and lets operators change it."""

    def __init__(
        self,
        registry: RouteRegistry,
        kv_config: KvConfig,
        config: LiveConfig,
        clock: Clock,
        turns: Turns,
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._making: dict[RouteKey, asyncio.Future[bytes | None]] = {}
        self._kv_config = kv_config
        self._config = config
        self._clock = clock
        self._started_s = clock.monotonic()

    def handlers(self) -> Handlers:
        return {
            GetRouteInfo.CODE: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            GetTopicsByCluster.CODE: self._topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_subscribed_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_subscribed_plain_topics,
            RegisterTopicInNamesrv.CODE: self._register_topic,
            DeleteTopicInNamesrv.CODE: self._delete_topic,
            WipeWritePerm.CODE: self._wipe_write_permission,
            AddWritePerm.CODE: self._add_write_permission,
        }

    # Routes

    def _route(
        self, request: Command, connection: Connection
    ) -> Command | Coroutine[Any, Any, Command]:
        config = self._config.current
        if config.need_wait_for_service and not self._has_waited(config.wait_seconds_for_service):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "name server not ready")
        header = request.header(GetRouteInfo)
        topic = header.topic
        order_conf = None
        if config.order_message_enable:
            order_conf = self._kv_config.get(ORDER_TOPIC_NAMESPACE, topic)
        if header.zone_name and (header.zone_mode or "").lower() == "true":
            route = self._registry.route(
                topic, acting_master=config.support_acting_master, order_conf=order_conf
            )
            if route is None:
                raise _no_route(topic)
            return self._reply(request, _of_zone(route, header.zone_name))
        form = RouteForm(
            request.version >= Version.V4_9_4 or bool(header.accept_standard_json_only),
            config.support_acting_master,
        )
        key = self._registry.route_key(topic, form, order_conf)
        if key is not None and len(key.queues.by_broker) > _MANY_BROKERS:
            return self._long_route(request, topic, key)
        text = self._registry.encoded_route(topic, form, order_conf)
        if text is None:
            raise _no_route(topic)
        return request.reply(body=text)

    async def _long_route(self, request: Command, topic: str, key: RouteKey) -> Command:
        """To make one of thousands of brokers takes long; all who ask meanwhile get the same."""
        text = self._registry.texts.get(key)
        if text is None:
            making = self._making.get(key)
            if making is None:
                making = self._making[key] = asyncio.ensure_future(self._make(topic, key))
                making.add_done_callback(lambda _: self._making.pop(key, None))
            text = await asyncio.shield(making)
        if text is None:
            raise _no_route(topic)
        return request.reply(body=text)

    async def _make(self, topic: str, key: RouteKey) -> bytes | None:
        version = self._registry.texts.version
        route = self._registry.route(
            topic, acting_master=key.form.acting_master, order_conf=key.order_conf
        )
        if route is None:
            return None
        standard = key.form.standard_json
        text = await self._turns.in_thread(lambda: route.encode(standard=standard))
        if self._registry.texts.version == version:
            self._registry.texts.keep(key, text)
        return text

    def _reply(
        self, request: Command, body: TopicRouteData | ClusterInfo
    ) -> Command | Coroutine[Any, Any, Command]:
        """The answer at once, or when a thread has encoded it."""
        if len(self._registry.brokers) <= _MANY_BROKERS:
            return request.reply(body=body.encode())
        return self._long_reply(request, body.encode)

    async def _long_reply(self, request: Command, encode: Callable[[], bytes]) -> Command:
        return request.reply(body=await self._turns.in_thread(encode))

    def _has_waited(self, seconds: int) -> bool:
        """Whether brokers have had the time to register at a NameServer just started."""
        return self._clock.monotonic() - self._started_s >= seconds

    def _cluster_info(
        self, request: Command, connection: Connection
    ) -> Command | Coroutine[Any, Any, Command]:
        info = ClusterInfo(
            broker_addr_table=dict(self._registry.brokers),
            cluster_addr_table={c: sorted(n) for c, n in self._registry.clusters.items()},
        )
        return self._reply(request, info)

    # Topic lists

    async def _all_topics(self, request: Command, connection: Connection) -> Command:
        if not self._config.current.enable_all_topic_list:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "disable")
        return await self._topic_list(request, list(self._registry.topics))

    async def _topics_by_cluster(self, request: Command, connection: Connection) -> Command:
        self._check_lists_enabled()
        cluster = request.header(GetTopicsByCluster).cluster
        return await self._chosen(request, self._registry.topics_of_cluster(cluster))

    async def _unit_topics(self, request: Command, connection: Connection) -> Command:
        return await self._with_flags(request, lambda flag: bool(flag & _UNIT))

    async def _unit_subscribed_topics(self, request: Command, connection: Connection) -> Command:
        return await self._with_flags(request, lambda flag: bool(flag & _UNIT_SUB))

    async def _unit_subscribed_plain_topics(
        self, request: Command, connection: Connection
    ) -> Command:
        return await self._with_flags(
            request, lambda flag: bool(flag & _UNIT_SUB) and not flag & _UNIT
        )

    async def _with_flags(self, request: Command, wanted: Callable[[int], bool]) -> Command:
        self._check_lists_enabled()
        return await self._chosen(request, self._registry.topics_with_flags(wanted))

    async def _chosen(self, request: Command, choosing: Slices[list[str]]) -> Command:
        return await self._topic_list(request, await self._turns.do(choosing))

    async def _topic_list(self, request: Command, topics: list[str]) -> Command:
        if sum(map(len, topics)) > _LONGEST_LIST:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"the names of {len(topics)} topics fit into no answer"
            )
        encode = TopicList(topic_list=topics).encode
        if len(topics) <= _MANY_TOPICS:
            return request.reply(body=encode())
        return await self._long_reply(request, encode)

    def _check_lists_enabled(self) -> None:
        if not self._config.current.enable_topic_list:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "disable")

    def _system_topics(self, request: Command, connection: Connection) -> Command:
        """Every cluster and every broker has a topic of its own name."""
        names = {*self._registry.clusters, *self._registry.brokers}
        addresses = (
            address
            for broker in self._registry.brokers.values()
            for address in broker.broker_addrs.values()
        )
        body = TopicList(topic_list=sorted(names), broker_addr=next(addresses, None))
        return request.reply(body=body.encode())

    # Changes

    def _register_topic(self, request: Command, connection: Connection) -> Command:
        topic = request.header(RegisterTopicInNamesrv).topic
        self._registry.register_topic(topic, TopicRouteData.from_request(request).queue_datas)
        return request.reply()

    def _delete_topic(self, request: Command, connection: Connection) -> Command:
        header = request.header(DeleteTopicInNamesrv)
        self._registry.delete_topic(header.topic, header.cluster_name or None)
        return request.reply()

    async def _wipe_write_permission(self, request: Command, connection: Connection) -> Command:
        broker_name = request.header(WipeWritePerm).broker_name
        count = await self._turns.do(self._registry.wiping_write_permission(broker_name))
        return request.reply(WipeWritePermResponse(wipe_topic_count=count))

    async def _add_write_permission(self, request: Command, connection: Connection) -> Command:
        broker_name = request.header(AddWritePerm).broker_name
        count = await self._turns.do(self._registry.adding_write_permission(broker_name))
        return request.reply(AddWritePermResponse(add_topic_count=count))


def _no_route(topic: str) -> RequestRejected:
    return RequestRejected(
        ResponseCode.TOPIC_NOT_EXIST,
        f"No topic route info in name server for the topic: {topic}{_FAQ}",
    )


def _of_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Only the brokers of a zone, and groups without master: a slave far off beats none."""
    kept = [
        broker
        for broker in route.broker_datas
        if MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == zone.lower()
    ]
    names = {broker.broker_name for broker in kept}
    addresses = {address for broker in kept for address in broker.broker_addrs.values()}
    return replace(
        route,
        broker_datas=kept,
        queue_datas=[queue for queue in route.queue_datas if queue.broker_name in names],
        filter_server_table={
            address: servers
            for address, servers in route.filter_server_table.items()
            if address in addresses
        },
    )
