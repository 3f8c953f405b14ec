"""Consumers of a real master with a real slave: the master goes, and comes back."""

from pathlib import Path
from typing import Any

import pytest

from rocketq.client.cluster import instance as client_instance
from rocketq.client.consumer.push.consumer import PushConsumer
from tests.broker.harness import TestBroker
from tests.broker.replication.pairs import broker, has_everything, name_server
from tests.broker.replication.test_pair import offset_at
from tests.client.consuming import QUICK, Received, bodies
from tests.waiting import eventually

SLAVE: dict[str, Any] = {"slave_id": 1}


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_instance, "_PROBE_INTERVAL_S", 0.05)


async def send(master: TestBroker, texts: list[bytes]) -> None:
    for text in texts:
        await master.send("orders", text)


async def test_a_consumer_reads_on_and_its_progress_reaches_the_master_that_is_back(
    tmp_path: Path,
) -> None:
    received = Received()
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address, **SLAVE) as slave,
    ):
        async with broker(tmp_path / "master", namesrv.address) as master:
            port = master.broker.port
            await send(master, bodies(3, "before"))
            await eventually(lambda: has_everything(master, slave))
            consumer = PushConsumer(
                "group",
                namesrv=namesrv.address,
                topics="orders",
                listener=received,
                consume_from="first",
                persist_interval_s=0.05,
                **QUICK,
            )
            await consumer.start()
            await received.wait_for(bodies(3, "before"))

            async def is_committed() -> bool:
                return await offset_at(master, "orders@group") == 3

            await eventually(is_committed, "a commit at the master")

            async def is_copied() -> bool:
                return await offset_at(slave, "orders@group") == 3

            await eventually(is_copied, "the commit in the slave")
            await consumer.close()
            await send(master, bodies(3, "unread"))
            await eventually(lambda: has_everything(master, slave))
        # The master is gone with messages that nobody has read; the slave has them.
        async with PushConsumer(
            "group",
            namesrv=namesrv.address,
            topics="orders",
            listener=received,
            consume_from="first",
            persist_interval_s=0.05,
            **QUICK,
        ):
            await received.wait_for(bodies(3, "unread"))

            async def is_at_slave() -> bool:
                return await offset_at(slave, "orders@group") == 6

            await eventually(is_at_slave, "a commit at the slave")
        async with broker(tmp_path / "master", namesrv.address, listen_port=port) as master:

            async def is_passed_on() -> bool:
                return await offset_at(master, "orders@group") == 6

            await eventually(is_passed_on, "the commit in the master")
    assert received.bodies == [*bodies(3, "before"), *bodies(3, "unread")], "nothing twice"
