"""The one who asks the cluster, for all pages of all browsers.

Two things happen. Every ten seconds a sample of rates, disks and lag goes into the history:
one request to a NameServer and one to each broker, whoever looks. Anything else is asked when a
page wants it, at most once in a few seconds however many pages look at it.

The lag of all groups is the one expensive question, as brokers walk over all offsets for it.
It is never asked for more than a twentieth of the time: a broker that takes half a second to
answer is asked every ten seconds, one that takes two every forty.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from rocketq.admin import groups, topics
from rocketq.admin.cluster import brokers
from rocketq.admin.cluster.brokers import BrokerState
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.console.catalog import GroupEntry, TopicEntry, groups_of, topics_of
from rocketq.console.feeds import Feed, Feeds
from rocketq.console.history import SAMPLE_EVERY_S, BrokerFigures, History, Sample
from rocketq.remoting.bodies.connections import ConsumerConnection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigWrapper
from rocketq.remoting.bodies.stats import ConsumeStats, TopicStatsTable
from rocketq.remoting.codes import RequestCode

logger = logging.getLogger(__name__)

_LAG_SHARE: Final = 20
# Tables of thousands of topics are megabytes.
_TABLE_TIMEOUT_S: Final = 20.0
_AT_ONCE: Final = 16


class Collector:
    """Owned by the console; pages read from it."""

    def __init__(self, eyes: Callable[[], BrokerApi]) -> None:
        """`eyes` says in whose name to ask."""
        self._eyes = eyes
        self.history = History()
        self.brokers: Feed[list[BrokerState]] = Feed(self._ask_brokers)
        self.topics: Feed[dict[str, TopicEntry]] = Feed(self._ask_topics)
        self.groups: Feed[dict[str, GroupEntry]] = Feed(self._ask_groups)
        self._status: Feeds[str, TopicStatsTable] = Feeds(self._ask_status)
        self._members: Feeds[str, ConsumerConnection | None] = Feeds(self._ask_members)
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    @property
    def api(self) -> BrokerApi:
        return self._eyes()

    def changed(self) -> None:
        """Somebody has changed something: what pages see next is asked anew."""
        self.brokers.forget()
        self.topics.forget()
        self.groups.forget()
        self._status.forget()
        self._members.forget()

    # History

    async def run(self, stop: asyncio.Event) -> None:
        while True:
            await self._sample()
            if await asked_to_stop(stop, SAMPLE_EVERY_S):
                return

    async def _sample(self) -> None:
        try:
            states = await self.brokers.get(SAMPLE_EVERY_S / 2)
        except RocketqError as error:
            logger.warning("the cluster does not answer: %s", error)
            return
        now = time.time()
        lag = await self._lag(now) if states else None
        self.history.add(Sample(now, {name_of(each): figures_of(each) for each in states}, lag))

    async def _lag(self, now: float) -> int | None:
        max_age_s = max(SAMPLE_EVERY_S / 2, _LAG_SHARE * self.groups.took_s)
        is_new = self.groups.age_s > max_age_s
        try:
            found = await self.groups.get(max_age_s)
        except RocketqError as error:
            logger.warning("the lag of groups is not known: %s", error)
            return None
        if is_new:
            lags = {each.name: each.behind for each in found.values() if not each.is_system}
            self.history.add_lags(now, lags)
            self.history.add_reads(now, {each.name: each.read for each in found.values()})
        return total_lag(found.values())

    # What pages ask for

    async def status_of(self, names: Iterable[str], max_age_s: float) -> list[TopicStatsTable]:
        """The ends of the queues of some topics; an empty table for one that nobody serves."""
        return await asyncio.gather(*(self._status_or_empty(name, max_age_s) for name in names))

    async def _status_or_empty(self, name: str, max_age_s: float) -> TopicStatsTable:
        try:
            async with self._at_once:
                return await self._status.get(name, max_age_s)
        except RocketqError:
            return TopicStatsTable()

    async def members_of(
        self, names: Iterable[str], max_age_s: float
    ) -> list[ConsumerConnection | None]:
        """Who is connected for some groups; None where nobody is."""

        async def one(name: str) -> ConsumerConnection | None:
            async with self._at_once:
                return await self._members.get(name, max_age_s)

        return await asyncio.gather(*map(one, names))

    # Questions

    async def _ask_brokers(self) -> list[BrokerState]:
        return await brokers.states(self.api)

    async def _masters(self) -> dict[str, str]:
        """One address of each broker name: the master's where there is one."""
        info = await self.api.cluster_info()
        return {
            name: data.broker_addrs[min(data.broker_addrs)]
            for name, data in sorted(info.broker_addr_table.items())
            if data.broker_addrs
        }

    async def _ask_topics(self) -> dict[str, TopicEntry]:
        info = await self.api.cluster_info()
        masters = await self._masters()
        names = await topics.names(self.api)
        tables = await asyncio.gather(*(self._topic_table(each) for each in masters.values()))
        own = {*info.cluster_addr_table, *info.broker_addr_table}
        return topics_of(dict(zip(masters, tables, strict=True)), names, own)

    async def _topic_table(self, address: str) -> dict[str, TopicConfig]:
        try:
            reply = await self.api.invoke(
                address, RequestCode.GET_ALL_TOPIC_CONFIG, timeout_s=_TABLE_TIMEOUT_S
            )
        except RocketqError as error:
            logger.warning("the topics of %s are not known: %s", address, error)
            return {}
        return TopicConfigWrapper.decode(reply.body).topic_config_table

    async def _ask_groups(self) -> dict[str, GroupEntry]:
        masters = await self._masters()
        names = await topics.names(self.api)
        tables = await asyncio.gather(*(self._group_table(each) for each in masters.values()))
        progress = await asyncio.gather(*(self._progress(each) for each in masters.values()))
        return groups_of(
            dict(zip(masters, tables, strict=True)),
            [each for of_broker in progress for each in of_broker],
            names,
        )

    async def _group_table(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        try:
            reply = await self.api.invoke(
                address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, timeout_s=_TABLE_TIMEOUT_S
            )
        except RocketqError as error:
            logger.warning("the groups of %s are not known: %s", address, error)
            return {}
        return SubscriptionGroupWrapper.decode(reply.body).subscription_group_table

    async def _progress(self, address: str) -> list[dict[str, list[ConsumeStats]]]:
        try:
            return (await groups.broker_progress(self.api, address)).consume_stats_list
        except RocketqError as error:
            logger.warning("the lag of groups at %s is not known: %s", address, error)
            return []

    async def _ask_status(self, topic: str) -> TopicStatsTable:
        return await topics.status(self.api, topic)

    async def _ask_members(self, group: str) -> ConsumerConnection | None:
        try:
            return await groups.consumer_connection(self.api, group)
        except RocketqError:
            return None


def name_of(state: BrokerState) -> str:
    """`broker-a` for a master, `broker-a:1` for its first slave."""
    is_master = state.broker_id == brokers.MASTER_ID
    return state.broker_name if is_master else f"{state.broker_name}:{state.broker_id}"


def figures_of(state: BrokerState) -> BrokerFigures:
    return BrokerFigures(
        into=state.number("putTps"),
        out=state.number("getTransferredTps"),
        disk=state.number("commitLogDiskRatio"),
    )


def total_lag(entries: Iterable[GroupEntry]) -> int:
    """How far people's own groups are behind."""
    return sum(each.behind for each in entries if not each.is_system)
