"""A push consumer at work: from start to close.

    rebalance ── queues ──> held queues ── pull loops ──> process queues
                                                             │ pieces
    offset store <── offsets ── consumption (concurrent or orderly) <── runner: the listener
                                   │ failed messages
                                   └──> send-back

This is the one place where the parts meet.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.held_queues import HeldQueues
from rocketq.client.consumer.member import CONSUME_PASSIVELY, Member
from rocketq.client.consumer.options import DEFAULT_MAX_RECONSUME_TIMES, PushConfig
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.client.consumer.push.concurrent import ConcurrentConsumption
from rocketq.client.consumer.push.consumption import ConsumptionSettings
from rocketq.client.consumer.push.direct import consume_directly
from rocketq.client.consumer.push.listener import Listener
from rocketq.client.consumer.push.orderly import OrderlyConsumption
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.queue_locks import QueueLocks
from rocketq.client.consumer.subscription import SQL92, Subscription, Subscriptions
from rocketq.client.errors import BrokerRejected
from rocketq.client.hooks import ConsumeHook
from rocketq.client.trace.trace import Trace
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult

logger = logging.getLogger(__name__)

# Looked for this often within one consume timeout, so that expiry is not late by as much again.
_EXPIRY_CHECKS: Final = 4


class PushSession(Member):
    """One push consumer from its start to its close. Belongs to one event loop."""

    consume_type = CONSUME_PASSIVELY
    config: PushConfig

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: PushConfig,
        subscriptions: Subscriptions,
        listener: Listener,
        *,
        trace: Trace | None,
    ) -> None:
        super().__init__(instance, group, config, subscriptions)
        self.pull_settings = config.pull
        self._limits = config.limits
        self._trace = trace
        locked = config.orderly and not config.is_broadcasting
        self._locks = QueueLocks(instance, self.group) if locked else None
        hooks: list[ConsumeHook] = list(config.hooks)
        if trace is not None:
            hooks.append(trace)
        self.consumption = self._make_consumption(listener, hooks)
        self.held = HeldQueues(self, self._limits, locks=self._locks)
        self._resumed = asyncio.Event()
        self._resumed.set()

    def _make_consumption(
        self, listener: Listener, hooks: Sequence[ConsumeHook]
    ) -> ConcurrentConsumption | OrderlyConsumption:
        config = self.config
        limit = config.max_reconsume_times
        send_back = SendBack(
            self.instance, self.group, DEFAULT_MAX_RECONSUME_TIMES if limit < 0 else limit
        )
        consumption = ConsumptionSettings(
            group=self.group,
            namespace=self.instance.config.namespace,
            batch_size=self._batch_size(listener),
            concurrency=config.concurrency,
            is_broadcasting=config.is_broadcasting,
            max_reconsume_times=limit,
            consume_timeout_s=config.consume_timeout_s,
            suspend_ms=config.suspend_ms,
        )
        if config.orderly:
            return OrderlyConsumption(
                consumption,
                listener,
                offsets=self.offsets,
                send_back=send_back,
                locks=QueueLocks(self.instance, self.group),
                hooks=hooks,
                statistics=self.statistics,
                clock=self.instance.clock,
            )
        return self._make_concurrent(consumption, listener, send_back, hooks)

    def _make_concurrent(
        self,
        settings: ConsumptionSettings,
        listener: Listener,
        send_back: SendBack,
        hooks: Sequence[ConsumeHook],
    ) -> ConcurrentConsumption:
        return ConcurrentConsumption(
            settings,
            listener,
            offsets=self.offsets,
            send_back=send_back,
            hooks=hooks,
            statistics=self.statistics,
            clock=self.instance.clock,
        )

    def _batch_size(self, listener: Listener) -> int:
        if self.config.batch_size is not None:
            return self.config.batch_size
        # A listener for many gets as many as one pull brings.
        return self.config.pull_batch_size if listener.takes_list else 1

    # Life

    def subscribe_derived(self) -> None:
        if not self.config.is_broadcasting:
            now_ms = self.instance.clock.now_ms()
            self.subscriptions.add_derived(retry_topic(self.group), now_ms)

    async def check(self) -> None:
        """Have brokers compile SQL conditions, so that a wrong one fails the start."""
        for subscription in self.subscriptions:
            await self._check_condition(subscription)

    async def begin(self) -> None:
        await super().begin()
        if self._locks is not None:
            self.start_task(self._keep_locks(self._locks), "locks")
        if isinstance(self.consumption, ConcurrentConsumption):
            self.start_task(self._keep_expiring(self.consumption), "expiry")

    async def end(self) -> None:
        await self.held.stop_pulling()
        if not await self.consumption.close(self.config.close_timeout_s):
            logger.warning(
                "the listener of %s did not finish within %s s: its messages will come again",
                self.group,
                self.config.close_timeout_s,
            )
        await self.held.release_at_end()

    async def ended(self) -> None:
        if self._trace is not None:
            await self._trace.close()

    async def _check_condition(self, subscription: Subscription) -> None:
        """Raises when a broker refuses the condition; one that is away cannot say."""
        address = self.instance.routes.some_broker(subscription.topic)
        if subscription.expression_type != SQL92 or address is None:
            return
        try:
            await self.instance.api.check_client(
                address, self.instance.client_id, self.group, subscription.data()
            )
        except BrokerRejected:
            raise
        except RocketqError as error:
            logger.warning("%s cannot check %r: %s", address, subscription.expression, error)

    async def _keep_locks(self, locks: QueueLocks) -> None:
        while True:
            await asyncio.sleep(self.config.lock_interval_ms / 1000)
            held = [queue for queue in self.held.process_queues() if not queue.retired]
            await _guarded(locks.renew(held), "renewing locks")

    async def _keep_expiring(self, consumption: ConcurrentConsumption) -> None:
        while True:
            await asyncio.sleep(self.config.consume_timeout_s / _EXPIRY_CHECKS)
            await _guarded(consumption.send_back_expired(self.held.process_queues()), "expiry")

    # While it is running

    async def subscribe(self, subscription: Subscription) -> None:
        await self.find_route(subscription.topic)
        await self._check_condition(subscription)
        await self.instance.heartbeat()
        self.rebalance.soon()

    def suspend(self) -> None:
        self._resumed.clear()
        self.rebalance.paused = True

    def resume(self) -> None:
        self.rebalance.paused = False
        self._resumed.set()
        self.rebalance.soon()

    @property
    def assignment(self) -> Sequence[MessageQueue]:
        """The queues this member has at the moment."""
        return sorted(self.held.queues())

    @property
    def is_suspended(self) -> bool:
        return not self._resumed.is_set()

    # For the pull loops

    def subscription(self, topic: str) -> Subscription | None:
        return self.subscriptions.get(topic)

    async def admit(self, process_queue: ProcessQueue) -> float:
        if not self._resumed.is_set():
            await self._resumed.wait()
        if not process_queue.has_room:
            await process_queue.room()
        if self._locks is not None and not process_queue.locked:
            return self.pull_settings.error_delay_s
        return 0.0

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self.consumption.arrived(process_queue)

    def skipped(self, process_queue: ProcessQueue, offset: int) -> None:
        self.offsets.update(process_queue.queue, offset, only_forward=True)

    def offset_moved(self, process_queue: ProcessQueue, offset: int) -> bool:
        process_queue.drop()
        self.start_task(self.held.restart({process_queue.queue: offset}), "restart")
        return False

    # For the rebalance

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        return await self.held.hold(topic, mine, everyones)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        return await self.held.release_other_topics(topics)

    def assignment_changed(
        self, topic: str, everyones: Sequence[MessageQueue], held: Sequence[MessageQueue]
    ) -> None:
        limits = self.config.limits_for(len(self.held))
        self._limits.count, self._limits.size = limits.count, limits.size
        super().assignment_changed(topic, everyones, held)

    def queue_taken(self, queue: MessageQueue, offset: int) -> None:
        """Nothing: what is consumed is noted when it is."""

    def queue_dropped(self, process_queue: ProcessQueue) -> None:
        """Nothing: its listener hears of it through the process queue."""

    # For the client instance

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self.held.queues()))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await self.held.restart(offsets)
        self.rebalance.soon()

    @property
    def is_orderly(self) -> bool:
        return self.config.orderly

    @property
    def concurrency(self) -> int:
        return self.consumption.runner.concurrency

    def process_queues(self) -> Iterable[ProcessQueue]:
        return self.held.process_queues()

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        return await consume_directly(
            self.consumption.runner,
            message,
            group=self.group,
            namespace=self.instance.config.namespace,
            broker_name=broker_name,
            is_orderly=self.config.orderly,
            clock=self.instance.clock,
        )


async def _guarded(work: Coroutine[Any, Any, None], what: str) -> None:
    """A background round: what fails in it is logged and tried again next time."""
    try:
        await work
    except Exception:
        logger.exception("%s failed", what)
