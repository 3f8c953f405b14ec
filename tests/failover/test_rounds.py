"""The master is killed under load, again and again, and comes back as a slave."""

import asyncio
import random
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.failover.history import History
from tests.failover.processes import Member, epochs, runtime
from tests.failover.sets import BrokerSet, broker_set
from tests.waiting import eventually


async def _rounds(root: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    async with broker_set(root, seed=seed) as brokers, History(brokers.namesrv) as history:
        await history.next_acknowledged(60)
        for _ in range(rounds):
            master = brokers.member_at(await brokers.complete())
            await asyncio.sleep(chance.random())  # anywhere in what goes on
            is_frozen = chance.random() < 0.2
            if is_frozen:
                master.send_signal(signal.SIGSTOP)
            else:
                master.end()
            took_s = await history.next_acknowledged(30)
            print(f"{'frozen' if is_frozen else 'killed'}: {took_s:.3f} s", flush=True)
            if is_frozen:
                master.send_signal(signal.SIGCONT)
            else:
                await master.start()
        master = brokers.member_at(await brokers.complete())
        await history.stop()
        assert len(history.acknowledged) > rounds * 100
        # Each of them has all of it, and knows of the same reigns.
        reigns = (await epochs(brokers.client, master.address)).epoch_list
        assert len(reigns) > rounds
        for member in brokers.members:
            await eventually(partial(_has_all, brokers, member, master), "the same log everywhere")
            assert (await epochs(brokers.client, member.address)).epoch_list == reigns
            await history.check(member.address)


async def _has_all(brokers: BrokerSet, member: Member, master: Member) -> bool:
    ours = await runtime(brokers.client, member.address)
    theirs = await runtime(brokers.client, master.address)
    names = ("commitLogMaxOffset", "confirmOffset")
    return [ours[name] for name in names] == [theirs[name] for name in names]


@pytest.mark.parametrize("seed", [1])
async def test_nothing_acknowledged_or_read_is_lost(tmp_path: Path, seed: int) -> None:
    await _rounds(tmp_path, 3, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
async def test_nothing_is_lost_in_many_rounds(tmp_path: Path, seed: int) -> None:
    await _rounds(tmp_path, 20, seed)
