"""A topic made by a message comes to every broker of the cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.bodies.route import TopicRouteData
from rocketq.remoting.headers import CreateTopic, GetRouteInfo
from tests.broker.harness import TestBroker, running_broker


class Cluster:
    """Brokers of one NameServer."""

    def __init__(self, namesrv: str, brokers: list[TestBroker]) -> None:
        self.namesrv = namesrv
        self.brokers = brokers

    async def queues(self, topic: str) -> dict[str, int]:
        """How many queues of a topic each broker has, as clients are told."""
        request = Command.request(GetRouteInfo(topic=topic, accept_standard_json_only=True))
        reply = await self.brokers[0].client.call(self.namesrv, request, 5.0)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return {}
        route = TopicRouteData.decode(reply.body)
        return {data.broker_name: data.write_queue_nums for data in route.queue_datas}


@asynccontextmanager
async def cluster(folder: Path, *, spreads: bool = True) -> AsyncIterator[Cluster]:
    name_server = NameServer(
        NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=str(folder / "kv.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
    )
    await name_server.start()
    try:
        async with AsyncExitStack() as stack:
            brokers = [
                await stack.enter_async_context(
                    running_broker(
                        folder / name,
                        broker_name=name,
                        namesrv_addr=name_server.address,
                        auto_create_topic_on_all_brokers=spreads,
                    )
                )
                for name in ("a", "b", "c")
            ]
            yield Cluster(name_server.address, brokers)
    finally:
        await name_server.stop()


async def test_when_the_first_message_is_answered_all_brokers_have_its_topic(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as running:
        reply = await running.brokers[1].send("orders", default_topic_queue_nums=3)
        assert reply.code == ResponseCode.SUCCESS
        assert await running.queues("orders") == {"a": 3, "b": 3, "c": 3}


async def test_unless_asked_for_a_topic_stays_where_it_was_made(tmp_path: Path) -> None:
    async with cluster(tmp_path, spreads=False) as running:
        await running.brokers[1].send("orders")
        assert await running.queues("orders") == {"b": 4}


async def test_a_topic_that_another_broker_has_stays_as_it_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        create = CreateTopic(
            topic="orders",
            default_topic="TBW102",
            read_queue_nums=16,
            write_queue_nums=16,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        await running.brokers[0].call(Command.request(create))
        assert await running.queues("orders") == {"a": 16}
        await running.brokers[1].send("orders")
        assert await running.queues("orders") == {"a": 16, "b": 4, "c": 4}


async def test_brokers_that_make_a_topic_at_once_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as running:
        replies = await asyncio.gather(*(each.send("orders") for each in running.brokers))
        assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
        assert await running.queues("orders") == {"a": 4, "b": 4, "c": 4}


async def test_a_broker_that_is_gone_does_not_keep_a_message_from_its_answer(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as running:
        # It still counts as there: it has not said goodbye.
        for connection in running.brokers[2].broker.connections:
            connection.close()
        listeners = running.brokers[2].broker._listeners
        assert listeners is not None
        for server in (listeners.main, listeners.vip):
            await server.stop(0)
        reply = await running.brokers[0].send("orders")
        assert reply.code == ResponseCode.SUCCESS
        assert await running.queues("orders") == {"a": 4, "b": 4}
