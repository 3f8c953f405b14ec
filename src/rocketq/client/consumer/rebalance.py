"""Sharing a topic's queues among the members of a group, again and again.

Runs at start, when a broker says that the members have changed, when a route or a subscription
has changed, and every 20 seconds in any case; never twice within a second. For each topic: the
queues from the route, the members from one of the topic's brokers, both sorted; the strategy says
which are ours; the holder takes and releases queues accordingly. If it could not (a lock is still
held by the former owner, a broker does not answer) the next round comes after a second.

For a moment two members may both hold a queue, since they do not learn of a change at the same
instant: messages may come twice then, and orderly consumers are protected by their locks.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from rocketq.client.callbacks import comes_from_outside
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import is_outage
from rocketq.client.consumer.allocation import AllocationStrategy
from rocketq.client.errors import NoRoute
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.message.names import is_retry_topic
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_FINISH_ROUND_S: Final = 1.0
_MISSING_FOR_LONG_S: Final = 30.0

AssignmentListener: TypeAlias = Callable[
    [str, Sequence[MessageQueue], Sequence[MessageQueue]], None
]
"""Told after a change: the topic, all its queues, and those held now."""


class QueueHolder(Protocol):
    """Who takes and releases the queues."""

    def subscribed_topics(self) -> Sequence[str]:
        """The topics whose queues are to be shared."""
        ...

    async def hold(
        self, topic: str, mine: Sequence[MessageQueue], everyones: Sequence[MessageQueue]
    ) -> bool:
        """Hold exactly these queues of the topic; False when that did not succeed yet."""
        ...

    async def release_other_topics(self, topics: Sequence[str]) -> bool:
        """Release the queues of all topics but these; False when that did not succeed yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTiming:
    """When rounds take place."""

    interval_s: float = 20.0
    retry_s: float = 1.0
    """After a round that did not reach its goal."""
    min_interval_s: float = 1.0


class Rebalance:
    """The rounds of one consumer."""

    def __init__(
        self,
        holder: QueueHolder,
        instance: ClientInstance,
        group: str,
        *,
        strategy: AllocationStrategy,
        is_broadcasting: bool,
        timing: RebalanceTiming,
    ) -> None:
        self._holder = holder
        self._instance = instance
        self._group = group
        self._strategy = strategy
        self._is_broadcasting = is_broadcasting
        self._timing = timing
        self._wanted = asyncio.Event()
        self._last_round = float("-inf")
        self._said: set[str] = set()
        self._missing_since: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self.paused = False

    def soon(self) -> None:
        """Something has changed: do not wait for the interval."""
        self._wanted.set()

    async def start(self) -> None:
        """Share the queues for the first time, then keep doing so."""
        balanced = await self.round()
        self._task = asyncio.create_task(
            self._keep(balanced), name=f"rocketq-rebalance-{self._group}"
        )

    async def stop(self) -> None:
        """No more rounds; one under way may finish, so that no queue is left half taken."""
        self._stop.set()
        self._wanted.set()
        task, self._task = self._task, None
        if task is None:
            return
        _, running = await asyncio.wait([task], timeout=_FINISH_ROUND_S)
        if running:
            task.cancel()
            await asyncio.wait(running)

    async def _keep(self, balanced: bool) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait_s = self._timing.interval_s if balanced else self._timing.retry_s
            await asked_to_stop(self._wanted, within_s=wait_s)
            too_early_s = self._last_round + self._timing.min_interval_s - loop.time()
            if await asked_to_stop(self._stop, within_s=max(too_early_s, 0.0)):
                return
            self._wanted.clear()
            if self.paused:
                continue
            try:
                balanced = await self.round()
            except BaseException as error:
                if comes_from_outside(error):
                    raise
                logger.exception("rebalance of %s failed", self._group)
                balanced = False

    async def round(self) -> bool:
        """Share the queues of every topic; whether everything is as it should be."""
        self._last_round = asyncio.get_running_loop().time()
        topics = self._holder.subscribed_topics()
        balanced = True
        for topic in topics:
            balanced &= await self._share(topic)
        balanced &= await self._holder.release_other_topics(topics)
        return balanced

    async def _share(self, topic: str) -> bool:
        try:
            queues = await self._instance.routes.subscribe_queues(topic)
        except NoRoute as error:
            # The instance goes on asking, and tells when the topic appears.
            self._instance.look_for_topics()
            self._say_missing(topic, error)
            return True
        except RocketqError as error:
            self._instance.look_for_topics()
            self._say_once(topic, f"{self._group} waits for topic {topic}: {error}", error)
            return True
        self._missing_since.pop(topic, None)
        if self._is_broadcasting:
            return await self._holder.hold(topic, queues, queues)
        return await self.divide(topic, queues)

    async def divide(self, topic: str, queues: Sequence[MessageQueue]) -> bool:
        """Hold this member's share of a topic's queues."""
        members = await self._members(topic)
        if members is None:
            return False
        try:
            mine = self._strategy.allocate(self._instance.client_id, queues, members)
        except BaseException as error:
            if comes_from_outside(error):
                raise
            logger.exception(
                "strategy %s failed, the queues of %s stay as they are", self._strategy.name, topic
            )
            return False
        return await self._holder.hold(topic, sorted(mine), queues)

    async def _members(self, topic: str) -> list[str] | None:
        """The client ids of the group, asked from any of the topic's brokers."""
        address = self._instance.routes.some_broker(topic)
        if address is None:
            return None
        try:
            members = await self._instance.api.consumer_list(address, self._group)
            if self._instance.client_id not in members:
                # A broker that has just started has not heard of us yet; without this, all
                # queues would be given away and taken back.
                await self._instance.heartbeat()
                members = await self._instance.api.consumer_list(address, self._group)
        except RocketqError as error:
            self._say_once(
                topic,
                f"the members of {self._group} are not known, "
                f"the queues of {topic} stay as they are: {error}",
                error,
            )
            self._instance.heartbeat_soon()
            return None
        if self._instance.client_id in members:
            self._said.discard(topic)
        else:
            self._say_once(
                topic,
                f"{address} does not count this client as a member of {self._group}: "
                "is the group created there (autoCreateSubscriptionGroup=false)?",
            )
        # A client that has reconnected is listed twice until the broker misses the old connection.
        return sorted(set(members))

    def _say_missing(self, topic: str, error: NoRoute) -> None:
        """A topic that does not exist yet is nothing unusual, unless it stays so."""
        since = self._missing_since.get(topic)
        now = asyncio.get_running_loop().time()
        if since is None:
            self._missing_since[topic] = now
            # A retry topic is made by the group's first heartbeat.
            level = logging.DEBUG if is_retry_topic(topic) else logging.INFO
            logger.log(level, "%s waits for topic %s to be made", self._group, topic)
        elif now - since >= _MISSING_FOR_LONG_S:
            self._say_once(topic, f"{self._group} still waits for topic {topic}: {error}", error)

    def _say_once(self, topic: str, trouble: str, error: RocketqError | None = None) -> None:
        """Warn of what keeps a topic from being shared, but not in every round."""
        is_known = topic in self._said or (error is not None and is_outage(error))
        self._said.add(topic)
        logger.log(logging.DEBUG if is_known else logging.WARNING, "%s", trouble)
