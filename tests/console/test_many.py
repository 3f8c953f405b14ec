"""Thousands of topics and groups: pages stay small, and nothing is asked that nobody sees."""

import asyncio
import time

from rocketq.admin import connected, groups, topics
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.console.access import Access, Role
from rocketq.console.collector import Collector
from rocketq.console.pages import groups as groups_page
from rocketq.console.pages import topics as topics_page
from rocketq.console.texts import Texts
from rocketq.console.view import View
from rocketq.console.widgets.table import Ask
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.wire.command import Command
from rocketq.testing import LocalBroker

TOPICS = 5_000
GROUPS = 1_000
# What a page may take here, where others run too; it is a few ms on a quiet machine.
FLUENT_S = 2.0


class _Counted(BrokerApi):
    """Counts what is asked of brokers, by code."""

    counts: dict[int, int]

    async def invoke(self, address, header, *arguments, **options) -> Command:  # type: ignore[no-untyped-def,override]
        code = options.get("code") or getattr(header, "CODE", header)
        self.counts[int(code)] = self.counts.get(int(code), 0) + 1
        return await super().invoke(address, header, *arguments, **options)


async def _make(api: BrokerApi, broker: LocalBroker) -> None:
    configs = [
        TopicConfig(topic_name=f"many-{n:04d}", read_queue_nums=1, write_queue_nums=1)
        for n in range(TOPICS)
    ]
    for first in range(0, TOPICS, 500):
        await topics.create_list(api, configs[first : first + 500], broker.address)
    settings = [SubscriptionGroupConfig(group_name=f"many-g-{n:04d}") for n in range(GROUPS)]
    for first in range(0, GROUPS, 500):
        await groups.create_list(api, settings[first : first + 500], broker.address)


async def test_5000_topics_and_1000_groups_stay_fluent() -> None:
    with LocalBroker() as broker:
        async with connected(broker.namesrv) as plain:
            await _make(plain, broker)
            api = _Counted(plain.remoting, plain.name_servers, timeout_s=20.0)
            api.counts = {}
            collector = Collector(lambda: api)
            view = _view(collector, api)
            await collector.topics.get(0.0)
            await collector.groups.get(0.0)
            api.counts.clear()

            kinds = {"NORMAL", "UNSPECIFIED"}
            began = time.perf_counter()
            found = await topics_page.find(view, "", kinds, Ask(4000, 25, "name", False))
            of_topics_s = time.perf_counter() - began
            assert of_topics_s < FLUENT_S
            assert found.total == TOPICS
            assert found.rows[0]["name"] == "many-4000"
            assert len(found.rows) == 25
            # Figures of the rows that show, and of no others.
            assert api.counts[RequestCode.GET_TOPIC_STATS_INFO] == 25
            assert RequestCode.GET_ALL_TOPIC_CONFIG not in api.counts

            found = await topics_page.find(view, "Y-123", kinds, Ask(0, 25, "name", True))
            assert [row["name"] for row in found.rows][:2] == ["many-1239", "many-1238"]
            assert found.total == 10

            api.counts.clear()
            began = time.perf_counter()
            page = await groups_page.find(view, "many-g", {"NORMAL"}, Ask(500, 25, "name", False))
            of_groups_s = time.perf_counter() - began
            print(f"a page of topics {of_topics_s * 1e3:.1f} ms, of groups {of_groups_s * 1e3:.1f}")
            assert of_groups_s < FLUENT_S
            assert (page.total, page.rows[0]["name"]) == (GROUPS, "many-g-0500")
            assert RequestCode.GET_BROKER_CONSUME_STATS not in api.counts


def _view(collector: Collector, api: BrokerApi) -> View:
    access = Access(api)
    session = access._everybody
    assert session.role is Role.ADMIN
    return View(
        collector=collector, access=access, session=session, t=Texts("en"), path="/topics",
        query={}, peer="127.0.0.1",
    )  # fmt: skip


async def test_pages_that_ask_at_the_same_time_share_an_answer() -> None:
    with LocalBroker() as broker:
        async with connected(broker.namesrv) as plain:
            api = _Counted(plain.remoting, plain.name_servers)
            api.counts = {}
            collector = Collector(lambda: api)
            await asyncio.gather(*(collector.brokers.get(5.0) for _ in range(50)))
            await collector.brokers.get(5.0)
            assert api.counts[RequestCode.GET_BROKER_RUNTIME_INFO] == 1
            collector.changed()
            await collector.brokers.get(5.0)
            assert api.counts[RequestCode.GET_BROKER_RUNTIME_INFO] == 2
