"""The pull loop of one queue: ask, deliver, ask again.

One small task for each queue, which nearly always sleeps: in a request held by the broker until
messages arrive, or while enough of the queue is cached. A cache that runs below its limits wakes
the loop at once.

    nothing new, nothing that matches    again at once (the broker held the request)
    found                                deliver; again after the pull interval
    offset out of range                  the consumer decides: start anew, or go on from there
    broker says flow control             after 20 ms
    any error                            after a second; the first is logged, repetitions are not
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rocketq.client.callbacks import comes_from_outside
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import is_outage
from rocketq.client.cluster.routes import MASTER_ID, BrokerAddress
from rocketq.client.cluster.rpc import PullResponse
from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.client.consumer.pull_result import FilterHook, PullStatus, pull_result
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.consumer.subscription import Subscription
from rocketq.client.errors import BrokerRejected
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.remoting.codes import ResponseCode

logger = logging.getLogger(__name__)

_FLOW_CONTROL_DELAY_S: Final = 0.02
# The broker does not know the subscription, or an old one: a heartbeat will tell it.
_HEARTBEAT_NEEDED: Final = frozenset(
    {
        int(ResponseCode.SUBSCRIPTION_NOT_EXIST),
        int(ResponseCode.SUBSCRIPTION_NOT_LATEST),
        int(ResponseCode.FILTER_DATA_NOT_EXIST),
        int(ResponseCode.FILTER_DATA_NOT_LATEST),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """How a consumer pulls."""

    batch_size: int
    batch_bytes: int | None
    suspend_ms: int
    interval_s: float = 0.0
    error_delay_s: float = 1.0
    timeout_s: float = 30.0
    is_lite: bool = False
    commits: bool = True
    """Whether a pull carries the offset consumed so far along."""
    posts_subscription: bool = False
    """Whether a pull carries the expression itself; otherwise brokers have it from heartbeats."""
    filters: Sequence[FilterHook] = ()


class PullOwner(Protocol):
    """What the loops ask of the consumer they belong to."""

    instance: ClientInstance
    group: str
    pull_settings: PullSettings
    offsets: OffsetStore
    statistics: ConsumerStatistics

    def subscription(self, topic: str) -> Subscription | None:
        """What is wanted of the topic; None once it is not subscribed any more."""
        ...

    async def admit(self, process_queue: ProcessQueue) -> float:
        """Wait until the queue may be pulled; above 0: not yet, ask again after that time."""
        ...

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Messages were put into the process queue."""
        ...

    def skipped(self, process_queue: ProcessQueue, offset: int) -> None:
        """Nothing is cached, and nothing below this offset is for this group."""
        ...

    def offset_moved(self, process_queue: ProcessQueue, offset: int) -> bool:
        """The broker refused the offset and names another; True: go on from there."""
        ...


class PullLoop:
    """Pulls one queue until its process queue retires."""

    __slots__ = ("_failing", "_owner", "_process_queue", "_suggested_id", "_task", "next_offset")

    def __init__(self, owner: PullOwner, process_queue: ProcessQueue, offset: int) -> None:
        self.next_offset = offset
        self._owner = owner
        self._process_queue = process_queue
        self._suggested_id = MASTER_ID
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        name = f"rocketq-pull-{self._process_queue.queue}"
        self._task = asyncio.create_task(self._run(), name=name)

    @property
    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        """End the loop; a request the broker still holds is simply forgotten."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])

    async def _run(self) -> None:
        while not self._process_queue.retired:
            delay_s = self._owner.pull_settings.error_delay_s
            try:
                delay_s = await self._pull()
                if self._failing and delay_s == 0:
                    self._failing = False
                    logger.info("pulling %s works again", self._process_queue.queue)
            except RocketqError as error:
                delay_s = self._failed(error)
            except BaseException as error:  # a filter of the application may raise anything
                if comes_from_outside(error):
                    raise
                logger.exception("pulling %s failed", self._process_queue.queue)
            if delay_s > 0:
                await asyncio.sleep(delay_s)

    async def _pull(self) -> float:
        """One request; answers how long to wait before the next."""
        owner = self._owner
        settings = owner.pull_settings
        process_queue = self._process_queue
        queue = process_queue.queue
        delay_s = await owner.admit(process_queue)
        if delay_s > 0 or process_queue.retired:
            return delay_s
        subscription = owner.subscription(queue.topic)
        if subscription is None:
            return settings.error_delay_s
        clock = owner.instance.clock
        process_queue.last_pull_ms = began_ms = clock.now_ms()
        offset = self.next_offset
        response = await owner.instance.ask_broker_of(
            queue,
            lambda broker: self._ask(broker, subscription, offset),
            broker_id=self._suggested_id,
        )
        if process_queue.retired or self.next_offset != offset:
            return 0.0  # not ours any more, or sought elsewhere meanwhile
        self._suggested_id = response.suggested_broker_id
        namespace = owner.instance.config.namespace
        result = pull_result(
            response, queue, subscription, namespace=namespace, filters=settings.filters
        )
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "offset %d of %s is outside %d to %d (%s): going on from %d",
                offset,
                queue,
                result.min_offset,
                result.max_offset,
                response.remark,
                result.next_offset,
            )
            if owner.offset_moved(process_queue, result.next_offset):
                self.next_offset = result.next_offset
            return 0.0
        self.next_offset = result.next_offset
        if result.messages:
            owner.statistics.pulled(queue.topic, len(result.messages), clock.now_ms() - began_ms)
            process_queue.put(result.messages)
            owner.deliver(process_queue, result.messages)
        elif process_queue.count == 0:
            owner.skipped(process_queue, result.next_offset)
        return settings.interval_s if result.status is PullStatus.FOUND else 0.0

    async def _ask(
        self, broker: BrokerAddress, subscription: Subscription, offset: int
    ) -> PullResponse:
        owner = self._owner
        settings = owner.pull_settings
        queue = self._process_queue.queue
        flags = PullFlag.SUSPEND
        commit_offset = 0
        if settings.commits and not broker.is_slave:
            commit_offset = owner.offsets.get(queue) or 0
            if commit_offset > 0:
                flags |= PullFlag.COMMIT_OFFSET
        if settings.posts_subscription:
            flags |= PullFlag.SUBSCRIPTION
        if settings.is_lite:
            flags |= PullFlag.LITE_PULL
        return await owner.instance.api.pull(
            broker.address,
            group=owner.group,
            queue=queue,
            offset=offset,
            max_messages=settings.batch_size,
            max_bytes=settings.batch_bytes,
            flags=flags,
            commit_offset=commit_offset,
            suspend_ms=settings.suspend_ms,
            subscription=subscription.expression if settings.posts_subscription else None,
            sub_version=subscription.pull_version,
            expression_type=subscription.expression_type,
            lite=settings.is_lite,
            timeout_s=settings.timeout_s,
        )

    def _failed(self, error: RocketqError) -> float:
        if isinstance(error, BrokerRejected):
            if error.code == ResponseCode.FLOW_CONTROL:
                return _FLOW_CONTROL_DELAY_S
            if error.code in _HEARTBEAT_NEEDED:
                self._owner.instance.heartbeat_soon()
        is_known = self._failing or is_outage(error)  # which is told of once for all queues
        self._failing = True
        level = logging.DEBUG if is_known else logging.WARNING
        logger.log(level, "pulling %s failed, trying again: %s", self._process_queue.queue, error)
        return self._owner.pull_settings.error_delay_s
