"""A topic made by its first message is made on every broker of the cluster.

RocketMQ makes such a topic on the one broker that got the message. Producers that ask for its
route from then on know no other, and all its load stays where chance put it. With
`autoCreateTopicOnAllBrokers=true` the broker that makes a topic has the other masters of its
cluster make it too, and answers the message that was the occasion when they have, or after
a moment's patience.

Brokers that have the topic already keep it as it is: only an administrator changes a topic.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.topics import Topics
from rocketq.common.errors import RocketqError
from rocketq.message.names import AUTO_CREATE_TOPIC
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode, check
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.route import ClusterInfo, TopicRouteData
from rocketq.remoting.headers import CreateTopic, GetRouteInfo

logger = logging.getLogger(__name__)

_ANSWER_WITHIN_S: Final = 3.0
_PATIENCE_S: Final = 0.3
_MASTER: Final = 0


class TopicSpreading:
    """Has topics that were made here made elsewhere, while it runs."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        client: RemotingClient,
        announced: Callable[[], Awaitable[None]],
    ) -> None:
        """`announced` waits until NameServers know of our own topics."""
        self._live = live
        self._client = client
        self._announced = announced
        self._made: dict[str, TopicConfig] = {}
        self._something_made = asyncio.Event()
        self._all_spread = asyncio.Event()
        self._all_spread.set()
        topics.on_made_by_message(self._take)
        topics.publish_with(self.spread)

    def _take(self, topic: TopicConfig) -> None:
        if self._live.broker.auto_create_topic_on_all_brokers:
            self._made[topic.topic_name] = topic
            self._all_spread.clear()
            self._something_made.set()

    async def spread(self) -> None:
        """Wait until the others have what they should have, but not for long."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._all_spread.wait()
        except TimeoutError:
            logger.info("topics are not on all brokers yet")

    async def run(self, stop: asyncio.Event) -> None:
        worker = asyncio.ensure_future(self._work())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((worker, stopped), return_when=asyncio.FIRST_COMPLETED)
            if worker.done():
                worker.result()
        finally:
            worker.cancel()
            stopped.cancel()

    async def _work(self) -> None:
        while True:
            await self._something_made.wait()
            self._something_made.clear()
            made, self._made = self._made, {}
            try:
                await self._spread(made)
            except RocketqError as error:
                logger.warning("topics %s are on this broker only: %s", ", ".join(made), error)
            if not self._made:
                self._all_spread.set()

    async def _spread(self, made: dict[str, TopicConfig]) -> None:
        # First ours, then the question who else has it: of two brokers that make a topic at
        # the same time one sees the other, so they never wait for each other.
        await self._announced()
        others = await self._other_masters()
        for topic in made.values():
            route = await self._route(topic.topic_name)
            having = {data.broker_name for data in route.queue_datas}
            for name, address in others.items():
                if name not in having:
                    await self._make(topic, address)

    async def _make(self, topic: TopicConfig, address: str) -> None:
        header = CreateTopic(
            topic=topic.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_filter_type=topic.topic_filter_type,
            topic_sys_flag=topic.topic_sys_flag,
            order=topic.order,
        )
        try:
            check(await self._client.call(address, Command.request(header), _ANSWER_WITHIN_S))
        except RocketqError as error:
            logger.warning("topic %s is not on %s: %s", topic.topic_name, address, error)

    async def _other_masters(self) -> dict[str, str]:
        """Addresses by broker name."""
        config = self._live.broker
        reply = await self._ask(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        info = ClusterInfo.decode(check(reply).body)
        return {
            name: info.broker_addr_table[name].broker_addrs[_MASTER]
            for name in info.cluster_addr_table.get(config.broker_cluster_name, [])
            if name != config.broker_name and _MASTER in info.broker_addr_table[name].broker_addrs
        }

    async def _route(self, topic: str) -> TopicRouteData:
        request = Command.request(GetRouteInfo(topic=topic, accept_standard_json_only=True))
        reply = await self._ask(request)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return TopicRouteData()
        return TopicRouteData.decode(check(reply).body)

    async def _ask(self, request: Command) -> Command:
        """The answer of the first NameServer that gives one."""
        missed: RocketqError = RocketqError("there is no NameServer")
        for address in self._live.broker.name_servers:
            try:
                return await self._client.call(address, request, _ANSWER_WITHIN_S)
            except RocketqError as error:
                missed = error
        raise missed
