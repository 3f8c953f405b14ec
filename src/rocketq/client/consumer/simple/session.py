"""A simple consumer at work: from which brokers it pops, in which turn, and how it waits.

A *place* is one topic at one broker. `receive` asks the places one after the other, beginning
with another one each time, so that no topic and no broker is served last for ever. When none has
anything, it waits: at the only place by a pop that the broker holds; at several by asking all of
them to tell (NOTIFICATION), which takes nothing from anybody, and then popping again.
"""

import asyncio
import logging
import uuid
from collections.abc import Collection, Sequence
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.outages import OUTAGES, is_outage
from rocketq.client.consumer.member import Member
from rocketq.client.consumer.options import SimpleConfig
from rocketq.client.consumer.pop.requests import ALL_QUEUES, Popped, PopRequests
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.consumer.subscription import Subscription, Subscriptions
from rocketq.client.errors import BrokerUnknown
from rocketq.common.errors import RocketqError
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


class SimpleSession(Member):
    """One simple consumer from its start to its close. Belongs to one event loop."""

    config: SimpleConfig

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: SimpleConfig,
        subscriptions: Subscriptions,
    ) -> None:
        super().__init__(instance, group, config, subscriptions)
        self.requests = PopRequests(instance, self.group)
        self._turn = 0
        self._attempts: dict[MessageQueue, str] = {}
        self._watches: dict[MessageQueue, asyncio.Task[bool]] = {}
        self._is_over = asyncio.Event()

    # Life

    async def begin(self) -> None:
        """Nothing is shared out: every member pops from everywhere."""

    async def end(self) -> None:
        self._is_over.set()
        watches = list(self._watches.values())
        for watch in watches:
            watch.cancel()
        if watches:
            await asyncio.wait(watches)

    # Receiving

    async def receive(
        self, max_messages: int, invisible_ms: int, wait_s: float
    ) -> list[MessageExt]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        pause_s = _PAUSE_S
        while True:
            places = await self._places()
            left_ms = max(round((deadline - loop.time()) * 1000), 0)
            began_at = loop.time()
            poll_ms = left_ms if len(places) == 1 else 0
            messages = await self._pop_in_turn(places, max_messages, invisible_ms, poll_ms)
            left_s = deadline - loop.time()
            if messages or left_s <= 0 or self._is_over.is_set():
                return messages
            if len(places) > 1:
                await self._wait_for_some(places, left_s)
            # Nothing although somebody was told to wait: a broker is away, or a queue is closed
            # whose messages are out. Not at once again then.
            if loop.time() - began_at < _PAUSE_S:
                await self._pause(min(pause_s, left_s))
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                pause_s = _PAUSE_S

    async def _places(self) -> Sequence[MessageQueue]:
        """Every topic at every broker that has it, in this turn's order."""
        found: list[MessageQueue] = []
        for topic in self.subscriptions.topics():
            try:
                queues = await self.instance.routes.subscribe_queues(topic)
            except RocketqError as error:
                logger.debug("no route of %s for %s: %s", topic, self.group, error)
                self.instance.look_for_topics()
                continue
            brokers = sorted({queue.broker_name for queue in queues})
            found += [MessageQueue(topic, broker, ALL_QUEUES) for broker in brokers]
        first = self._turn % max(len(found), 1)
        self._turn += 1
        return found[first:] + found[:first]

    async def _pop_in_turn(
        self, places: Sequence[MessageQueue], max_messages: int, invisible_ms: int, poll_ms: int
    ) -> list[MessageExt]:
        """Messages of one place after the other, until there are enough or none has more."""
        messages: list[MessageExt] = []
        refusal: RocketqError | None = None
        left = list(places)
        while left and len(messages) < max_messages and not self._is_over.is_set():
            for place in list(left):
                wanted = max_messages - len(messages)
                if wanted <= 0:
                    break
                try:
                    popped = await self._pop(
                        place, wanted, invisible_ms, 0 if messages else poll_ms
                    )
                except RocketqError as error:
                    self._failed(place, error)
                    if not is_outage(error) and not isinstance(error, BrokerUnknown):
                        refusal = error
                    popped = Popped([])
                messages += popped.messages
                if not popped.messages or popped.rest <= 0:
                    left.remove(place)
        if refusal is not None and not messages:
            raise refusal
        return messages

    async def _pop(
        self, place: MessageQueue, wanted: int, invisible_ms: int, poll_ms: int
    ) -> Popped:
        subscription = self.subscriptions.get(place.topic)
        if subscription is None:  # meanwhile it was unsubscribed
            return Popped([])
        attempt_id = None
        if self.config.orderly:
            # What an answer that got lost had taken is given to the same attempt again. While it
            # is under way nobody else uses it: they would get the same messages.
            attempt_id = self._attempts.pop(place, None) or uuid.uuid4().hex
        began_at = self.instance.clock.monotonic()
        try:
            popped = await self.requests.pop(
                place,
                subscription,
                max_messages=wanted,
                invisible_ms=invisible_ms,
                poll_ms=poll_ms,
                from_first=self.config.starts_from is ConsumeFrom.FIRST,
                attempt_id=attempt_id,
            )
        except BaseException:
            if attempt_id is not None:
                self._attempts[place] = attempt_id
            raise
        elapsed_ms = (self.instance.clock.monotonic() - began_at) * 1000
        self.statistics.pulled(place.topic, len(popped.messages), elapsed_ms)
        return popped

    def _failed(self, place: MessageQueue, error: RocketqError) -> None:
        address = self.instance.routes.master(place.broker_name)
        if is_outage(error) and address is not None:
            OUTAGES.failed(f"broker {address}", error)
            self.instance.refresh_route_soon(place.topic)
        else:
            logger.debug("%s cannot pop %s: %s", self.group, place, error)

    # Waiting

    async def _wait_for_some(self, places: Collection[MessageQueue], within_s: float) -> None:
        """Until one of the places has something. Questions still open serve the next wait."""
        for place in places:
            subscription = self.subscriptions.get(place.topic)
            watch = self._watches.get(place)
            if subscription is not None and (watch is None or watch.done()):
                poll_ms = max(round(within_s * 1000), 1)
                self._watches[place] = asyncio.create_task(
                    self._watch(place, subscription, poll_ms), name=f"rocketq-watch-{place}"
                )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        waiting = {self._watches[place] for place in places if place in self._watches}
        while waiting and not self._is_over.is_set():
            done, waiting = await asyncio.wait(
                waiting,
                timeout=max(deadline - loop.time(), 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done or any(not watch.cancelled() and watch.result() for watch in done):
                return

    async def _watch(self, place: MessageQueue, subscription: Subscription, poll_ms: int) -> bool:
        try:
            return await self.requests.wait(place, subscription, poll_ms, order=self.config.orderly)
        except RocketqError as error:
            self._failed(place, error)
            return False

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
        except TimeoutError:
            pass
