"""Consumers of a broker that has a slave: suggestions, and a master that goes and comes back."""

import logging

import pytest

from rocketq.client.cluster import instance as client_instance
from rocketq.client.consumer.lite.consumer import LitePullConsumer
from rocketq.client.consumer.pull.consumer import PullConsumer
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue
from tests.client.consumer.replicas import BROKER_NAME, TOPIC, Replica, replica_pair
from tests.client.consuming import QUICK, QUICK_REBALANCE, Received, bodies
from tests.waiting import eventually

QUEUE = MessageQueue(TOPIC, BROKER_NAME, 0)


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_instance, "_PROBE_INTERVAL_S", 0.05)


async def test_a_push_consumer_goes_on_from_the_slave_and_comes_back_to_the_master() -> None:
    received = Received()
    async with replica_pair() as pair:
        pair.bodies += bodies(3, "with the master")
        async with PushConsumer(
            "g",
            namesrv=pair.namesrv,
            topics=TOPIC,
            listener=received,
            consume_from="first",
            persist_interval_s=0.05,
            **QUICK,
        ):
            await received.wait_for(bodies(3, "with the master"))
            await eventually(lambda: pair.master.committed[-1:] == [3], "a commit at the master")
            assert pair.slave.pulls == 0

            await pair.master.stop()
            pair.bodies += bodies(3, "without it")
            await received.wait_for(bodies(3, "without it"))
            await eventually(lambda: pair.slave.committed[-1:] == [6], "a commit at the slave")

            await pair.master.start()
            pulls_before = pair.master.pulls
            await eventually(lambda: pair.master.pulls > pulls_before, "pulls at the master")
            pair.bodies += bodies(3, "with it again")
            await received.wait_for(bodies(3, "with it again"))
            await eventually(lambda: pair.master.committed[-1:] == [9], "a commit at the master")
    assert received.bodies == pair.bodies, "nothing twice, nothing lost"


async def test_a_master_that_is_in_no_route_any_more_is_replaced_by_its_slave() -> None:
    received = Received()
    async with replica_pair() as pair:
        pair.listed = [pair.slave]
        await pair.master.stop()
        pair.bodies += bodies(3)
        async with PushConsumer(
            "g",
            namesrv=pair.namesrv,
            topics=TOPIC,
            listener=received,
            consume_from="first",
            **QUICK,
        ):
            await received.wait_for(bodies(3))
        assert pair.slave.committed[-1] == 3


async def test_a_lite_pull_consumer_goes_on_from_the_slave() -> None:
    async with replica_pair() as pair:
        pair.bodies += bodies(3)
        async with LitePullConsumer(
            "g", namesrv=pair.namesrv, topics=TOPIC, consume_from="first", **QUICK
        ) as consumer:
            assert len(await consumer.poll()) == 3
            await pair.master.stop()
            pair.bodies += bodies(2, "later")
            assert [message.body for message in await consumer.poll()] == bodies(2, "later")
            await consumer.commit()
            assert pair.slave.committed[-1] == 5
            await consumer.seek_to_begin(QUEUE)
            assert len(await consumer.poll()) == 5


async def test_a_pull_consumer_goes_on_from_the_slave() -> None:
    async with replica_pair() as pair:
        pair.bodies += bodies(3)
        async with PullConsumer("g", namesrv=pair.namesrv, **QUICK_REBALANCE) as consumer:
            assert len((await consumer.pull(QUEUE, 0)).messages) == 3
            await pair.master.stop()
            assert len((await consumer.pull(QUEUE, 1)).messages) == 2
            assert await consumer.max_offset(QUEUE) == 3
            consumer.update_consume_offset(QUEUE, 2)
        assert pair.slave.committed == [2]


def made(kind: str, namesrv: str) -> PushConsumer | LitePullConsumer | PullConsumer:
    if kind == "push":
        return PushConsumer("g", namesrv=namesrv, topics=TOPIC, listener=Received(), **QUICK)
    if kind == "lite":
        return LitePullConsumer("g", namesrv=namesrv, topics=TOPIC, **QUICK)
    return PullConsumer("g", namesrv=namesrv, topics=TOPIC, **QUICK_REBALANCE)


@pytest.mark.parametrize("kind", ["push", "lite", "pull"])
async def test_the_suggested_broker_is_asked_next(kind: str) -> None:
    """As a master does that has to read old messages from the disk."""
    async with replica_pair() as pair, made(kind, pair.namesrv) as consumer:

        async def pulled(replica: Replica) -> bool:
            if isinstance(consumer, PullConsumer):
                await consumer.pull(QUEUE, 0)
            return replica.pulls > 2

        await eventually(lambda: pulled(pair.master), "pulls at the master")
        assert pair.slave.pulls == 0
        pair.master.suggests = pair.slave.suggests = 1
        await eventually(lambda: pulled(pair.slave), "pulls at the slave")
        pair.slave.suggests = pair.master.suggests = pair.master.pulls = 0
        await eventually(lambda: pulled(pair.master), "pulls at the master again")


async def test_an_outage_is_told_once_for_all_who_notice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received = Received()
    async with (
        replica_pair() as pair,
        PushConsumer("g", namesrv=pair.namesrv, topics=TOPIC, listener=received, **QUICK),
        LitePullConsumer("h", namesrv=pair.namesrv, topics=TOPIC, **QUICK) as other,
    ):
        caplog.set_level(logging.DEBUG, logger="rocketq.client")
        caplog.clear()
        await pair.master.stop()
        await pair.slave.stop()
        await eventually(lambda: caplog.text.count("pulling") >= 10, "many attempts")
        with pytest.raises(RocketqError):
            await other.committed(QUEUE)
        warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert sorted(text.split(" does")[0] for text in warnings) == sorted(
            f"broker {each.address}" for each in (pair.master, pair.slave)
        )
        await pair.master.start()
        await eventually(lambda: "answers again" in caplog.text, "the end of the outage")
        assert "times more" in caplog.text
