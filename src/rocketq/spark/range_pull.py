"""Pulls an offset range of one queue, ahead of whoever uses it.

The next request is always under way while the last answer is being worked on. A rocketq broker
answers with as many bytes as it is asked for, so one request after another keeps it busy. A
Java broker answers with 32 messages at a time whatever it is asked: there the range is cut into
tiles of the size it gives, and many tiles are asked for at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from rocketq.client.api import BrokerApi, PullResponse
from rocketq.client.errors import ClientError, NoRoute
from rocketq.client.routes import RouteTable
from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.names import TOOLS_CONSUMER_GROUP, wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import ResponseCode
from rocketq.spark.data_loss import DataLoss, tell
from rocketq.spark.options import SourceOptions
from rocketq.spark.retry import Retry

logger = logging.getLogger(__name__)

_MESSAGES_ASKED_FOR: Final = 16_384
_SMALL_ANSWER: Final = 64
"""A broker that gives no more than this while there is more has a limit of its own."""
_TILES_UNDER_WAY: Final = 24
_PULL_TIMEOUT_S: Final = 30.0
_OFFSET_RESET: Final = "OFFSET_RESET"
_LEADS_ON: Final = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)


class RangePull:
    """The messages of one queue from `start` to `end`, as the broker stores them."""

    def __init__(
        self,
        api: BrokerApi,
        routes: RouteTable,
        options: SourceOptions,
        queue: MessageQueue,
        start: int,
        end: int,
    ) -> None:
        self._api = api
        self._routes = routes
        self._options = options
        self._queue = queue
        self._start = start  # what is below was told to be lost
        self._end = end

    async def bodies(self) -> AsyncIterator[tuple[Buffer, int, int]]:
        """Records in order, with the offsets they are wanted for: neighbours may be in them."""
        start = self._start
        if start >= self._end:
            return
        first = await self._pull(start, self._end)
        found = first.next_offset - start
        small = found <= _SMALL_ANSWER and len(first.body) < self._options.pull_bytes // 2
        if small and first.next_offset < self._end:
            ahead = self._tiles(first, start, found)
        else:
            ahead = self._one_after_another(first, start)
        async for answer in ahead:
            yield answer

    async def _one_after_another(
        self, answer: PullResponse, start: int
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        under_way: asyncio.Task[PullResponse] | None = None
        try:
            while True:
                end = min(answer.next_offset, self._end)
                if answer.next_offset < self._end:
                    under_way = asyncio.create_task(self._pull(answer.next_offset, self._end))
                if len(answer.body):
                    yield answer.body, start, end
                if under_way is None:
                    return
                start = end
                answer, under_way = await under_way, None
        finally:
            if under_way is not None:
                under_way.cancel()

    async def _tiles(
        self, answer: PullResponse, start: int, size: int
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        size = max(size, 1)
        if len(answer.body):
            yield answer.body, start, min(answer.next_offset, self._end)
        waiting: deque[tuple[int, int, asyncio.Task[list[Buffer]]]] = deque()
        at = answer.next_offset
        try:
            while at < self._end or waiting:
                while at < self._end and len(waiting) < _TILES_UNDER_WAY:
                    until = min(at + size, self._end)
                    waiting.append((at, until, asyncio.create_task(self._tile(at, until))))
                    at = until
                start, until, task = waiting.popleft()
                for body in await task:
                    yield body, start, until
        finally:
            for _, _, task in waiting:
                task.cancel()

    async def _tile(self, start: int, end: int) -> list[Buffer]:
        bodies: list[Buffer] = []
        while start < end:
            answer = await self._pull(start, end)
            if len(answer.body):
                bodies.append(answer.body)
            start = answer.next_offset
        return bodies

    async def _pull(self, offset: int, end: int) -> PullResponse:
        """One answer from this offset on, however often it takes within the time for that."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                return self._checked(offset, end, await self._ask(offset, end))
            except RocketqError as error:
                # The driver has found the topic: when nobody serves it now, somebody will.
                await retry.pause(error, is_passing=isinstance(error, NoRoute))
                await self._find_broker_again()

    async def _find_broker_again(self) -> None:
        try:
            await self._routes.refresh(self._queue.topic)
        except RocketqError as error:
            logger.info("no route to %s at the moment: %s", self._queue.topic, error)

    async def _ask(self, offset: int, end: int) -> PullResponse:
        broker = self._routes.find(self._queue.broker_name)
        if broker is None:
            await self._routes.subscribe_queues(self._queue.topic, refresh=True)
            broker = self._routes.find(self._queue.broker_name)
        if broker is None:
            raise BrokerAway(self._queue)
        sql, namespace = self._options.sql, self._options.connection.namespace
        answer = await self._api.pull(
            broker.address,
            group=wrap_namespace(namespace, self._options.group or TOOLS_CONSUMER_GROUP),
            queue=self._queue,
            offset=offset,
            max_messages=min(end - offset, _MESSAGES_ASKED_FOR),
            max_bytes=self._options.pull_bytes,
            flags=PullFlag.SUBSCRIPTION,
            subscription=self._options.tags if sql is None else sql,
            expression_type="TAG" if sql is None else "SQL92",
            timeout_s=_PULL_TIMEOUT_S,
        )
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.remark == _OFFSET_RESET:
            # Somebody has set the group's offset, and the broker says so once. What is read
            # here is not a matter of the group.
            return await self._ask(offset, end)
        if broker.is_slave and answer.code not in _LEADS_ON:
            raise SlaveBehind(self._queue, offset)
        return answer

    def _checked(self, offset: int, end: int, answer: PullResponse) -> PullResponse:
        """The answer, if it leads on; what is missing is reported or passed over."""
        if answer.code == ResponseCode.SUCCESS and answer.next_offset > offset:
            return answer
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and answer.next_offset > offset:
            return answer._replace(body=b"")
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.next_offset > offset:
            if offset >= self._start:
                until = min(answer.next_offset, self._end)
                self._lost(offset, until, f"the queue now begins at {answer.min_offset}")
                self._start = until
            return answer._replace(body=b"", next_offset=min(answer.next_offset, end))
        if offset < self._end:
            self._lost(offset, self._end, f"the queue now ends at {answer.max_offset}")
            self._end = offset
        return answer._replace(body=b"", next_offset=end)

    def _lost(self, start: int, end: int, why: str) -> None:
        """Say it once: of many requests under way, all find the same gap."""
        tell(DataLoss(self._queue, start, end, why), fails=self._options.fail_on_data_loss)


class BrokerAway(ClientError):
    """The broker of a queue has left the route."""

    retriable = True

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"broker {queue.broker_name!r} is out of reach, so queue {queue.queue_id} of topic "
            f"{queue.topic!r} waits"
        )


class SlaveBehind(ClientError):
    """The master is away, and its slave does not have the message yet."""

    retriable = True

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        super().__init__(
            f"the slave of {queue.broker_name!r} does not have message {offset} of topic "
            f"{queue.topic!r}, queue {queue.queue_id} yet"
        )
