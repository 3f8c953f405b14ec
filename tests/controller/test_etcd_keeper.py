"""Controllers that share an etcd: one leads, and nobody else's decisions are taken."""

import asyncio
import math
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.controller.broker_set import BrokerSet, Replica
from rocketq.controller.etcd.client import EtcdAccess, Snapshot
from rocketq.controller.keeper.etcd_keeper import EtcdKeeper
from rocketq.controller.keeper.keeper import CannotKeep, Kept, NotLeader, SomebodyWasFaster
from tests.controller.etcd_server import Etcd, needs_etcd, running_etcd
from tests.controller.test_neighbour import Listener
from tests.waiting import eventually

pytestmark = needs_etcd

LEASE_S = 30
"""Longer than a busy machine delays a renewal; those tests that wait for its end have a shorter."""
SHORT_LEASE_S = 3

SET = BrokerSet(cluster="c", name="b", next_id=2, replicas={1: Replica("x:1", "x:1;7")})


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


def make_keeper(
    etcd: Etcd, name: str, prefix: str, address: str = "", lease_s: int = LEASE_S
) -> EtcdKeeper:
    return EtcdKeeper(
        EtcdAccess(endpoints=etcd.endpoints.split(",")),
        prefix=prefix,
        name=lambda: name,
        address=lambda: address or f"{name}:19876",
        lease_s=lease_s,
        clock=SYSTEM_CLOCK,
    )


@asynccontextmanager
async def keepers(
    etcd: Etcd, count: int, prefix: str, lease_s: int = LEASE_S
) -> AsyncIterator[list[EtcdKeeper]]:
    """Several, of which the first leads."""
    async with AsyncExitStack() as stack:
        started = []
        for number in range(count):
            keeper = make_keeper(etcd, f"k{number}", prefix, lease_s=lease_s)
            await keeper.start()
            stack.push_async_callback(keeper.stop)
            started.append(keeper)
            await eventually(lambda: started[0].leads, "somebody leads")
        for each in started:
            await eventually(lambda: len(each.members) == count, "all are known")  # noqa: B023
            await eventually(lambda: each.leader is not None, "all know")  # noqa: B023
        yield started


async def test_one_leads_and_all_know_who(etcd: Etcd) -> None:
    async with keepers(etcd, 3, "/one") as (first, second, third):
        assert [each.leads for each in (first, second, third)] == [True, False, False]
        for each in (first, second, third):
            assert each.leader is not None
            assert each.leader.address == "k0:19876"
            assert [member.name for member in each.members] == ["k0", "k1", "k2"]
        with pytest.raises(NotLeader):
            await second.keep("b", None, SET)
        with pytest.raises(NotLeader):
            await second.current("b")


async def test_decisions_are_kept_as_they_were_expected(etcd: Etcd) -> None:
    async with keepers(etcd, 2, "/decide") as (first, second):
        await first.keep("b", None, SET)
        kept = await first.current("b")
        assert kept is not None
        assert kept.state == SET
        with pytest.raises(SomebodyWasFaster):
            await first.keep("b", None, replace(SET, master_epoch=5))
        with pytest.raises(SomebodyWasFaster):
            await first.keep("b", Kept(SET, kept.revision - 1), replace(SET, master_epoch=5))
        later = SET.with_master(1, 2500)
        await first.keep("b", kept, later)
        # The others watch.
        await eventually(lambda: "b" in second.sets and second.sets["b"].state == later)


async def test_the_lead_changes_hands_at_once_when_it_is_given_up(etcd: Etcd) -> None:
    async with keepers(etcd, 2, "/stop") as (first, second):
        await first.keep("b", None, SET)
        begun: list[bool] = []
        second.on_lead(lambda _: begun.append(second.sets["b"].state == SET))
        await first.stop()
        await eventually(lambda: second.leads, within_s=LEASE_S / 2)
        assert begun == [True]
        assert not first.leads


async def test_who_deposes_another_allows_for_what_it_may_still_say(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one lives on behind a door that was shut, as far as its lease goes."""

    async def not_now() -> bool:
        return False

    listener = Listener()
    port = await listener.start()
    first = make_keeper(etcd, "k0", "/deposed", address=f"127.0.0.1:{port}")
    await first.start()
    await eventually(lambda: first.leads)
    second = make_keeper(etcd, "k1", "/deposed")
    allowed: list[float] = []
    second.on_lead(allowed.append)
    await second.start()
    await eventually(lambda: len(listener.accepted) == 1)
    monkeypatch.setattr(first, "_campaign", not_now)
    listener.end()
    await eventually(lambda: second.leads)
    assert allowed == [LEASE_S]
    await eventually(lambda: not first.leads)
    # The next one, after an ordinary end, need not allow for anything.
    first.on_lead(allowed.append)
    await second.stop()
    monkeypatch.undo()
    await eventually(lambda: first.leads)
    assert allowed == [LEASE_S, 0]
    await first.stop()


async def test_a_lead_that_is_lost_while_it_is_taken(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = make_keeper(etcd, "k0", "/lost")
    read = keeper._client.read_prefix
    lost: list[bool] = []

    async def lose_and_read(prefix: bytes, timeout_s: float) -> Snapshot:
        snapshot = await read(prefix, timeout_s)
        if keeper._leader_key in [pair.key for pair in snapshot.pairs] and not lost:
            lost.append(True)
            before = keeper._vacated
            etcd.ask("kv/deleterange", key=b64encode(keeper._leader_key).decode())
            await eventually(lambda: keeper._vacated > before)
        return snapshot

    monkeypatch.setattr(keeper._client, "read_prefix", lose_and_read)
    await keeper.start()
    await eventually(lambda: keeper.leads)
    assert lost
    await keeper.keep("b", None, SET)
    await keeper.stop()


async def test_who_only_believes_to_lead_decides_nothing(etcd: Etcd) -> None:
    """As after a pause of any length, between looking at the clock and writing."""
    async with keepers(etcd, 2, "/both") as (first, second):
        await first.keep("b", None, SET)
        kept = await first.current("b")
        reign = first._reign
        assert first._lease is not None
        etcd.ask("lease/revoke", ID=str(first._lease))
        await eventually(lambda: second.leads)
        first._reign, first._lease_until = reign, math.inf
        assert first.leads
        assert second.leads
        with pytest.raises(NotLeader):
            await first.keep("b", kept, replace(SET, master_epoch=99))
        assert not first.leads
        await second.keep("b", await second.current("b"), SET.with_master(1, 2500))
        assert second.sets["b"].state.master_epoch == 1
        # And it is a member again, with a lease of its own.
        await eventually(lambda: first._lease is not None and len(second.members) == 2)


async def test_a_lease_that_is_not_renewed_ends_the_lead_by_the_own_clock(etcd: Etcd) -> None:
    """Before etcd gives it to another: questions are answered by one at a time."""
    async with keepers(etcd, 1, "/clock", SHORT_LEASE_S) as (only,):
        etcd.nodes[0].pause()
        try:
            await eventually(lambda: not only.leads)
            with pytest.raises(NotLeader):
                await only.current("b")
        finally:
            etcd.nodes[0].go_on()
        await eventually(lambda: only.leads)


async def test_a_decision_outlasts_a_short_pause_of_etcd(etcd: Etcd) -> None:
    async with keepers(etcd, 1, "/pause") as (only,):
        etcd.nodes[0].pause()
        keeping = asyncio.create_task(only.keep("b", None, SET))
        await asyncio.sleep(0.5)
        etcd.nodes[0].go_on()
        await keeping
        assert only.sets["b"].state == SET


async def test_a_decision_of_unknown_fate_is_looked_up(etcd: Etcd) -> None:
    async with keepers(etcd, 1, "/unknown") as (only,):
        await only.keep("b", None, SET)
        before = await only.current("b")
        etcd.nodes[0].pause()
        try:
            with pytest.raises(CannotKeep):
                await only.keep("b", before, SET.with_master(1, 2500))
        finally:
            etcd.nodes[0].go_on()
        await eventually(lambda: only.leads)
        found = await only.current("b")
        assert found is not None
        assert found.state in (SET, SET.with_master(1, 2500))
        # What was found is what can be changed.
        await only.keep("b", found, replace(found.state, in_sync_epoch=77))


async def test_strange_keys_do_no_harm(etcd: Etcd) -> None:
    etcd.put("/strange/sets/broken", b"{}")
    async with keepers(etcd, 1, "/strange") as (only,):
        with pytest.raises(CannotKeep):
            await only.current("broken")
        await only.keep("b", None, SET)
        etcd.put("/strange/sets/broken", SET.encode())
        await eventually(lambda: "broken" in only.sets)
        assert await only.current("broken") is not None


async def test_history_that_was_compacted_is_read_anew(etcd: Etcd) -> None:
    async with keepers(etcd, 2, "/compact") as (first, second):
        await first.keep("b", None, SET)
        revision = first.sets["b"].revision
        etcd.ask("kv/compaction", revision=str(revision))
        await first.stop()
        await eventually(lambda: second.leads)
        assert (await second.current("b")) == Kept(SET, revision)


async def test_a_full_etcd_keeps_its_leader_but_takes_no_decision(tmp_path: Path) -> None:
    with running_etcd(tmp_path, words=("--quota-backend-bytes", str(2 * 1024 * 1024))) as etcd:
        async with keepers(etcd, 2, "/full", 8) as (first, second):
            await first.keep("b", None, SET)
            with pytest.raises(OSError, match="HTTP Error"):  # noqa: PT012
                for number in range(100):
                    etcd.put(f"filler/{number}", bytes(200_000))
            kept = await first.current("b")
            with pytest.raises(CannotKeep, match="full"):
                await first.keep("b", kept, SET.with_master(1, 2500))
            until = first._lease_until
            await eventually(lambda: first._lease_until > until + 2, "renewals")
            assert first.leads
            assert await first.current("b") == kept
            # Room is made, and things go on.
            _make_room(etcd)
            await first.keep("b", kept, SET.with_master(1, 2500))
            await eventually(lambda: second.sets["b"].state.master_id == 1)


def _make_room(etcd: Etcd) -> None:
    deleted = etcd.ask("kv/deleterange", key="ZmlsbGVyLw==", range_end="ZmlsbGVyMA==")
    etcd.ask("kv/compaction", revision=deleted["header"]["revision"], physical=True)
    etcd.ask("maintenance/defragment")
    (alarm,) = etcd.ask("maintenance/alarm", action="GET")["alarms"]
    etcd.ask("maintenance/alarm", action="DEACTIVATE", **alarm)


async def test_etcd_restarts(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:
        async with keepers(etcd, 1, "/restart") as (only,):
            await only.keep("b", None, SET)
            etcd.nodes[0].kill()
            with pytest.raises((CannotKeep, NotLeader)):
                await only.keep("b", only.sets["b"], SET.with_master(1, 2500))
            etcd.nodes[0].start()
            await eventually(lambda: only.leads)
            await only.keep("b", await only.current("b"), SET.with_master(1, 2500))


async def test_etcd_loses_its_leader_then_its_majority(tmp_path: Path) -> None:
    with running_etcd(tmp_path, 3) as etcd:
        async with keepers(etcd, 2, "/nodes", 2 * SHORT_LEASE_S) as (first, second):
            state = SET
            await first.keep("b", None, state)
            reign = first._reign
            leader = etcd.leader()
            assert leader is not None
            leader.kill()
            state = await _decide(first, state)
            assert first._reign == reign  # etcd keeps leases when its leader changes
            others = [node for node in etcd.nodes if node is not leader]
            others[0].pause()
            await eventually(lambda: not first.leads, "without a majority nobody leads")
            assert not second.leads
            others[0].go_on()
            await eventually(lambda: first.leads or second.leads)
            state = await _decide(first if first.leads else second, state)
            leader.start()
            assert state.master_epoch == 2


async def _decide(keeper: EtcdKeeper, state: BrokerSet) -> BrokerSet:
    """As brokers do: ask again until it is decided."""
    wanted = state.with_master(1, 2500)

    async def is_kept() -> bool:
        try:
            kept = await keeper.current("b")
            if kept is None or kept.state != wanted:
                await keeper.keep("b", kept, wanted)
        except (CannotKeep, NotLeader, SomebodyWasFaster):
            return False
        return True

    await eventually(is_kept)
    return wanted


async def test_an_etcd_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:
        etcd.nodes[0].kill()
        keeper = make_keeper(etcd, "k0", "/late")
        await keeper.start()
        try:
            assert not keeper.leads
            assert keeper.leader is None
            etcd.nodes[0].start()
            await eventually(lambda: keeper.leads)
        finally:
            await keeper.stop()
