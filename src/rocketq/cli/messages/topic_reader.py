"""All messages of some topics, read queue by queue and handed on in batches.

What is there already is merged by the time at which it was stored; what comes later is handed
on as it comes. Nothing is left behind at the broker: no group, no offsets.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Final

from rocketq.admin import messages, topics
from rocketq.admin.errors import UnknownTopic
from rocketq.admin.messages import QueueRange
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.consumer.subscription import Expression, Sql
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import DLQ_PREFIX, RETRY_PREFIX, TOOLS_CONSUMER_GROUP, is_system_topic
from rocketq.message.record.reader import decode_records

_HOLD_MS: Final = 15_000
_PULL_TIMEOUT_S: Final = 30.0
_PULL_COUNT: Final = 2048
_PULL_BYTES: Final = 1 << 20
_RETRY_S: Final = 1.0
# How soon a topic is noticed that did not exist when reading began.
_LOOK_AROUND_S: Final = 5.0

Batch = list[MessageExt]
# Within a millisecond, the place in the log tells which of a broker's messages came first.
_stored_at = attrgetter("store_timestamp", "physical_offset")


@dataclass(frozen=True, slots=True)
class Where:
    """Where in every queue to begin: one of the two is None, or both for the latest."""

    offset: int | None = None
    time_ms: int | None = None


_FIRST: Final = Where(offset=0)


class TopicReader:
    """Reads what names and patterns (`orders-*`) stand for."""

    def __init__(
        self, api: BrokerApi, wanted: Iterable[str], where: Where, expression: Expression
    ) -> None:
        self._api = api
        self._wanted = list(dict.fromkeys(wanted))
        self._where = where
        self._pulls = _Pulls(api, expression)
        self._known: set[str] = set()

    async def read(self, *, follow: bool) -> AsyncGenerator[Batch, None]:
        """Batch by batch; ends with what is there now, or never."""
        parts = await self._first_parts(follow=follow)
        async for batch in _merged([_Backlog(self._pulls, part) for part in parts]):
            yield batch
        if follow:
            later = [replace(part, begin=part.end) for part in parts]
            async for batch in self._followed(later):
                yield batch

    # Which queues

    async def _first_parts(self, *, follow: bool) -> list[QueueRange]:
        """The queues and where to begin in each; a topic that does not exist yet is waited for."""
        where = self._where
        while True:
            names = await self._names()
            missing = [each for each in self._wanted if not _is_pattern(each) and each not in names]
            if names and not missing:
                break
            what = missing[0] if missing else " ".join(self._wanted)
            if not follow:
                raise UnknownTopic(what)
            if where is not _FIRST:
                print(f"rocketq: {UnknownTopic(what)} yet; waiting for one", file=sys.stderr)
            # Whoever waited for a topic wants what made it come into being.
            where = _FIRST
            await asyncio.sleep(_RETRY_S)
        return await self._parts(names, where)

    async def _names(self) -> list[str]:
        if not any(map(_is_pattern, self._wanted)):
            return [each for each in self._wanted if await self._exists(each)]
        there = [each for each in await topics.names(self._api) if not _is_hidden(each)]
        return [name for name in there if any(fnmatchcase(name, wanted) for wanted in self._wanted)]

    async def _exists(self, topic: str) -> bool:
        try:
            await topics.route(self._api, topic)
        except UnknownTopic:
            return False
        return True

    async def _parts(self, names: list[str], where: Where) -> list[QueueRange]:
        self._known |= set(names)
        found = await asyncio.gather(*(messages.ranges(self._api, name) for name in names))
        parts = [part for of_topic in found for part in of_topic]
        return list(await asyncio.gather(*(self._beginning(part, where) for part in parts)))

    async def _beginning(self, part: QueueRange, where: Where) -> QueueRange:
        if where.time_ms is not None:
            offset = await self._api.search_offset(part.address, part.queue, where.time_ms)
        elif where.offset is not None:
            offset = where.offset
        else:
            offset = part.end
        return replace(part, begin=min(max(offset, part.begin), part.end))

    # What comes later

    async def _followed(self, parts: list[QueueRange]) -> AsyncGenerator[Batch, None]:
        arrived: asyncio.Queue[Batch | RocketqError] = asyncio.Queue(maxsize=max(len(parts), 1))
        tasks = [asyncio.create_task(self._wait_on(part, arrived)) for part in parts]
        if any(map(_is_pattern, self._wanted)):
            tasks.append(asyncio.create_task(self._look_around(arrived, tasks)))
        try:
            while True:
                batch = await arrived.get()
                if isinstance(batch, RocketqError):
                    raise batch
                yield batch
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_on(
        self, part: QueueRange, arrived: "asyncio.Queue[Batch | RocketqError]"
    ) -> None:
        """Hand on what comes in one queue; an error that stays ends the reading."""
        offset = part.begin
        while True:
            try:
                batch, offset = await self._pulls.pull(part, offset, hold=True)
            except RocketqError as error:
                if not error.retriable:
                    await arrived.put(error)
                    return
                await asyncio.sleep(_RETRY_S)
            else:
                if batch:
                    await arrived.put(batch)

    async def _look_around(
        self, arrived: "asyncio.Queue[Batch | RocketqError]", tasks: "list[asyncio.Task[None]]"
    ) -> None:
        """Take up topics that come to match a pattern."""
        while True:
            await asyncio.sleep(_LOOK_AROUND_S)
            try:
                new = [name for name in await self._names() if name not in self._known]
                parts = await self._parts(new, _FIRST)
            except RocketqError:
                continue  # not reachable now: those who read will say so
            tasks += [asyncio.create_task(self._wait_on(part, arrived)) for part in parts]


def _is_pattern(text: str) -> bool:
    return not text.isidentifier() and any(mark in text for mark in "*?[")


def _is_hidden(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class _Pulls:
    """Pulls with one selection."""

    def __init__(self, api: BrokerApi, expression: Expression) -> None:
        self._api = api
        self._is_sql = isinstance(expression, Sql)
        self._text = expression.condition if isinstance(expression, Sql) else expression
        every = self._is_sql or self._text == "*"
        self._tags = set() if every else {each.strip() for each in self._text.split("||")}

    async def pull(self, part: QueueRange, offset: int, *, hold: bool = False) -> tuple[Batch, int]:
        """What is found from an offset on, and the offset after it."""
        response = await self._api.pull(
            part.address,
            group=TOOLS_CONSUMER_GROUP,
            queue=part.queue,
            offset=offset,
            max_messages=_PULL_COUNT,
            max_bytes=_PULL_BYTES,
            flags=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if hold else 0),
            suspend_ms=_HOLD_MS if hold else 0,
            subscription=self._text,
            expression_type="SQL92" if self._is_sql else "TAG",
            timeout_s=_PULL_TIMEOUT_S,
        )
        if response.code != 0:
            return [], response.next_offset
        batch = decode_records(response.body, part.queue.broker_name)
        if self._tags:  # the broker selects by the hash of a tag; the tag is compared here
            return [each for each in batch if each.tags in self._tags], response.next_offset
        return list(batch), response.next_offset


# What is there already, in the order of time


class _Backlog:
    """One queue up to its end as it was at the beginning; the next pull is always on its way."""

    def __init__(self, pulls: _Pulls, part: QueueRange) -> None:
        self._pulls = pulls
        self._part = part
        self._next: asyncio.Task[tuple[Batch, int]] | None = None
        self.batch: Batch = []
        self._ask(part.begin)

    @property
    def is_over(self) -> bool:
        return self._next is None and not self.batch

    async def fill(self) -> None:
        """Until there are messages, or none are left."""
        while not self.batch and self._next is not None:
            asked_from, pending = self._asked_from, self._next
            batch, offset = await pending
            self._next = None
            end = self._part.end
            self.batch = [each for each in batch if each.queue_offset < end]
            if offset > asked_from:
                self._ask(offset)

    def _ask(self, offset: int) -> None:
        self._asked_from = offset
        if offset < self._part.end:
            self._next = asyncio.create_task(self._pulls.pull(self._part, offset))

    def cut(self, until_ms: int) -> Batch:
        """Take the messages stored up to a time; those of a queue are in its order."""
        batch = self.batch
        if batch[-1].store_timestamp <= until_ms:
            self.batch = []
            return batch
        count = 0
        while batch[count].store_timestamp <= until_ms:
            count += 1
        self.batch = batch[count:]
        return batch[:count]

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()


async def _merged(backlogs: list[_Backlog]) -> AsyncGenerator[Batch, None]:
    """Each round hands on all that no queue can have anything older than."""
    left = backlogs
    try:
        while True:
            await asyncio.gather(*(each.fill() for each in left))
            left = [each for each in left if not each.is_over]
            if not left:
                return
            until = min(each.batch[-1].store_timestamp for each in left)
            found = [message for each in left for message in each.cut(until)]
            if len(left) > 1:
                found.sort(key=_stored_at)  # stable: a queue's own order is kept
            if found:
                yield found
    finally:
        for each in backlogs:
            each.close()
