"""Attempts, retries and time limits, with brokers that fail in every way."""

import asyncio
import itertools
from collections import Counter

import pytest

from rocketq.client.errors import BrokerRejected, SendFailed, SendTimeout
from rocketq.client.hooks import SendContext
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendStatus
from rocketq.message.message import Message
from rocketq.remoting.errors import RequestTimeout
from rocketq.remoting.wire.command import Command
from tests.client.scripted_broker import ScriptedBroker, ScriptedCluster, scripted_cluster
from tests.waiting import eventually

MESSAGE = Message("topic", b"x", keys=["k"])


async def warm(producer: Producer, cluster: ScriptedCluster) -> None:
    """Connect to every broker, so that what follows takes the short way."""
    for _ in range(4):
        await producer.send(MESSAGE)
    for broker in cluster.brokers.values():
        assert broker.sends
        broker.sends.clear()


@pytest.mark.parametrize("is_warm", [True, False], ids=["short way", "long way"])
async def test_a_retry_goes_to_another_broker(is_warm: bool) -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        if is_warm:
            await warm(producer, cluster)
        cluster["a"].answer = cluster["a"].refusing(14)
        results = [await producer.send(MESSAGE) for _ in range(8)]
    assert {result.queue.broker_name for result in results} == {"b"}
    assert 4 <= len(cluster["a"].sends) <= 5, "half of them tried a first"
    assert len(cluster["b"].sends) == 8


async def test_a_retried_message_is_the_same_message() -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        await warm(producer, cluster)
        cluster["a"].answer = cluster["a"].refusing(1)
        futures = []
        message = Message("topic", b"?", properties={"n": "0"}, flag=7)
        for number in range(4):
            # The caller may do with its message what it likes while it is on its way.
            message.body = b"%d" % number
            message.properties["n"] = str(number)
            futures.append(producer.send_soon(message))
        results = await asyncio.gather(*futures)
    for number, result in enumerate(results):
        tries = [
            header
            for broker in cluster.brokers.values()
            for header in broker.sends
            if f"UNIQ_KEY\x01{result.msg_id}\x02" in (header.properties or "")
        ]
        assert tries
        assert {header.properties for header in tries} == {tries[0].properties}
        assert f"n\x01{number}\x02" in (tries[0].properties or "")
        assert {(header.flag, header.born_timestamp) for header in tries} == {
            (7, tries[0].born_timestamp)
        }


async def test_after_all_attempts_every_failure_is_told() -> None:
    async with scripted_cluster("a", "b") as cluster:
        for broker in cluster.brokers.values():
            broker.answer = broker.refusing(2, "busy")
        async with Producer("p", namesrv=cluster.namesrv, retries=3) as producer:
            with pytest.raises(SendFailed, match="busy") as caught:
                await producer.send(MESSAGE)
    error = caught.value
    assert error.retriable
    assert len(error.attempts) == 4
    brokers = [broker for broker, _ in error.attempts]
    assert all(first != second for first, second in itertools.pairwise(brokers))
    assert isinstance(error.__cause__, BrokerRejected)


@pytest.mark.parametrize("is_warm", [True, False], ids=["short way", "long way"])
async def test_what_is_refused_for_good_is_not_tried_again(is_warm: bool) -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        if is_warm:
            await warm(producer, cluster)
        for broker in cluster.brokers.values():
            broker.answer = broker.refusing(13, "illegal")
        with pytest.raises(BrokerRejected, match="illegal") as caught:
            await producer.send(MESSAGE)
    assert caught.value.code == 13
    assert len(cluster.sends) == 1


async def test_a_chosen_queue_is_kept_by_retries() -> None:
    async with scripted_cluster("a", "b") as cluster:
        cluster["a"].answer = cluster["a"].refusing(1)
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            (queue, *_) = await producer.publish_queues("topic")
            for _ in range(2):  # the long way, then the short one
                with pytest.raises(SendFailed):
                    await producer.send(MESSAGE, queue=queue)
    assert cluster.sends == ["a"] * 6
    assert {header.queue_id for header in cluster["a"].sends} == {queue.queue_id}


async def test_a_lost_connection_is_retried_elsewhere() -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        await warm(producer, cluster)

        def cut(request: Command) -> None:
            cluster["a"].cut_connections()

        cluster["a"].answer = cut
        results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(10)))
    assert all(result.is_ok for result in results)
    assert {result.queue.broker_name for result in results} == {"b"}


async def test_a_silent_broker_uses_up_the_time() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, send_timeout_s=30) as producer,
    ):
        await warm(producer, cluster)
        cluster["a"].answer = ScriptedBroker.silent
        with pytest.raises(SendFailed) as caught:
            await producer.send(MESSAGE, timeout_s=0.3)
    assert isinstance(caught.value.__cause__, RequestTimeout)
    assert len(caught.value.attempts) == 1


async def test_a_limit_for_each_attempt_leaves_time_for_another() -> None:
    async with scripted_cluster("a", "b") as cluster:
        cluster["a"].answer = ScriptedBroker.silent
        async with Producer(
            "p", namesrv=cluster.namesrv, send_timeout_s=30, attempt_timeout_s=0.5
        ) as producer:
            results = [await producer.send(MESSAGE) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"b"}


async def test_a_timeout_can_be_given_for_one_send() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, send_timeout_s=60) as producer,
    ):
        await warm(producer, cluster)  # the route takes none of the time
        cluster["a"].answer = ScriptedBroker.silent
        with pytest.raises(SendFailed):
            await producer.send(MESSAGE, timeout_s=0.1)


async def test_no_time_for_the_route_is_no_time_to_send() -> None:
    async with scripted_cluster("a") as cluster:
        cluster.is_silent = True
        async with Producer("p", namesrv=cluster.namesrv, send_timeout_s=0.2) as producer:
            with pytest.raises(SendTimeout, match="no time left"):
                await producer.send(MESSAGE)


@pytest.mark.parametrize("is_warm", [True, False], ids=["short way", "long way"])
async def test_less_than_safe_is_a_status_not_an_error(is_warm: bool) -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv) as producer,
    ):
        if is_warm:
            await warm(producer, cluster)
        for broker in cluster.brokers.values():
            broker.answer = broker.storing_badly(11)
        result = await producer.send(MESSAGE)
    assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
    assert not result.is_ok
    assert len(cluster.sends) == 1


async def test_less_than_safe_may_be_tried_elsewhere() -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv, retry_when_not_stored=True) as producer,
    ):
        await warm(producer, cluster)
        cluster["a"].answer = cluster["a"].storing_badly(12)
        results = [await producer.send(MESSAGE) for _ in range(4)]
        assert all(result.is_ok for result in results)
        cluster["b"].answer = cluster["b"].storing_badly(10)
        result = await producer.send(MESSAGE)
    assert not result.is_ok, "the last answer counts when no broker does better"


async def test_slow_brokers_are_avoided() -> None:
    async with (
        scripted_cluster("a", "b") as cluster,
        Producer("p", namesrv=cluster.namesrv, avoid_slow_brokers=True) as producer,
    ):
        await warm(producer, cluster)
        cluster["a"].answer = cluster["a"].slow(0.6)
        for _ in range(10):
            await producer.send(MESSAGE)
    assert Counter(cluster.sends)["a"] <= 1


async def test_hooks_see_every_attempt() -> None:
    class Watching:
        seen: list[SendContext]

        def __init__(self) -> None:
            self.seen = []

        def before(self, context: SendContext) -> None: ...

        def after(self, context: SendContext) -> None:
            self.seen.append(context)

    watching = Watching()
    async with scripted_cluster("a", "b") as cluster:
        cluster["a"].answer = cluster["a"].refusing(2)
        async with Producer("p", namesrv=cluster.namesrv, send_hooks=[watching]) as producer:
            for _ in range(4):
                await producer.send(MESSAGE)
    failed = [context for context in watching.seen if context.error is not None]
    assert {context.queue.broker_name for context in failed} == {"a"}
    assert len([context for context in watching.seen if context.result is not None]) == 4


async def test_a_cancelled_send_is_not_retried() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, send_timeout_s=30) as producer,
    ):
        await warm(producer, cluster)
        answered = asyncio.Event()

        async def later(request: Command) -> Command:
            await answered.wait()
            return request.reply(code=2, remark="busy")

        cluster["a"].answer = later
        future = producer.send_soon(MESSAGE)
        await eventually(lambda: cluster.sends == ["a"], "the request at the broker")
        future.cancel()
        answered.set()
        await producer.flush()
    assert cluster.sends == ["a"]


async def test_the_vip_channel_is_two_ports_below() -> None:
    async with (
        scripted_cluster("a") as cluster,
        Producer("p", namesrv=cluster.namesrv, vip_channel=True, retries=0) as producer,
    ):
        with pytest.raises(SendFailed, match=f":{cluster['a'].server.port - 2}"):
            await producer.send(MESSAGE)
