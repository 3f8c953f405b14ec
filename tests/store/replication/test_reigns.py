"""Stores whose masters are elected: what can be read, what is waited for, what is cut off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.replication.epochs import Epoch
from rocketq.store.replication.follower import Diverged, LogFollower
from rocketq.store.replication.master_link import Replica
from rocketq.store.replication.received_log import ReceivedLog
from rocketq.store.replication.reign import Lease, Reign
from rocketq.store.replication.waits import both
from rocketq.store.results import PutStatus
from tests.store.replication.pairs import address_of, equal
from tests.store.support import message, read_queue, small_config
from tests.waiting import eventually


async def _refuse(log: ReceivedLog) -> None:
    if not log.is_empty:
        raise Diverged("compared")


class Node:
    """One store of a set, that can be master or slave."""

    def __init__(self, broker_id: int, store: MessageStore) -> None:
        self.broker_id = broker_id
        self.store = store
        self.cuts = 0
        self.follower = LogFollower(store.config, store.received, _refuse)
        self.follower.expect_epochs(store.epochs, self._cut)
        self.follower.introduce_as(Replica(broker_id, False))
        self._stop: asyncio.Event | None = None
        self._running: asyncio.Task[None] | None = None
        self.reign: Reign | None = None

    def _cut(self) -> None:
        self.cuts += 1

    async def lead(self, epoch: int, *members: int, lease: Lease | None = None) -> Reign:
        await self.leave()
        lease = lease or Lease(asyncio.get_running_loop().time)
        self.reign = Reign(self.broker_id, epoch, frozenset(members), 1, lease)
        self.store.take_role(BrokerRole.SYNC_MASTER, self.reign)
        await self.store.replicas.listen("127.0.0.1", 0)
        return self.reign

    async def follow(self, master: "Node") -> None:
        await self.leave()
        self.store.take_role(BrokerRole.SLAVE)
        self.follower.follow(address_of(master.store))
        self._stop = asyncio.Event()
        self._running = asyncio.create_task(self.follower.run(self._stop))

    async def leave(self) -> None:
        if self._running is not None and self._stop is not None:
            self._stop.set()
            await self._running
            self._running = None
        await self.store.replicas.close()
        self.reign = None


@asynccontextmanager
async def node(root: Path, broker_id: int, **settings: Any) -> AsyncIterator[Node]:
    config = small_config(
        root, broker_role=BrokerRole.SLAVE, **({"all_ack_in_sync_state_set": True} | settings)
    )
    store = MessageStore(config)
    store.is_controlled = True
    async with store:
        one = Node(broker_id, store)
        try:
            yield one
        finally:
            await one.leave()


def put(one: Node, body: bytes, **more: Any) -> int:
    result = one.store.append(message(body, **more))
    assert result.status is PutStatus.PUT_OK, result.status
    return result.physical_offset + result.size


def bodies(one: Node) -> list[bytes]:
    return [each.body for each in read_queue(one.store, "orders", 0)]


async def test_a_message_can_be_read_when_all_in_sync_have_it(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        await first.lead(1, 1, 2)
        end = put(first, b"one")
        waiting = first.store.durable(end)
        assert waiting is not None
        assert not waiting.done()
        assert bodies(first) == []
        await second.follow(first)
        assert await waiting is PutStatus.PUT_OK
        assert bodies(first) == [b"one"]
        # The slave shows it when it knows that all have it, without more being sent.
        await eventually(lambda: bodies(second) == [b"one"], "the slave to show it")
        assert second.follower.is_proven
        assert second.store.epochs.entries() == first.store.epochs.entries() == (Epoch(1, 0),)


async def test_alone_in_sync_nothing_is_waited_for(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first:
        await first.lead(1, 1)
        assert first.store.durable(put(first, b"one")) is None
        assert bodies(first) == [b"one"]


async def test_when_a_member_is_counted_out_what_waited_for_it_goes_on(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first:
        reign = await first.lead(1, 1, 2)
        waiting = first.store.durable(put(first, b"one"))
        assert waiting is not None
        reign.asked = frozenset({1})  # asked for, and not granted: both count
        first.store.replicas.members_changed()
        assert not waiting.done()
        assert bodies(first) == []
        reign.take_members(frozenset({1}), 2)
        first.store.replicas.members_changed()
        assert await waiting is PutStatus.PUT_OK
        assert bodies(first) == [b"one"]


async def test_what_its_master_never_had_is_cut_off(tmp_path: Path) -> None:
    async with (
        node(tmp_path / "1", 1) as first,
        node(tmp_path / "2", 2) as second,
        node(tmp_path / "3", 3) as third,
    ):
        await first.lead(1, 1, 2, 3)
        for number in range(200):  # some files of the log
            end = put(first, b"%d" % number, keys=f"key{number}", queue_id=number % 3)
        await second.follow(first)
        await third.follow(first)
        waiting = first.store.durable(end)
        assert waiting is None or await waiting is PutStatus.PUT_OK
        await equal(first.store, second.store)
        await equal(first.store, third.store)
        # Cut off from all others, it writes what nobody will have.
        await second.leave()
        await third.leave()
        for number in range(100):
            put(first, b"lost %d" % number, keys="lost", queue_id=number % 3)
        await second.lead(2, 2)
        await third.follow(second)
        second_end = put(second, b"kept", keys="kept")
        first_end = first.store.max_physical_offset
        assert first_end > second_end
        await first.follow(second)
        await eventually(lambda: first.follower.is_connected, "the old master to follow")
        assert first.cuts == 0, "nothing of it could be read"
        await equal(second.store, first.store)
        await equal(second.store, third.store)
        for one in (first, second, third):
            assert one.store.epochs.entries() == (Epoch(1, 0), Epoch(2, end))
        await eventually(lambda: bodies(first)[-1:] == [b"kept"], "the old master to show it")
        assert bodies(first) == bodies(second)
        # And it numbers messages as the others do, when it leads again.
        await second.leave()
        await first.lead(3, 1)
        put(first, b"more")
        assert bodies(first) == [*bodies(second), b"more"]
        assert first.store.query_keys("orders", "lost", 32, 0, 2**62).buffers == []
        assert len(first.store.query_keys("orders", "kept", 32, 0, 2**62).buffers) == 1
        assert len(first.store.query_keys("orders", "key7", 32, 0, 2**62).buffers) == 1


async def test_what_could_be_read_is_cut_off_and_told(tmp_path: Path) -> None:
    """Without allAckInSyncStateSet a master shows what nobody else has."""
    settings = {"all_ack_in_sync_state_set": False}
    async with (
        node(tmp_path / "1", 1, **settings) as first,
        node(tmp_path / "2", 2, **settings) as second,
    ):
        await first.lead(1, 1, 2)
        end = put(first, b"one", keys="one")
        await second.follow(first)
        await equal(first.store, second.store)
        await second.leave()
        for number in range(300):
            put(first, b"lost %d" % number, keys=f"lost{number}")
        assert len(bodies(first)) == 301
        await second.lead(2, 2)
        put(second, b"two", keys="two")
        await first.follow(second)
        await equal(second.store, first.store)
        assert first.cuts == 1
        assert first.store.epochs.entries() == (Epoch(1, 0), Epoch(2, end))
        await eventually(lambda: bodies(first) == [b"one", b"two"], "only those to be there")
        assert first.store.query_keys("orders", "lost5", 32, 0, 2**62).buffers == []
        assert len(first.store.query_keys("orders", "two", 32, 0, 2**62).buffers) == 1
    # And a restart finds it so.
    async with node(tmp_path / "1", 1, **settings) as first:
        assert first.store.recovery is not None
        assert first.store.recovery.is_clean
        assert bodies(first) == [b"one", b"two"]
        assert first.store.epochs.entries() == (Epoch(1, 0), Epoch(2, end))


async def test_a_kill_finds_the_unconfirmed_end_and_the_next_master_cuts_it(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        await first.lead(1, 1, 2)
        await second.follow(first)
        waiting = first.store.durable(put(first, b"one"))
        assert waiting is None or await waiting is PutStatus.PUT_OK
        await second.leave()
        put(first, b"lost")
        await first.leave()
    # Nothing says here that the last message was never confirmed: a start shows it, unproven.
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        assert not first.follower.is_proven
        await second.lead(2, 2)
        put(second, b"two")
        await first.follow(second)
        await equal(second.store, first.store)
        await eventually(lambda: bodies(first) == [b"one", b"two"], "what the master has")


async def test_a_reign_of_which_nothing_is_left_is_remembered(tmp_path: Path) -> None:
    """The power takes all of a log that nobody has confirmed; two others still have it."""
    async with (
        node(tmp_path / "1", 1) as first,
        node(tmp_path / "2", 2) as second,
        node(tmp_path / "3", 3) as third,
    ):
        await first.lead(1, 1, 2, 3)
        await second.follow(first)
        await third.follow(first)
        put(first, b"not confirmed")
        await equal(first.store, second.store)
        await equal(first.store, third.store)
        await third.leave()
        await first.leave()
        await first.store._cut(0, "the power took it")
        first.store.epochs.begin(1, 0)
        await first.lead(2, 1, 2, 3)
        await second.follow(first)
        await eventually(lambda: second.store.max_physical_offset == 0, "the second to follow")
        put(first, b"kept")
        await equal(first.store, second.store)
        await first.leave()
        await second.lead(3, 2, 3)
        await third.follow(second)
        await equal(second.store, third.store)
        await eventually(lambda: bodies(third) == [b"kept"], "the third to show it")


async def test_logs_without_a_common_reign_are_left_alone(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        await first.lead(1, 1)
        put(first, b"one")
        await second.lead(2, 2)
        end = put(second, b"another")
        await second.follow(first)
        await eventually(lambda: second.follower.divergence is not None, "it to say so")
        assert "nothing in common" in str(second.follower.divergence)
        assert second.store.max_physical_offset == end


async def test_a_log_from_before_all_reigns_is_compared_first(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        second.store.take_role(BrokerRole.ASYNC_MASTER)
        put(second, b"old")
        await first.lead(1, 1)
        await second.follow(first)
        await eventually(lambda: str(second.follower.divergence) == "compared", "a comparison")


async def test_a_lease_that_is_over_ends_acknowledgements(tmp_path: Path) -> None:
    now = 0.0
    async with node(tmp_path / "1", 1) as first:
        lease = Lease(lambda: now, 10.0)
        await first.lead(1, 1, lease=lease)
        assert first.store.durable(put(first, b"one")) is None
        now = 10.0
        waiting = first.store.durable(put(first, b"two"))
        assert waiting is not None
        assert await waiting is PutStatus.SERVICE_NOT_AVAILABLE
        lease.renew(20.0)
        assert first.store.durable(put(first, b"three")) is None
        lease.end()
        waiting = first.store.durable(put(first, b"four"))
        assert waiting is not None
        assert await waiting is PutStatus.SERVICE_NOT_AVAILABLE


async def test_a_report_that_comes_when_the_lease_is_over_acknowledges_nothing(
    tmp_path: Path,
) -> None:
    """As after a pause of the whole process: another may be master by then."""
    now = 0.0
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        lease = Lease(lambda: now, 10.0)
        await first.lead(1, 1, 2, lease=lease)
        end = put(first, b"one")
        waiting = first.store.durable(end)
        assert waiting is not None
        now = 10.0
        await second.follow(first)
        await eventually(lambda: first.store.replicas.confirmed >= end, "the slave's report")
        assert not waiting.done()
        lease.renew(20.0)
        first.store.replicas.members_changed()
        assert await waiting is PutStatus.PUT_OK


async def test_a_flush_that_ends_when_the_lease_is_over_acknowledges_nothing() -> None:
    loop = asyncio.get_running_loop()
    for is_over in (False, True):
        flushed: asyncio.Future[PutStatus] = loop.create_future()
        copied: asyncio.Future[PutStatus] = loop.create_future()
        answer = both(flushed, copied, partial(bool, is_over))
        copied.set_result(PutStatus.PUT_OK)
        flushed.set_result(PutStatus.PUT_OK)
        expected = PutStatus.SERVICE_NOT_AVAILABLE if is_over else PutStatus.PUT_OK
        assert await answer is expected


async def test_who_waits_when_a_reign_ends_has_to_send_again(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first:
        await first.lead(1, 1, 2)
        waiting = first.store.durable(put(first, b"one"))
        assert waiting is not None
        await first.leave()
        assert await waiting is PutStatus.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("least", [2, 3])
async def test_too_few_in_sync_and_nothing_is_taken(tmp_path: Path, least: int) -> None:
    async with node(tmp_path / "1", 1, min_in_sync_replicas=least) as first:
        reign = await first.lead(1, 1, 2)
        status = first.store.append(message(b"one")).status
        enough = PutStatus.PUT_OK if least == 2 else PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
        assert status is enough
        reign.take_members(frozenset({1}), 2)
        first.store.replicas.members_changed()
        assert first.store.append(message()).status is PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH


async def test_copies_count_of_those_in_sync_only(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"all_ack_in_sync_state_set": False, "in_sync_replicas": 2}
    async with (
        node(tmp_path / "1", 1, **settings) as first,
        node(tmp_path / "2", 2, **settings) as second,
    ):
        reign = await first.lead(1, 1, 3)
        await second.follow(first)
        end = put(first, b"one")
        waiting = first.store.durable(end)
        assert waiting is not None
        await equal(first.store, second.store)
        assert not waiting.done(), "who has it cannot become master"
        reign.take_members(frozenset({1, 2}), 2)
        first.store.replicas.members_changed()
        assert await waiting is PutStatus.PUT_OK


async def test_a_broker_that_connects_again_is_one_slave(tmp_path: Path) -> None:
    async with (
        node(tmp_path / "1", 1) as first,
        node(tmp_path / "2", 2) as second,
        node(tmp_path / "3", 2) as twin,
    ):
        await first.lead(1, 1)
        await second.follow(first)
        await eventually(lambda: len(first.store.replicas.epoch_links()) == 1, "the slave")
        await twin.follow(first)
        await eventually(lambda: twin.follower.is_connected, "its twin")
        await second.leave()
        assert [link.broker_id for link in first.store.replicas.epoch_links()] == [2]


async def test_the_log_grows_on_the_slave_over_many_reigns(tmp_path: Path) -> None:
    async with node(tmp_path / "1", 1) as first, node(tmp_path / "2", 2) as second:
        nodes = [first, second]
        sent = []
        for epoch in range(1, 12):
            master, slave = nodes[epoch % 2], nodes[1 - epoch % 2]
            await master.lead(epoch, 1, 2)
            await slave.follow(master)
            for number in range(epoch % 4 * 20):
                sent.append(b"%d %d" % (epoch, number))
                end = put(master, sent[-1])
            if epoch % 4:
                waiting = master.store.durable(end)
                assert waiting is None or await waiting is PutStatus.PUT_OK
            await equal(master.store, slave.store)
            assert bodies(master) == sent
        assert first.store.epochs.last_number == 11
