"""A push consumer at work: from start to close.

    rebalance ── queues ──> assigned queues ── pull loops ──> process queues
                                                                 │ pieces
    offset store <── offsets ── consumption (concurrent or orderly) <── runner: the listener
                                   │ failed messages
                                   └──> send-back

This is the one place where the parts meet; it also answers what brokers ask of a consumer.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.held_queues import AssignedQueues, AssignmentListener, tell_assignment
from rocketq.client.consumer.offset_store import LocalOffsetStore, OffsetStore, RemoteOffsetStore
from rocketq.client.consumer.process_queue import FlowLimits, ProcessQueue
from rocketq.client.consumer.pull_loop import PullSettings
from rocketq.client.consumer.push.concurrent import ConcurrentConsumption
from rocketq.client.consumer.push.consumption import ConsumptionSettings
from rocketq.client.consumer.push.direct import consume_directly
from rocketq.client.consumer.push.listener import Listener
from rocketq.client.consumer.push.orderly import OrderlyConsumption
from rocketq.client.consumer.push.send_back import DEFAULT_MAX_RECONSUME_TIMES, SendBack
from rocketq.client.consumer.push.settings import MIB, PushSettings
from rocketq.client.consumer.queue_locks import QueueLocks
from rocketq.client.consumer.rebalance import Rebalance
from rocketq.client.consumer.running_info import running_info
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.consumer.subscription import SQL92, Subscription, Subscriptions
from rocketq.client.errors import BrokerRejected
from rocketq.client.hooks import ConsumeHook
from rocketq.client.trace.trace import Trace
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import retry_topic, wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo

logger = logging.getLogger(__name__)

CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
# Looked for this often within one consume timeout, so that expiry is not late by as much again.
_EXPIRY_CHECKS = 4


class PushSession:
    """One consumer from its start to its close. Belongs to one event loop."""

    def __init__(
        self,
        instance: ClientInstance,
        settings: PushSettings,
        subscriptions: Subscriptions,
        listener: Listener,
        *,
        on_assignment: AssignmentListener | None,
        hooks: Sequence[ConsumeHook],
        trace: Trace | None,
    ) -> None:
        self.instance = instance
        self.settings = settings
        self.subscriptions = subscriptions
        self.group = wrap_namespace(instance.config.namespace, settings.group)
        self.started_ms = instance.clock.now_ms()
        self.statistics = ConsumerStatistics(instance.clock)
        self.offsets = self._offset_store()
        self.pull_settings = PullSettings(
            batch_size=settings.pull_batch_size,
            batch_bytes=settings.pull_batch_bytes,
            suspend_ms=settings.pull_suspend_ms,
            interval_s=settings.pull_interval_ms / 1000,
            error_delay_s=settings.pull_error_delay_s,
            commits=not settings.is_broadcasting,
            posts_subscription=settings.post_subscription,
            filters=settings.filters,
        )
        self._limits = FlowLimits(
            count=settings.pull_threshold,
            size=settings.pull_threshold_mib * MIB,
            span=None if settings.is_orderly else settings.max_span,
        )
        self._trace = trace
        self._on_assignment = on_assignment
        locked = settings.is_orderly and not settings.is_broadcasting
        self._locks = QueueLocks(instance, self.group) if locked else None
        self.consumption = self._make_consumption(listener, hooks)
        self.assigned = AssignedQueues(
            self,
            locks=self._locks,
            limits=self._limits,
            consume_from=settings.consume_from,
            consume_timestamp_ms=settings.consume_timestamp_ms,
            on_change=self._assignment_changed,
        )
        self.rebalance = Rebalance(
            self,
            instance,
            self.group,
            strategy=settings.allocation,
            is_broadcasting=settings.is_broadcasting,
            timing=settings.rebalance,
        )
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_registered = False
        self._closed = False

    def _offset_store(self) -> OffsetStore:
        if self.settings.is_broadcasting:
            return LocalOffsetStore.of(
                self.settings.offset_folder, self.instance.client_id, self.group
            )
        return RemoteOffsetStore(self.instance, self.group)

    def _make_consumption(
        self, listener: Listener, hooks: Sequence[ConsumeHook]
    ) -> ConcurrentConsumption | OrderlyConsumption:
        settings = self.settings
        limit = settings.max_reconsume_times
        send_back = SendBack(
            self.instance, self.group, DEFAULT_MAX_RECONSUME_TIMES if limit < 0 else limit
        )
        consumption = ConsumptionSettings(
            group=self.group,
            namespace=self.instance.config.namespace,
            batch_size=settings.batch_size,
            concurrency=settings.concurrency,
            is_broadcasting=settings.is_broadcasting,
            max_reconsume_times=limit,
            consume_timeout_s=settings.consume_timeout_s,
            suspend_ms=settings.suspend_ms,
        )
        if settings.is_orderly:
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
        return ConcurrentConsumption(
            consumption,
            listener,
            offsets=self.offsets,
            send_back=send_back,
            hooks=hooks,
            statistics=self.statistics,
            clock=self.instance.clock,
        )

    # ------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Register, find the queues, begin to pull. Brokers and topics may still be missing."""
        await self.offsets.load()
        now_ms = self.instance.clock.now_ms()
        self.subscriptions.refresh(now_ms)
        if not self.settings.is_broadcasting:
            self.subscriptions.add_derived(retry_topic(self.group), now_ms)
        self.instance.register_consumer(self)
        self._is_registered = True
        await asyncio.gather(*(self._find_route(topic) for topic in self.topics()))
        await self._check_conditions()
        await self.instance.heartbeat()
        await self.rebalance.start()
        if self._locks is not None:
            self._start_task(self._keep_locks(self._locks), "locks")
        if isinstance(self.consumption, ConcurrentConsumption):
            self._start_task(self._keep_expiring(self.consumption), "expiry")
        logger.info("consumer %s started as %s", self.group, self.instance.client_id)

    async def close(self) -> None:
        """End in order: pull no more, let listeners finish, store offsets, say goodbye."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.rebalance.stop()
            await self._stop_tasks()
            await self.assigned.stop_pulling()
            if not await self.consumption.close(self.settings.close_timeout_s):
                logger.warning(
                    "the listener of %s did not finish within %s s: its messages will come again",
                    self.group,
                    self.settings.close_timeout_s,
                )
            await self.assigned.release_at_end()
            if self._is_registered:
                await self.instance.unregister_consumer(self.group)
            if self._trace is not None:
                await self._trace.close()
        finally:
            await self.instance.release()
        logger.info("consumer %s closed", self.group)

    async def _find_route(self, topic: str) -> None:
        try:
            await self.instance.routes.subscribe_queues(topic)
        except RocketqError as error:
            logger.debug("no route of %s at the start of %s: %s", topic, self.group, error)

    async def _check_conditions(self) -> None:
        """Have brokers compile SQL conditions, so that a wrong one fails the start."""
        for subscription in self.subscriptions:
            if subscription.expression_type == SQL92:
                await self.check_condition(subscription)

    async def check_condition(self, subscription: Subscription) -> None:
        """Raises when a broker refuses the condition; one that is away cannot say."""
        address = self.instance.routes.some_broker(subscription.topic)
        if address is None:
            return
        try:
            await self.instance.api.check_client(
                address, self.instance.client_id, self.group, subscription.data()
            )
        except BrokerRejected:
            raise
        except RocketqError as error:
            logger.warning("%s cannot check %r: %s", address, subscription.expression, error)

    def _start_task(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.create_task(work, name=f"rocketq-{what}-{self.group}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep_locks(self, locks: QueueLocks) -> None:
        while True:
            await asyncio.sleep(self.settings.lock_interval_s)
            held = [queue for queue in self.assigned.process_queues() if not queue.retired]
            await _guarded(locks.renew(held), "renewing locks")

    async def _keep_expiring(self, consumption: ConcurrentConsumption) -> None:
        while True:
            await asyncio.sleep(self.settings.consume_timeout_s / _EXPIRY_CHECKS)
            await _guarded(consumption.send_back_expired(self.assigned.process_queues()), "expiry")

    # ------------------------------------------------------------- while it is running

    async def subscribe(self, subscription: Subscription) -> None:
        await self._find_route(subscription.topic)
        if subscription.expression_type == SQL92:
            await self.check_condition(subscription)
        await self.instance.heartbeat()
        self.rebalance.soon()

    def unsubscribed(self) -> None:
        self.instance.heartbeat_soon()
        self.rebalance.soon()

    def suspend(self) -> None:
        self._resumed.clear()
        self.rebalance.paused = True

    def resume(self) -> None:
        self.rebalance.paused = False
        self._resumed.set()
        self.rebalance.soon()

    @property
    def is_suspended(self) -> bool:
        return not self._resumed.is_set()

    # ----------------------------------------------------------- for the pull loops

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
        self._start_task(self.assigned.restart({process_queue.queue: offset}), "restart")
        return False

    # ------------------------------------------------------------- for the rebalance

    def subscribed_topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        return await self.assigned.hold(topic, mine, everyones)

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        return await self.assigned.release_other_topics(topics)

    def _assignment_changed(
        self, topic: str, everyones: Sequence[MessageQueue], held: Sequence[MessageQueue]
    ) -> None:
        self._share_limits()
        self.subscriptions.raise_version(topic, self.instance.clock.now_ms())
        self.instance.heartbeat_soon()
        namespace = self.instance.config.namespace
        tell_assignment(self._on_assignment, namespace, topic, everyones, held)

    def _share_limits(self) -> None:
        """A limit given for a whole topic is divided among the queues held."""
        count = max(len(self.assigned), 1)
        settings = self.settings
        if settings.pull_threshold_of_topic > 0:
            self._limits.count = max(settings.pull_threshold_of_topic // count, 1)
        if settings.pull_threshold_mib_of_topic > 0:
            self._limits.size = max(settings.pull_threshold_mib_of_topic // count, 1) * MIB

    # ------------------------------------------------------- for the client instance

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_PASSIVELY,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from.value,
            subscription_data_set=[subscription.data() for subscription in self.subscriptions],
        )

    def topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    def routes_changed(self, topic: str) -> None:
        if topic in self.subscriptions:
            self.rebalance.soon()

    def rebalance_soon(self) -> None:
        self.rebalance.soon()

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self.assigned.queues()))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        logger.info("the offsets of %s in %s are set by the broker", topic, self.group)
        await self.assigned.restart(offsets)
        self.rebalance.soon()

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.snapshot(topic)

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        return running_info(
            self.instance,
            settings=self.settings,
            consume_type=CONSUME_PASSIVELY,
            is_orderly=self.settings.is_orderly,
            concurrency=self.consumption.runner.concurrency,
            started_ms=self.started_ms,
            subscriptions=self.subscriptions,
            process_queues=self.assigned.process_queues(),
            offsets=self.offsets,
            statistics=self.statistics,
            with_stacks=with_stacks,
        )

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        return await consume_directly(
            self.consumption.runner,
            message,
            group=self.group,
            namespace=self.instance.config.namespace,
            broker_name=broker_name,
            is_orderly=self.settings.is_orderly,
            clock=self.instance.clock,
        )


async def _guarded(work: Coroutine[Any, Any, None], what: str) -> None:
    """A background round: what fails in it is logged and tried again next time."""
    try:
        await work
    except Exception:
        logger.exception("%s failed", what)
