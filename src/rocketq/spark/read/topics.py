"""What there is to read: the queues of the wanted topics and how far they go.

Used by the driver. Every call asks the NameServer anew, so that new queues and topics are
found at the next trigger. SourceTopics are named here as on the wire, namespace included; options
name them without.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import subscribe_view
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerUnknown, NoRoute
from rocketq.common.errors import RocketqError
from rocketq.message.names import (
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    retry_topic,
    unwrap_namespace,
    wrap_namespace,
)
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketq.spark.options import (
    EARLIEST,
    LATEST,
    InvalidOptions,
    PerQueue,
    Position,
    SourceOptions,
)
from rocketq.spark.read.offsets import Offsets
from rocketq.spark.read.whole_batches import cut_to_whole

_Ask = Callable[[BrokerApi, str, MessageQueue], Awaitable[int]]


class Standing(NamedTuple):
    """How the queues of a running query stand."""

    newest: Offsets
    away: list[MessageQueue]
    """Their broker is out of reach, so nobody can say."""
    gone: list[MessageQueue]
    """Their broker is there and does not have them any more."""


class SourceTopics:
    """The queues a source reads."""

    def __init__(self, client: ClientInstance, options: SourceOptions) -> None:
        self._client = client
        self._options = options

    # Which queues

    async def queues(self) -> list[MessageQueue]:
        """All queues that match now. What was named must exist."""
        options = self._options
        by_topic = await self._by_topic()
        for topic, queues in by_topic.items():
            if not queues and options.pattern is None:
                raise NoRoute(topic, self._client.api.name_servers.addresses)
        there = {queue for queues in by_topic.values() for queue in queues}
        for topic, brokers in options.assigned.items():
            for broker, numbers in brokers.items():
                for number in numbers:
                    if MessageQueue(self._wrapped(topic), broker, number) not in there:
                        raise InvalidOptions(
                            f"rocketq source: assign names queue {number} of broker {broker!r}, "
                            f"which topic {topic!r} does not have"
                        )
        return sorted(queue for queue in there if self._is_wanted(queue))

    async def _by_topic(self) -> dict[str, list[MessageQueue]]:
        """The queues of the wanted topics as they are now; none for a topic nobody serves."""
        options = self._options
        if options.pattern is not None:
            names = [name for name in await self._client.api.topic_names() if self._matches(name)]
        else:
            names = [self._wrapped(topic) for topic in options.topics or options.assigned]
        found = await asyncio.gather(*(self._queues_of(name) for name in names))
        return dict(zip(names, found, strict=True))

    def _is_wanted(self, queue: MessageQueue) -> bool:
        assigned = self._options.assigned
        if not assigned:
            return True
        return queue.queue_id in assigned[self._bare(queue.topic)].get(queue.broker_name, ())

    def _matches(self, name: str) -> bool:
        pattern, namespace = self._options.pattern, self._options.connection.namespace
        assert pattern is not None
        bare = unwrap_namespace(namespace, name)
        if namespace and bare == name:
            return False  # of another namespace, or of none
        own = is_system_topic(bare) or is_retry_topic(bare) or is_dlq_topic(bare)
        return not own and re.fullmatch(pattern, bare) is not None

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        route = await self._client.api.route(topic)
        if route is None:
            return []
        self._client.routes.learn(topic, route)
        return list(subscribe_view(topic, route))

    async def learn(self, queues: Iterable[MessageQueue]) -> None:
        """Find out where these queues are, unless that is known."""
        for topic in {queue.topic for queue in queues}:
            if self._client.routes.route(topic) is None:
                await self._queues_of(topic)

    def _wrapped(self, topic: str) -> str:
        return wrap_namespace(self._options.connection.namespace, topic)

    def _bare(self, topic: str) -> str:
        return unwrap_namespace(self._options.connection.namespace, topic)

    # How far they go

    async def earliest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The first offset each still has."""
        return await self._each(queues, lambda api, address, queue: api.min_offset(address, queue))

    async def latest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The offset each will give to its next message, or where whole batches end."""
        found = await self._newest(queues)
        return await cut_to_whole(self._client, found) if self._options.whole_batches else found

    async def _newest(self, queues: Iterable[MessageQueue]) -> Offsets:
        return await self._each(queues, lambda api, address, queue: api.max_offset(address, queue))

    async def at_time(self, times: Mapping[MessageQueue, int]) -> Offsets:
        """The first message of each stored at or after its time."""
        return await self._each(
            times, lambda api, address, queue: api.search_offset(address, queue, times[queue])
        )

    async def standing(self, since: Mapping[MessageQueue, int]) -> Standing:
        """How far the queues go now, for a query that has come as far as `since`.

        A broker that is out of reach holds up its own queues only. When none can be reached,
        that is an error, which trying again may mend.
        """
        by_topic = await self._by_topic()
        present = [
            queue for queues in by_topic.values() for queue in queues if self._is_wanted(queue)
        ]
        asked = await asyncio.gather(
            *(self._newest([queue]) for queue in present), return_exceptions=True
        )
        newest: Offsets = {}
        silent: dict[MessageQueue, RocketqError] = {}
        for queue, answer in zip(present, asked, strict=True):
            if isinstance(answer, RocketqError) and answer.retriable:
                silent[queue] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                newest |= answer
        if silent and not newest:
            raise next(iter(silent.values()))
        if self._options.whole_batches:
            # A query that has begun in the middle of a batch goes on from there.
            whole = await cut_to_whole(self._client, newest)
            newest = {
                queue: max(whole[queue], min(offset, since.get(queue, 0)))
                for queue, offset in newest.items()
            }
        away = [queue for queue in silent if queue in since]
        gone: list[MessageQueue] = []
        missing = [queue for queue in since if queue not in newest and queue not in silent]
        if missing:
            serving = (await self._client.api.cluster_info()).broker_addr_table
            for queue in missing:
                (gone if queue.broker_name in serving else away).append(queue)
        return Standing(newest, sorted(away), sorted(gone))

    async def resolve(self, position: Position, queues: Iterable[MessageQueue]) -> Offsets:
        """A position as an offset for each queue."""
        wanted = list(queues)
        self._check_known(position.offsets, wanted)
        self._check_known(position.times_by_queue, wanted)
        out: Offsets = {}
        times: dict[MessageQueue, int] = {}
        words: dict[str, list[MessageQueue]] = {EARLIEST: [], LATEST: []}
        for queue in wanted:
            offset = self._number(position.offsets, queue)
            moment = self._number(position.times_by_queue, queue)
            moment = position.time_ms if moment is None else moment
            if offset is not None and offset >= 0:
                out[queue] = offset
            elif moment is not None:
                times[queue] = moment
            elif offset is not None:
                words[LATEST if offset == -1 else EARLIEST].append(queue)
            else:
                words[position.word].append(queue)
        out |= await self.earliest(words[EARLIEST])
        out |= await self.latest(words[LATEST])
        out |= await self.at_time(times)
        return out

    def _check_known(self, given: PerQueue, queues: list[MessageQueue]) -> None:
        known = set(queues)
        for topic, brokers in given.items():
            for broker, numbers in brokers.items():
                for number in numbers:
                    if MessageQueue(self._wrapped(topic), broker, number) not in known:
                        raise InvalidOptions(
                            f"rocketq source: topic {topic!r}, broker {broker!r}, queue {number} "
                            "is not among the queues that are read"
                        )

    def _number(self, table: PerQueue, queue: MessageQueue) -> int | None:
        brokers = table.get(self._bare(queue.topic), {})
        return brokers.get(queue.broker_name, {}).get(queue.queue_id)

    async def _each(self, queues: Iterable[MessageQueue], ask: _Ask) -> Offsets:
        async def one(queue: MessageQueue) -> int:
            address = self._client.routes.find(queue.broker_name)
            if address is None:
                raise BrokerUnknown(queue.broker_name)
            return await ask(self._client.api, address.address, queue)

        wanted = list(queues)
        answers = await asyncio.gather(*(one(queue) for queue in wanted))
        return dict(zip(wanted, answers, strict=True))

    # For lag tools

    async def report(
        self, group: str, offsets: Mapping[MessageQueue, int], *, is_first: bool = False
    ) -> None:
        """Tell the brokers how far a group has come, for those who look at its lag."""
        name = self._wrapped(group)
        await self.learn(offsets)
        if is_first:
            await self._introduce(name, offsets)

        async def one(queue: MessageQueue, offset: int) -> None:
            address = self._client.routes.master(queue.broker_name)
            if address is not None:
                await self._client.api.update_offset(address, name, queue, offset, oneway=False)

        await asyncio.gather(*(one(queue, offset) for queue, offset in offsets.items()))

    async def _introduce(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """Make a group that never had a member known to tools.

        They find groups by their retry topics, and brokers make those when a member says hello.
        One that stayed would be given queues, so this one leaves at once.
        """
        api = self._client.api
        if await api.route(retry_topic(group)) is not None:
            return
        brokers: dict[str, set[str]] = {}
        for queue in queues:
            address = self._client.routes.master(queue.broker_name)
            if address is not None:
                brokers.setdefault(address, set()).add(queue.topic)
        client_id = self._client.client_id
        for address, topics in brokers.items():
            member = ConsumerData(
                group_name=group,
                consume_type="CONSUME_ACTIVELY",
                subscription_data_set=[SubscriptionData(topic=topic) for topic in sorted(topics)],
            )
            hello = HeartbeatData(client_id=client_id, consumer_data_set=[member])
            await api.heartbeat(address, hello)
            await api.unregister(address, client_id, consumer_group=group)
