"""A master that starts again and finds that it still is the one."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketq.remoting import RemotingClient
from tests.broker.replication.pairs import name_server
from tests.failover.history import History
from tests.failover.processes import FILE_SIZE, Member, epochs, quiet_ports, runtime
from tests.failover.sets import BrokerSet, controller
from tests.waiting import eventually

LOST = 5_000
"""Bytes that were not on the disk yet when the power went."""


def _lose_the_end(folder: Path, log_end: int) -> None:
    """What a machine without power leaves: the file is as long as before, its end is empty."""
    begin = log_end - LOST
    while begin < log_end:
        at = begin % FILE_SIZE
        with open(folder / "commitlog" / f"{begin - at:020d}", "r+b") as log:
            log.seek(at)
            log.write(bytes(FILE_SIZE - at))
        begin += FILE_SIZE - at


@pytest.mark.parametrize("count", [1, 3])
async def test_a_master_that_lost_the_end_of_its_log_does_not_go_on(
    tmp_path: Path, count: int
) -> None:
    """The controller ended with it, and has not noticed anything."""
    ports = quiet_ports(random.Random(7), count + 1)
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(name_server(tmp_path))
        client = RemotingClient()
        stack.push_async_callback(client.close)
        decider = controller(tmp_path, ports[-1])
        address = (await decider.__aenter__()).address
        brokers = BrokerSet(namesrv.address, [], client)
        for number, port in enumerate(ports[:-1]):
            one = Member(tmp_path / f"broker-{number}", port, namesrv.address, address)
            brokers.members.append(one)
            stack.callback(one.end)
            await one.start()
        history = await stack.enter_async_context(History(namesrv.address, senders=4))
        await history.next_acknowledged(60)
        master = brokers.member_at(await brokers.complete())
        await eventually(lambda: len(history.acknowledged) > 300, "some messages")
        await history.stop()
        log_end = int((await runtime(client, master.address))["commitLogMaxOffset"])
        before = (await epochs(client, master.address)).epoch_list

        await decider.__aexit__(None, None, None)
        master.end()
        _lose_the_end(master.folder, log_end)
        asked = master.log.read_text().count("no controller leads")
        starting = asyncio.create_task(master.start())

        def asks() -> bool:
            return master.log.read_text().count("no controller leads") > asked

        await eventually(asks, "it to ask who is master")
        await stack.enter_async_context(controller(tmp_path, ports[-1]))
        await starting
        now = brokers.member_at(await brokers.complete())
        after = (await epochs(client, now.address)).epoch_list
        if count == 1:
            # There is nobody else. What it writes now is no part of what it wrote before.
            assert after[-1].epoch == before[-1].epoch
            assert 0 < after[-1].start_offset <= log_end - LOST
            return
        assert now is not master
        assert after[-1].epoch > before[-1].epoch
        await history.check(now.address)

        async def has_all() -> bool:
            table = await runtime(client, master.address)
            return int(table["confirmOffset"]) >= log_end

        await eventually(has_all, "the old master to have all again")
        await history.check(master.address)
