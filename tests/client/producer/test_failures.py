"""Producers while brokers restart and connections break: nothing acknowledged is lost."""

import asyncio
from pathlib import Path

import pytest

from rocketq.client.errors import SendFailed
from rocketq.client.producer.producer import Producer
from rocketq.message.message import Message
from rocketq.testing import LocalBroker
from tests.client.cutting_proxy import detour


@pytest.mark.parametrize("options", [{}, {"linger_ms": 2}], ids=["single", "collected"])
async def test_a_restart_under_load_loses_nothing(options: dict[str, float]) -> None:
    with LocalBroker() as broker:
        topic = broker.create_topic()
        async with Producer(
            "p",
            namesrv=broker.namesrv,
            send_timeout_s=30,
            retries=100,
            **options,  # type: ignore[arg-type]
        ) as producer:
            sent = 0
            restarted = asyncio.Event()

            async def keep_sending() -> list[bytes]:
                nonlocal sent
                acknowledged = []
                while not restarted.is_set() or sent < 500:
                    bodies = [b"%d" % (sent + number) for number in range(20)]
                    sent += 20
                    results = await asyncio.gather(
                        *(producer.send(Message(topic, body)) for body in bodies)
                    )
                    assert all(result.is_ok for result in results)
                    acknowledged += bodies
                return acknowledged

            sending = asyncio.create_task(keep_sending())
            for _ in range(2):
                await asyncio.to_thread(broker.stop)
                await asyncio.to_thread(broker.start)
            restarted.set()
            acknowledged = await sending
        stored = {message.body for message in broker.messages(topic)}
    assert set(acknowledged) <= stored
    assert len(acknowledged) == sent


@pytest.mark.parametrize("seed", range(3))
async def test_cut_connections_lose_nothing(
    seed: int, local_broker: LocalBroker, tmp_path: Path
) -> None:
    topic = local_broker.create_topic()
    async with detour(local_broker.address, "broker-a", {topic: 4}, tmp_path, seed) as (
        namesrv,
        proxy,
    ):
        proxy.budget = 6000
        acknowledged = []
        async with Producer("p", namesrv=namesrv, send_timeout_s=30, retries=100) as producer:
            for start in range(0, 400, 10):
                bodies = [b"%d" % number for number in range(start, start + 10)]
                results = await asyncio.gather(
                    *(producer.send(Message(topic, body)) for body in bodies),
                    return_exceptions=True,
                )
                for body, result in zip(bodies, results, strict=True):
                    assert not isinstance(result, BaseException) or isinstance(result, SendFailed)
                    if not isinstance(result, BaseException):
                        acknowledged.append(body)
        assert proxy.cuts > 5
    stored = {message.body for message in local_broker.messages(topic)}
    assert len(acknowledged) == 400, "there was time enough for all of them"
    assert set(acknowledged) <= stored
