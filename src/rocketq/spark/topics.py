"""What there is to read: the queues of the wanted topics and how far they go.

Used by the driver. Every call asks the NameServer anew, so that new queues and topics are
found at the next trigger.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from rocketq.client.api import BrokerApi
from rocketq.client.config import ClientConfig
from rocketq.client.errors import NoRoute
from rocketq.client.instance import ClientInstance
from rocketq.message.names import (
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    wrap_namespace,
)
from rocketq.message.queue import MessageQueue
from rocketq.spark.offsets import Offsets
from rocketq.spark.options import (
    EARLIEST,
    LATEST,
    Connection,
    InvalidOptions,
    PerQueue,
    Position,
    SourceOptions,
)

_Ask = Callable[[BrokerApi, str, MessageQueue], Awaitable[int]]


@asynccontextmanager
async def opened(connection: Connection) -> AsyncIterator[ClientInstance]:
    """A client for the length of a block."""
    config = ClientConfig(
        namesrv=connection.namesrv,
        access_key=connection.access_key,
        secret_key=connection.secret_key,
        api_timeout_s=connection.timeout_s,
    )
    async with ClientInstance.opened(config) as client:
        yield client


class Topics:
    """The queues a source reads."""

    def __init__(self, client: ClientInstance, options: SourceOptions) -> None:
        self._client = client
        self._options = options

    async def queues(self) -> list[MessageQueue]:
        """All queues that match now. A topic that was named must exist."""
        options = self._options
        if options.assigned:
            return await self._assigned()
        if options.pattern is not None:
            names = [name for name in await self._client.api.topic_names() if self._matches(name)]
        else:
            names = [self._wrapped(topic) for topic in options.topics]
        found = await asyncio.gather(*(self._queues_of(name) for name in names))
        for name, queues in zip(names, found, strict=True):
            if not queues and options.pattern is None:
                raise NoRoute(name, self._client.api.name_servers.addresses)
        return sorted(queue for queues in found for queue in queues)

    def _matches(self, name: str) -> bool:
        pattern = self._options.pattern
        assert pattern is not None
        own = is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name)
        return not own and re.fullmatch(pattern, name) is not None

    def _wrapped(self, topic: str) -> str:
        namespace = self._options.connection.namespace
        return wrap_namespace(namespace, topic) if namespace else topic

    async def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        try:
            return await self._client.routes.subscribe_queues(topic, refresh=True)
        except NoRoute:
            return ()

    async def _assigned(self) -> list[MessageQueue]:
        wanted = [
            MessageQueue(self._wrapped(topic), broker, queue)
            for topic, brokers in self._options.assigned.items()
            for broker, queues in brokers.items()
            for queue in queues
        ]
        for topic in sorted({queue.topic for queue in wanted}):
            there = set(await self._client.routes.subscribe_queues(topic, refresh=True))
            missing = [queue for queue in wanted if queue.topic == topic and queue not in there]
            if missing:
                raise InvalidOptions(
                    f"rocketq source: assign names {missing[0]}, which is not in the route of "
                    f"{topic!r}; there are {sorted(there)}"
                )
        return sorted(wanted)

    async def earliest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The first offset each still has."""
        return await self._each(queues, lambda api, address, queue: api.min_offset(address, queue))

    async def latest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The offset each will give to its next message."""
        return await self._each(queues, lambda api, address, queue: api.max_offset(address, queue))

    async def at_time(self, times: Mapping[MessageQueue, int]) -> Offsets:
        """The first message of each stored at or after its time."""
        return await self._each(
            times, lambda api, address, queue: api.search_offset(address, queue, times[queue])
        )

    async def resolve(self, position: Position, queues: Iterable[MessageQueue]) -> Offsets:
        """A position as an offset for each queue."""
        wanted = list(queues)
        self._check_known(position.offsets, wanted)
        self._check_known(position.times_by_queue, wanted)
        out: Offsets = {}
        times: dict[MessageQueue, int] = {}
        words: dict[str, list[MessageQueue]] = {EARLIEST: [], LATEST: []}
        for queue in wanted:
            offset = _of(position.offsets, queue)
            moment = _of(position.times_by_queue, queue)
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

    async def report(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Tell the brokers how far a group has come, for those who look at its lag."""
        for queue, offset in offsets.items():
            address = self._client.routes.master(queue.broker_name)
            if address is not None:
                await self._client.api.update_offset(address, group, queue, offset, oneway=False)

    async def _each(self, queues: Iterable[MessageQueue], ask: _Ask) -> Offsets:
        async def one(queue: MessageQueue) -> int:
            address = self._client.routes.find(queue.broker_name)
            if address is None:
                raise NoRoute(queue.topic, self._client.api.name_servers.addresses)
            return await ask(self._client.api, address.address, queue)

        wanted = list(queues)
        answers = await asyncio.gather(*(one(queue) for queue in wanted))
        return dict(zip(wanted, answers, strict=True))


def _of(table: PerQueue, queue: MessageQueue) -> int | None:
    return table.get(queue.topic, {}).get(queue.broker_name, {}).get(queue.queue_id)
