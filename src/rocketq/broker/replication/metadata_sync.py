"""A slave's tables: copies of its master's, fetched at intervals.

    topics, groups           replaced when their version differs
    request modes            replaced
    consumer offsets         replaced, except for what was committed here and not passed on
    progress of delays,      replaced
    and of timers
    beginnings of topics     where in the log a topic begins that was deleted and made again:
                             the store has to leave out what is before

Offsets and delays say how far something is done, and what was done for it lies in the log: a
delayed message delivered, a transaction decided. A slave that took them over ahead of that part
of the log would, as the next master, leave it out. So they are fetched first, then the end of
the master's log is asked for, and they count here when the slave's log has come that far.

A topic that the log brings first is asked for at once. Where the master is gone by then, it is
made after what the log has of it: what was acknowledged can be read.

Consumers that found the master gone have committed their offsets here. When it is back they are
passed on to it, unless it knows better by then.
"""

import asyncio
import logging
from typing import Final, TypeVar

from rocketq.broker.delay import ScheduledMessages
from rocketq.broker.replication.comparison import LogComparison
from rocketq.broker.replication.master_location import MasterLocation
from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.groups import SubscriptionGroups
from rocketq.broker.tables.request_modes import RequestModes
from rocketq.broker.tables.topics import Topics, topic
from rocketq.broker.timer import TimerMessages
from rocketq.common.errors import RocketqError
from rocketq.common.json import JsonError
from rocketq.message.names import is_system_topic
from rocketq.remoting import Command, RemotingClient, RequestCode, RequestRejected, ResponseCode
from rocketq.remoting.bodies.body import Body
from rocketq.remoting.bodies.groups import SubscriptionGroupWrapper
from rocketq.remoting.bodies.offsets import (
    ConsumerOffsetWrapper,
    DelayOffsetWrapper,
    MessageRequestModeWrapper,
)
from rocketq.remoting.bodies.registration import TopicConfigWrapper
from rocketq.remoting.headers import UpdateConsumerOffset
from rocketq.store import MessageStore
from rocketq.store.replication.follower import LogFollower
from rocketq.store.timer import TimerProgress

logger = logging.getLogger(__name__)

B = TypeVar("B", bound=Body)

_PERIOD_S: Final = 3.0
_SLOWEST_SHARE: Final = 20
"""Large tables are fetched less often: this many times as long as it takes lies in between."""
_CALL_WITHIN_S: Final = 30.0
_LOG_WITHIN_S: Final = 10.0

_SHORT_TIMER_PROGRESS: Final = 32
"""What brokers send that are older than its last fields."""

_DEFINITE: Final = frozenset(
    {ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
)


class MetadataSync:
    """Runs while the broker is a slave."""

    def __init__(
        self,
        client: RemotingClient,
        location: MasterLocation,
        comparison: LogComparison,
        follower: LogFollower,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        scheduled: ScheduledMessages,
        timers: TimerMessages,
        modes: RequestModes,
    ) -> None:
        self.rounds = 0
        """How often everything was copied."""
        self._client = client
        self._location = location
        self._comparison = comparison
        self._follower = follower
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._scheduled = scheduled
        self._timers = timers
        self._modes = modes
        self._is_news = asyncio.Event()
        self._is_reached = True
        self._copied_to = 0
        follower.on_change(self._is_news.set)
        store.received.on_new_topic = self._is_news.set

    async def run(self, stop: asyncio.Event) -> None:
        """Copy at once when the connection to the master comes, and then again and again."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._is_news.clear()
                began = loop.time()
                if self._follower.is_connected:
                    # A master that hangs is no reason to stay its slave.
                    copying = asyncio.ensure_future(self._try())
                    await asyncio.wait((copying, stopping), return_when=asyncio.FIRST_COMPLETED)
                    if not copying.done():
                        copying.cancel()
                    await asyncio.gather(copying, return_exceptions=True)
                if not self._follower.is_connected:
                    self._make_up_topics()
                pause_s = max(_PERIOD_S, (loop.time() - began) * _SLOWEST_SHARE)
                news = asyncio.ensure_future(self._is_news.wait())
                await asyncio.wait(
                    (news, stopping), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED
                )
                news.cancel()
        finally:
            stopping.cancel()

    async def _try(self) -> None:
        try:
            await self.copy()
        except (RocketqError, JsonError, ValueError, TimeoutError) as error:
            if self._is_reached:
                logger.warning("the master's tables cannot be copied: %s", error)
            self._is_reached = False
        else:
            self._is_reached = True

    async def copy(self) -> None:
        """Copy everything once."""
        known_to = self._store.max_physical_offset  # what comes later may be of later topics
        topics = await self._fetch(RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigWrapper)
        groups = await self._fetch(
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper
        )
        # A table without entries is none: there are always those of the system.
        if topics is not None and topics.topic_config_table:
            for name, position in (topics.topic_beginnings or {}).items():
                await self._store.begin_topic(name, position)
            self._topics.adopt(topics)
        if groups is not None and groups.subscription_group_table:
            self._groups.adopt(groups)
        modes = await self._fetch(
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeWrapper
        )
        if modes is not None:
            self._modes.adopt(modes)
        offsets = await self._fetch(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetWrapper)
        delays = await self._fetch(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetWrapper)
        timer_progress = await self._ask(RequestCode.GET_TIMER_CHECK_POINT)
        timer_metrics = await self._ask(RequestCode.GET_TIMER_METRICS)
        _, end = await self._comparison.master_range()
        async with asyncio.timeout(_LOG_WITHIN_S):
            await self._store.received.reached(end)
        if offsets is not None:
            await self._pass_on(offsets)
            self._offsets.adopt(offsets)
        if delays is not None:
            self._scheduled.adopt(delays)
        if timer_progress is not None and len(timer_progress) >= _SHORT_TIMER_PROGRESS:
            self._timers.adopt(TimerProgress.decode(timer_progress))
        if timer_metrics is not None:
            self._timers.metrics.adopt(timer_metrics)
        self._copied_to = known_to
        self.rounds += 1

    def _make_up_topics(self) -> None:
        """Topics that came with the log after the last copy, and whose master is gone."""
        made = []
        for name in self._store.topics():
            if name in self._topics or is_system_topic(name):
                continue
            queue_ids = self._store.queues(name)
            if any(self._is_new(name, queue_id) for queue_id in queue_ids):
                made.append(topic(name, max(queue_ids) + 1))
        if made:
            self._topics.put_all(made)

    def _is_new(self, name: str, queue_id: int) -> bool:
        if not self._store.is_available(name, queue_id):
            return True  # rather a topic too many than messages that nobody can read
        last = self._store.max_offset(name, queue_id) - 1
        entries = self._store.entries(name, queue_id, last, 1)
        return any(entry.position >= self._copied_to for entry in entries)

    async def _fetch(self, code: RequestCode, body: type[B]) -> B | None:
        """One of the master's tables; None if it has none like it, or an empty one."""
        data = await self._ask(code)
        return None if data is None else body.decode(data)

    async def _ask(self, code: RequestCode) -> bytes | None:
        reply = await self._call(Command.request(code))
        if reply.code != ResponseCode.SUCCESS:
            logger.debug("the master answers %s with %d: %s", code.name, reply.code, reply.remark)
            return None
        return bytes(reply.body)

    async def _pass_on(self, known: ConsumerOffsetWrapper) -> None:
        """Tell the master what was committed here while it was away."""
        for name, group, queue_id, offset in self._offsets.committed_apart():
            table = known.offset_table.setdefault(f"{name}@{group}", {})
            if table.get(queue_id, -1) < offset:
                header = UpdateConsumerOffset(
                    consumer_group=group, topic=name, queue_id=queue_id, commit_offset=offset
                )
                reply = await self._call(Command.request(header))
                if reply.code == ResponseCode.SUCCESS:
                    table[queue_id] = offset
                elif reply.code not in _DEFINITE:
                    raise RequestRejected(reply.code, reply.remark)
            self._offsets.passed_on(name, group, queue_id, offset)

    async def _call(self, request: Command) -> Command:
        address = self._location.address
        if address is None:
            raise RocketqError("the master's address is not known")
        return await self._client.call(address, request, _CALL_WITHIN_S)
