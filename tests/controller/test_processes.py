"""Controllers as processes of their own, killed and paused while brokers go on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RemotingError
from tests.controller.controller_process import ControllerProcess
from tests.controller.etcd_server import Etcd, needs_etcd, running_etcd
from tests.controller.wire_broker import Asker, WireBroker, wire_brokers
from tests.waiting import eventually

pytestmark = needs_etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@asynccontextmanager
async def controllers(
    etcd: Etcd, prefix: str, folder: Path, count: int = 3, lease_s: int = 2
) -> AsyncIterator[list[ControllerProcess]]:
    started: list[ControllerProcess] = []
    try:
        for number in range(count):
            started.append(  # noqa: PERF401
                await asyncio.to_thread(
                    ControllerProcess, etcd.endpoints, prefix, f"n{number}", folder, lease_s
                )
            )
        yield started
    finally:
        for each in started:
            each.close()


async def leader_of(asked: list[ControllerProcess]) -> ControllerProcess:
    """The one that leads, once all that are asked agree on one of them."""
    found: list[ControllerProcess] = []

    async def all_agree() -> bool:
        found.clear()
        names = set()
        for each in asked:
            asker = Asker(each.address)
            try:
                metadata = await asker.metadata()
            except RemotingError:
                return False
            finally:
                await asker.close()
            names.add(metadata.controller_leader_id)
            if metadata.is_leader:
                found.append(each)
        return len(names) == 1 and len(found) == 1 and found[0].name in names

    await eventually(all_agree)
    return found[0]


@asynccontextmanager
async def beating(brokers: list[WireBroker], asked: list[ControllerProcess]) -> AsyncIterator[None]:
    """Heartbeats of all brokers to all controllers, as long as these are there."""

    async def beat(broker: WireBroker, to: str) -> None:
        while True:
            try:
                # Not `wait_for`: before 3.12 it may swallow that the task is cancelled.
                async with asyncio.timeout(1):
                    await broker.beat(to)
            except (RemotingError, TimeoutError):
                pass
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(beat(b, c.address)) for b in brokers for c in asked]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def a_set(brokers: list[WireBroker], leader: ControllerProcess) -> None:
    """All joined and in sync, the first is master."""
    for each in brokers:
        each.controller = leader.address
        each.timeout_ms = 1500
        await each.join()
    master = await brokers[0].become_master()
    for each in brokers[1:]:
        await each.beat()
    await brokers[0].beat()
    await brokers[0].share(master, *brokers[1:])


async def test_a_killed_leader_is_followed_by_another_that_knows_all(
    etcd: Etcd, tmp_path: Path
) -> None:
    """At once: nobody waits for the lease of a process that has ended."""
    async with controllers(etcd, "/killed", tmp_path, lease_s=60) as processes:
        leader = await leader_of(processes)
        async with wire_brokers(leader.address, 3) as brokers:
            await a_set(brokers, leader)
            async with beating(brokers, processes):
                leader.kill()
                others = [each for each in processes if each is not leader]
                new = await leader_of(others)
                for each in brokers:
                    each.controller = new.address
                master = await brokers[1].master()
                assert (master.master_broker_id, master.master_epoch) == (1, 1)
                # Whatever the old one may have said last has run out: nobody was replaced.
                assert not [
                    notice for notice, _ in brokers[1].notices if notice.master_broker_id != 1
                ]


async def test_a_leader_knows_the_brokers_it_heard_while_another_led(
    etcd: Etcd, tmp_path: Path
) -> None:
    async with controllers(etcd, "/heard", tmp_path, 2, lease_s=60) as processes:
        leader = await leader_of(processes)
        (other,) = [each for each in processes if each is not leader]
        async with wire_brokers(leader.address, 3) as brokers:
            await a_set(brokers, leader)
            async with beating(brokers, processes):
                await asyncio.to_thread(leader.end)
                await leader_of([other])
            for each in brokers:
                each.controller = other.address
            # Now nobody is heard any more but broker 3.
            async with beating(brokers[2:], [other]):
                await brokers[1].hang_up()
                await brokers[0].hang_up()

                async def is_master() -> bool:
                    return (await brokers[2].master()).master_broker_id == 3

                await eventually(is_master)
                assert (await brokers[2].master()).master_epoch == 2
                # The notice goes its own way.
                notices = brokers[2].notices
                await eventually(lambda: any(notice.master_broker_id == 3 for notice, _ in notices))


async def test_a_leader_that_stood_still_leads_no_longer(etcd: Etcd, tmp_path: Path) -> None:
    """Both believe to lead when the first one goes on; only one of them decides."""
    async with controllers(etcd, "/paused", tmp_path, 2) as processes:
        old = await leader_of(processes)
        (new,) = [each for each in processes if each is not old]
        async with wire_brokers(old.address, 2) as brokers:
            await a_set(brokers, old)
            first, second = brokers
            async with beating(brokers, processes):
                old.pause()
                # Asked while it stands still, answered when it goes on.
                late = asyncio.create_task(first.elect(designated=True, broker_id=2))
                info = asyncio.create_task(first.info())
                assert await leader_of([new]) is new
                second.controller = new.address
                moved = await second.elect(designated=True, broker_id=2)
                assert moved.code == 0, moved.remark
                old.go_on()
                assert (await late).code == ResponseCode.CONTROLLER_NOT_LEADER
                assert (await info).code == ResponseCode.CONTROLLER_NOT_LEADER
                assert await leader_of(processes) is new
                master = await second.master()
                assert (master.master_broker_id, master.master_epoch) == (2, 2)


async def test_a_short_pause_of_the_leader_kills_no_broker(etcd: Etcd, tmp_path: Path) -> None:
    """What was sent meanwhile lies in its sockets, unread when its clock says that time is up."""
    async with controllers(etcd, "/short", tmp_path, 1, lease_s=60) as processes:
        (only,) = processes
        await leader_of(processes)
        async with wire_brokers(only.address, 2) as brokers:
            await a_set(brokers, only)
            for each in brokers:
                each.timeout_ms = 2_500
            async with beating(brokers, processes):
                await asyncio.sleep(0.2)
                only.pause()
                await asyncio.sleep(3)
                only.go_on()
                await leader_of(processes)
                await asyncio.sleep(1)
                master = await brokers[1].master()
                assert (master.master_broker_id, master.master_epoch) == (1, 1)
