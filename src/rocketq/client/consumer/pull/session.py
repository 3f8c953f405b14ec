"""A pull consumer at work: single pulls, and this member's share of the registered topics."""

from collections.abc import Sequence

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import MASTER_ID, BrokerAddress
from rocketq.client.cluster.rpc import PullResponse
from rocketq.client.consumer.member import Member
from rocketq.client.consumer.options import PullConfig
from rocketq.client.consumer.pull_result import PullResult, pull_result
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.subscription import Expression, Subscription, Subscriptions
from rocketq.message.flags import PullFlag
from rocketq.message.queue import MessageQueue


class PullSession(Member):
    """One pull consumer from its start to its close. Belongs to one event loop."""

    config: PullConfig

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: PullConfig,
        subscriptions: Subscriptions,
    ) -> None:
        super().__init__(instance, group, config, subscriptions)
        self.send_back = SendBack(instance, self.group, config.max_reconsume_times)
        self.in_balance: dict[str, list[MessageQueue]] = {}
        # Only these are shared out; topics that were merely pulled are not.
        self._registered_topics = list(subscriptions.topics())
        self._suggested_ids: dict[MessageQueue, int] = {}

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: Expression,
        max_messages: int,
        *,
        suspend_ms: int,
        timeout_s: float,
    ) -> PullResult:
        if queue.topic not in self.subscriptions:
            # Brokers get to know of the topic with the next heartbeat.
            self.subscriptions.add_derived(queue.topic, self.instance.clock.now_ms())
            self.instance.heartbeat_soon()
        now_ms = self.instance.clock.now_ms()
        subscription = Subscription(queue.topic, expression, now_ms)
        flags = PullFlag.SUBSCRIPTION
        if suspend_ms:
            flags |= PullFlag.SUSPEND

        async def ask(broker: BrokerAddress) -> PullResponse:
            return await self.instance.api.pull(
                broker.address,
                group=self.group,
                queue=queue,
                offset=offset,
                max_messages=max_messages,
                flags=flags,
                suspend_ms=suspend_ms,
                subscription=subscription.expression,
                expression_type=subscription.expression_type,
                timeout_s=timeout_s,
            )

        broker_id = self._suggested_ids.get(queue, MASTER_ID)
        response = await self.instance.ask_broker_of(queue, ask, broker_id=broker_id)
        self._suggested_ids[queue] = response.suggested_broker_id
        result = pull_result(
            response,
            queue,
            subscription,
            namespace=self.instance.config.namespace,
            filters=self.config.filters,
        )
        elapsed_ms = self.instance.clock.now_ms() - now_ms
        self.statistics.pulled(queue.topic, len(result.messages), elapsed_ms)
        return result

    # For the rebalance

    def subscribed_topics(self) -> Sequence[str]:
        return self._registered_topics

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        if self.in_balance.get(topic) != list(mine):
            self.in_balance[topic] = list(mine)
            self.assignment_changed(topic, everyones, mine)
        return True
