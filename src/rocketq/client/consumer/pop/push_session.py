"""A push consumer whose queues the brokers share out: some are pulled, others popped.

    broker: assignment ──┬── PULL ──> held queues, as in every push consumer
                         └── POP ───> popped queues ── pop loops ──> the same listener
                                                        │ done: acknowledged
                                                        └ failed: hidden for longer

A group pops a topic when its brokers say so (`mqadmin setConsumeMode`, or the setting
defaultMessageRequestMode). The group's retry topic is always pulled.
"""

from collections.abc import Iterable, Sequence

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.options import DEFAULT_MAX_RECONSUME_TIMES, PushConfig
from rocketq.client.consumer.pop.consumption import PopConsumption
from rocketq.client.consumer.pop.queue import PoppedQueues, PopQueue, PopSettings
from rocketq.client.consumer.pop.rebalance import BrokerRebalance
from rocketq.client.consumer.pop.requests import PopRequests
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.client.consumer.push.concurrent import ConcurrentConsumption
from rocketq.client.consumer.push.consumption import ConsumptionSettings
from rocketq.client.consumer.push.listener import Listener
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.push.session import PushSession
from rocketq.client.consumer.rebalance import Rebalance
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.consumer.subscription import Subscriptions
from rocketq.client.hooks import ConsumeHook
from rocketq.client.trace.trace import Trace
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import is_retry_topic
from rocketq.message.pop_topics import retry_topic_v1, retry_topic_v2
from rocketq.message.queue import MessageQueue


class PopPushSession(PushSession):
    """One such consumer from its start to its close. Belongs to one event loop."""

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
        most = config.max_reconsume_times
        self.pop_settings = PopSettings(
            invisible_ms=round(config.pop_invisible_s * 1000),
            poll_ms=round(config.pop_poll_s * 1000),
            threshold=config.pop_threshold,
            from_first=config.starts_from is ConsumeFrom.FIRST,
            max_reconsume_times=DEFAULT_MAX_RECONSUME_TIMES if most < 0 else most,
        )
        super().__init__(instance, group, config, subscriptions, listener, trace=trace)
        self._popped = PoppedQueues(self)

    def _make_rebalance(self) -> Rebalance:
        return BrokerRebalance(
            self,
            self.instance,
            self.group,
            strategy=self.config.allocation,
            is_broadcasting=False,
            timing=self.config.timing,
        )

    def _make_concurrent(
        self,
        settings: ConsumptionSettings,
        listener: Listener,
        send_back: SendBack,
        hooks: Sequence[ConsumeHook],
    ) -> ConcurrentConsumption:
        self.pop_requests = PopRequests(self.instance, self.group)
        self._pop_consumption = PopConsumption(
            settings,
            listener,
            offsets=self.offsets,
            send_back=send_back,
            hooks=hooks,
            statistics=self.statistics,
            clock=self.instance.clock,
            requests=self.pop_requests,
            max_reconsume_times=self.pop_settings.max_reconsume_times,
        )
        return self._pop_consumption

    async def end(self) -> None:
        await self._popped.stop()
        await super().end()

    # For the rebalance

    async def hold_assigned(
        self,
        topic: str,
        pulled: Sequence[MessageQueue],
        popped: Sequence[MessageQueue],
        everyones: Sequence[MessageQueue],
    ) -> bool:
        if await self._popped.hold(topic, popped):
            self.assignment_changed(topic, everyones, popped or pulled)
        if not is_retry_topic(topic):
            await self._pull_retries_of(topic, wanted=bool(pulled) and not popped)
        return await self.hold(topic, pulled, everyones)

    async def _pull_retries_of(self, topic: str, *, wanted: bool) -> None:
        """What was popped and not acknowledged is pulled too, once a group pulls a topic."""
        for retries in (retry_topic_v1(self.group, topic), retry_topic_v2(self.group, topic)):
            if not wanted:
                self.subscriptions.remove_derived(retries)
                continue
            if retries in self.subscriptions:
                continue
            try:
                await self.instance.routes.subscribe_queues(retries)
            except RocketqError:
                continue  # nothing was ever popped and left
            self.subscriptions.add_derived(retries, self.instance.clock.now_ms(), retried=topic)
            self.subscriptions_changed()

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        await self._popped.release_other_topics(topics)
        return await super().release_other_topics(topics)

    # For the pop loops

    def filtered(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        for hook in self.config.filters:
            messages = hook(messages)
        return messages

    def popped(self, queue: PopQueue) -> None:
        self.consumption.arrived(queue)

    def give_up(self, messages: Sequence[MessageExt]) -> None:
        self._pop_consumption.done(messages)

    def popped_queues(self) -> Iterable[ProcessQueue]:
        return self._popped.pop_queues()

    @property
    def assignment(self) -> Sequence[MessageQueue]:
        return sorted([*self.held.queues(), *self._popped.queues()])
