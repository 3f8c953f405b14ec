"""What else a slave has of its master: timers, beginnings of topics; and what it does without."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.store.timer import TimerProgress
from tests.broker.harness import TestBroker
from tests.broker.replication.pairs import broker, has_everything, name_server, pair
from tests.waiting import eventually

TICKS: dict[str, Any] = {"timer_precision_ms": 100}


async def bodies(where: TestBroker, topic: str = "orders") -> list[bytes]:
    return [bytes(each.body) for each in await where.messages(topic)]


async def progress(where: TestBroker) -> TimerProgress:
    reply = await where.call(Command.request(RequestCode.GET_TIMER_CHECK_POINT))
    return TimerProgress.decode(bytes(reply.body))


async def delete_topic(where: TestBroker, topic: str) -> None:
    request = Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext_fields={"topic": topic})
    assert (await where.call(request)).code == ResponseCode.SUCCESS


async def test_a_slave_goes_on_with_the_timers_of_its_master(tmp_path: Path) -> None:
    """Those the master has delivered come no more, and the others once."""

    def timed(milliseconds: int) -> dict[str, str]:
        return {"UNIQ_KEY": str(milliseconds), "TIMER_DELAY_MS": str(milliseconds), "WAIT": "true"}

    async with pair(tmp_path, master=TICKS, slave=TICKS) as (master, slave):
        await master.send("orders", b"soon", properties=timed(300))
        await master.send("orders", b"later", properties=timed(12_000))

        async def is_delivered() -> bool:
            return await bodies(master) == [b"soon"]

        await eventually(is_delivered)
        delivered_until = (await progress(master)).read_ms

        async def is_copied() -> bool:
            theirs, ours = await progress(master), await progress(slave)
            return (
                ours.read_ms >= delivered_until
                and ours.queue_offset == theirs.queue_offset == 2
                and await has_everything(master, slave)
            )

        await eventually(is_copied, "the progress of timers")
        reply = await slave.call(Command.request(RequestCode.GET_TIMER_METRICS))
        assert b'"orders":{"count":1' in bytes(reply.body)
        assert await bodies(slave) == [b"soon"]
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address, **TICKS) as promoted,
    ):

        async def has_both() -> bool:
            return len(await bodies(promoted)) >= 2

        await eventually(has_both, "the timer that was pending")
        assert await bodies(promoted) == [b"soon", b"later"]


async def test_a_slave_knows_where_a_topic_begins_that_was_made_again(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"old")

        async def has_old() -> bool:
            return await bodies(slave) == [b"old"]

        await eventually(has_old)
        await delete_topic(master, "orders")
        await master.send("orders", b"new")

        async def has_new() -> bool:
            return await bodies(slave) == [b"new"]

        await eventually(has_new, "the topic as it is now")
        file = tmp_path / "slave" / "topicBeginnings"
        await eventually(lambda: file.exists() and "orders" in file.read_text())
    # Made from the log alone: the old message must not come back.
    for path in sorted((tmp_path / "slave" / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address) as promoted,
    ):
        await eventually(lambda: bodies(promoted))
        assert await bodies(promoted) == [b"new"]


async def test_a_slave_whose_history_the_master_no_longer_has_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"first")
        await eventually(lambda: has_everything(master, slave))
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "master", namesrv.address) as master,
    ):
        for _ in range(30):
            await master.send("orders", b"x" * 100_000)
    files = sorted((tmp_path / "master" / "commitlog").iterdir())
    files[0].unlink()
    files[1].unlink()
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "master", namesrv.address) as master,
        broker(tmp_path / "slave", namesrv.address, slave_id=1) as slave,
    ):
        await eventually(lambda: "its master's begins at 2097152" in caplog.text)
        assert "this slave's log ends at" in caplog.text
        assert "delete its store directory" in caplog.text
        assert (await slave.pull("orders")).code == ResponseCode.NO_PERMISSION
        assert (await master.send("orders", b"on")).code == ResponseCode.SUCCESS


async def test_a_slave_stops_in_time_though_its_master_never_answers(tmp_path: Path) -> None:
    """One that takes connections and says nothing, as a frozen process does."""
    connected = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with suppress(ConnectionError):
            while await reader.read(4_096):
                pass
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        async with name_server(tmp_path) as namesrv:
            address = f"{host}:{port}"
            running = broker(
                tmp_path / "slave", namesrv.address, slave_id=1, ha_master_address=address
            )
            await running.__aenter__()
            try:
                await asyncio.wait_for(connected.wait(), 30)
            finally:
                began = asyncio.get_running_loop().time()
                await running.__aexit__(None, None, None)
            assert asyncio.get_running_loop().time() - began < 15
    finally:
        server.close()
        await server.wait_closed()
