"""A consumer at work, as its group and its brokers see it; the same for all kinds.

    start   offsets loaded, group announced, routes found, heartbeat, then its own beginning
    close   its own end, then the offsets stored and the group left

In between it takes part in the rebalance of its topics and answers what brokers ask of a client
(`ClientInstance`). The kinds differ in what they do with the queues they get.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from rocketq.client.callbacks import tell
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.consumer.offset_store import LocalOffsetStore, OffsetStore, RemoteOffsetStore
from rocketq.client.consumer.options import GroupConfig
from rocketq.client.consumer.process_queue import ProcessQueue
from rocketq.client.consumer.rebalance import AssignmentListener, Rebalance
from rocketq.client.consumer.running_info import running_info
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.consumer.subscription import Subscriptions
from rocketq.client.errors import InvalidState
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.names import unwrap_namespace, wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.heartbeat import ConsumerData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo

logger = logging.getLogger(__name__)

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"


class Member:
    """One consumer from its start to its close. Belongs to one event loop."""

    consume_type: ClassVar[str] = CONSUME_ACTIVELY

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: GroupConfig,
        subscriptions: Subscriptions,
    ) -> None:
        self.instance = instance
        self.config = config
        self.subscriptions = subscriptions
        self.group = wrap_namespace(instance.config.namespace, group)
        self.started_ms = instance.clock.now_ms()
        self.statistics = ConsumerStatistics(instance.clock)
        self.offsets = self._offset_store()
        self.rebalance = self._make_rebalance()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_registered = False
        self._is_closing = False

    def _make_rebalance(self) -> Rebalance:
        return Rebalance(
            self,
            self.instance,
            self.group,
            strategy=self.config.allocation,
            is_broadcasting=self.config.is_broadcasting,
            timing=self.config.timing,
        )

    def _offset_store(self) -> OffsetStore:
        if self.config.is_broadcasting:
            return LocalOffsetStore.of(
                self.config.offset_folder, self.instance.client_id, self.group
            )
        return RemoteOffsetStore(self.instance, self.group)

    # Life

    async def start(self) -> None:
        """Register, find the queues, begin. Brokers and topics may still be missing."""
        await self.offsets.load()
        self.subscriptions.refresh(self.instance.clock.now_ms())
        self.subscribe_derived()
        self.instance.register_consumer(self)
        self._is_registered = True
        await asyncio.gather(*(self.find_route(topic) for topic in self.topics()))
        await self.check()
        await self.instance.heartbeat()
        await self.begin()
        logger.info("consumer %s started as %s", self.group, self.instance.client_id)

    async def close(self) -> None:
        """Do no more, finish what is under way, store offsets, say goodbye."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            await self.rebalance.stop()
            await self._stop_tasks()
            await self.end()
            if self._is_registered:
                await self.instance.unregister_consumer(self.group)
            await self.ended()
        finally:
            await self.instance.release()
        logger.info("consumer %s closed", self.group)

    def subscribe_derived(self) -> None:
        """Subscribe to topics that follow from being this consumer."""

    async def check(self) -> None:
        """Raise what should fail the start."""

    async def begin(self) -> None:
        """Begin to work, now that the brokers know this member."""
        await self.rebalance.start()

    async def end(self) -> None:
        """Finish what is under way, and store the offsets."""
        await self.offsets.persist(list(self.offsets.snapshot()), acknowledged=True)

    async def ended(self) -> None:
        """The group is left."""

    async def find_route(self, topic: str) -> None:
        """Look for a topic that may not be there yet."""
        try:
            await self.instance.routes.subscribe_queues(topic)
        except RocketqError as error:
            logger.debug("no route of %s for %s: %s", topic, self.group, error)
            self.instance.look_for_topics()

    def start_task(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Work in the background until the close."""
        task = asyncio.create_task(work, name=f"rocketq-{what}-{self.group}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def subscriptions_changed(self) -> None:
        """Let the brokers know, and share the queues accordingly."""
        self.instance.heartbeat_soon()
        self.rebalance.soon()

    # For the rebalance

    def subscribed_topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        raise AssertionError("each kind of consumer has its own")

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        return True

    def assignment_changed(
        self, topic: str, everyones: Sequence[MessageQueue], held: Sequence[MessageQueue]
    ) -> None:
        """Tell brokers and the user that the queues of a topic are others now."""
        logger.info(
            "%s now has %d of the %d queues of %s", self.group, len(held), len(everyones), topic
        )
        self.subscriptions.raise_version(topic, self.instance.clock.now_ms())
        self.instance.heartbeat_soon()
        listener = self.assignment_listener(topic)
        if listener is not None:
            bare = unwrap_namespace(self.instance.config.namespace, topic)
            tell(
                "the assignment listener failed",
                listener,
                bare,
                [queue._replace(topic=bare) for queue in everyones],
                [queue._replace(topic=bare) for queue in held],
            )

    def assignment_listener(self, topic: str) -> AssignmentListener | None:
        """Whom to tell about a topic's queues."""
        return self.config.on_assignment

    # For the client instance

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model=self.config.wire_model,
            consume_from_where=self.config.starts_from.value,
            subscription_data_set=[subscription.data() for subscription in self.subscriptions],
        )

    def topics(self) -> Sequence[str]:
        return self.subscriptions.topics()

    def routes_changed(self, topic: str) -> None:
        if topic in self.topics():
            self.rebalance.soon()

    def rebalance_soon(self) -> None:
        self.rebalance.soon()

    async def persist_offsets(self) -> None:
        await self.offsets.persist(list(self.offsets.snapshot()))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            self.offsets.update(queue, offset)
        await self.offsets.persist(list(offsets), acknowledged=True)

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.snapshot(topic)

    def popped_queues(self) -> Iterable[ProcessQueue]:
        """The queues that are popped; none, unless a kind of consumer does that."""
        return ()

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        return running_info(self, with_stacks=with_stacks)

    @property
    def is_orderly(self) -> bool:
        return False

    @property
    def concurrency(self) -> int:
        """Calls of a listener that may be under way at once."""
        return 0

    def process_queues(self) -> Iterable[ProcessQueue]:
        """What is cached of each queue."""
        return ()

    async def consume_directly(
        self, message: MessageExt, broker_name: str | None
    ) -> ConsumeMessageDirectlyResult:
        raise InvalidState(f"{self.group} asks for its messages: there is no listener to call")
