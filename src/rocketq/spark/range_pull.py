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
from rocketq.client.errors import BrokerRejected, ClientError
from rocketq.client.routes import RouteTable
from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import ResponseCode
from rocketq.spark.options import SourceOptions

logger = logging.getLogger(__name__)

_MESSAGES_ASKED_FOR: Final = 16_384
_SMALL_ANSWER: Final = 64
"""A broker that gives no more than this while there is more has a limit of its own."""
_TILES_UNDER_WAY: Final = 24
_ATTEMPTS: Final = 8
_LONGEST_PAUSE_S: Final = 5.0
_PULL_TIMEOUT_S: Final = 30.0


class DataLoss(RocketqError):
    """Messages of a range are not there any more."""

    def __init__(self, queue: MessageQueue, start: int, end: int, why: str) -> None:
        super().__init__(
            f"messages {start} to {end - 1} of topic {queue.topic!r}, broker "
            f"{queue.broker_name!r}, queue {queue.queue_id} are gone: {why}. With the option "
            "failOnDataLoss=false the query goes on behind them"
        )


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
        self._start = start
        self._end = end

    async def bodies(self) -> AsyncIterator[tuple[Buffer, int, int]]:
        """Records in order, with the offsets they are wanted for: neighbours may be in them."""
        if self._start >= self._end:
            return
        first = await self._pull(self._start, self._end)
        found = first.next_offset - self._start
        small = found <= _SMALL_ANSWER and len(first.body) < self._options.pull_bytes // 2
        if small and first.next_offset < self._end:
            ahead = self._tiles(first, found)
        else:
            ahead = self._one_after_another(first)
        async for answer in ahead:
            yield answer

    async def _one_after_another(
        self, answer: PullResponse
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        start = self._start
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
        self, answer: PullResponse, size: int
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        size = max(size, 1)
        if len(answer.body):
            yield answer.body, self._start, min(answer.next_offset, self._end)
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
        """One answer from this offset on, after as many attempts as it takes within reason."""
        pause_s = 0.05
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = await self._ask(offset, end)
            except (ClientError, RocketqError) as error:
                retriable = error.retriable or (
                    isinstance(error, BrokerRejected) and error.code == ResponseCode.SYSTEM_BUSY
                )
                if not retriable or attempt == _ATTEMPTS:
                    raise
                logger.info("pull %s at %d again: %s", self._queue, offset, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                await self._find_broker_again()
                continue
            return self._checked(offset, end, answer)
        raise AssertionError("unreachable")

    async def _find_broker_again(self) -> None:
        try:
            await self._routes.refresh(self._queue.topic)
        except (ClientError, RocketqError) as error:
            logger.info("no route to %s at the moment: %s", self._queue.topic, error)

    async def _ask(self, offset: int, end: int) -> PullResponse:
        broker = self._routes.find(self._queue.broker_name)
        if broker is None:
            await self._routes.subscribe_queues(self._queue.topic, refresh=True)
            broker = self._routes.find(self._queue.broker_name)
        if broker is None:
            raise BrokerGone(self._queue)
        sql = self._options.sql
        return await self._api.pull(
            broker.address,
            group=self._options.group or TOOLS_CONSUMER_GROUP,
            queue=self._queue,
            offset=offset,
            max_messages=min(end - offset, _MESSAGES_ASKED_FOR),
            max_bytes=self._options.pull_bytes,
            flags=PullFlag.SUBSCRIPTION,
            subscription=self._options.tags if sql is None else sql,
            expression_type="TAG" if sql is None else "SQL92",
            timeout_s=_PULL_TIMEOUT_S,
        )

    def _checked(self, offset: int, end: int, answer: PullResponse) -> PullResponse:
        """The answer, if it leads on; what is missing is reported or passed over."""
        if answer.code == ResponseCode.SUCCESS and answer.next_offset > offset:
            return answer
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and answer.next_offset > offset:
            return answer._replace(body=b"")
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.next_offset > offset:
            until = min(answer.next_offset, end)
            self._lost(offset, until, f"the queue now begins at {answer.min_offset}")
            return answer._replace(body=b"", next_offset=until)
        self._lost(offset, end, f"the queue now ends at {answer.max_offset}")
        return answer._replace(body=b"", next_offset=end)

    def _lost(self, start: int, end: int, why: str) -> None:
        loss = DataLoss(self._queue, start, end, why)
        if self._options.fail_on_data_loss:
            raise loss
        logger.warning("%s", loss)


class BrokerGone(ClientError):
    """The broker of a queue has left the route."""

    retriable = True

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"no broker {queue.broker_name!r} serves topic {queue.topic!r} at the moment"
        )
