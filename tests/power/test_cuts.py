"""A broker under load loses its power at any moment, and starts again with what was synced.

The moments are requests to the disk: a cut is before or after any of them, also while the broker
starts.
"""

import asyncio
import contextlib
import random
import shutil
from pathlib import Path

import pytest

from tests.failover.processes import quiet_ports
from tests.power.broker import PoweredBroker
from tests.power.fuse import is_possible
from tests.power.supply import PowerSupply, power_supply
from tests.power.witness import Witness

pytestmark = pytest.mark.skipif(
    not is_possible(), reason="needs root, /dev/fuse and a loop device for a file system of its own"
)

SYNC, ASYNC = "SYNC_FLUSH", "ASYNC_FLUSH"
ASYNC_MAY_LOSE_S = 2.0
"""Half a second and what a busy machine adds."""
SMALL: dict[str, object] = {
    "mappedFileSizeCommitLog": 256 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 1000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "flushConsumerOffsetInterval": 200,
}
LONGEST_LIFE_S = 1.0


class Lives:
    """One store with one broker after the other."""

    def __init__(self, power: PowerSupply, broker: PoweredBroker, seed: int) -> None:
        self.witness = Witness(broker.address)
        self.cut_at_start = 0
        self.lost_sectors = 0
        self._power = power
        self._broker = broker
        self._chance = random.Random(seed)
        self._cuts_at: list[float] = []

    async def live(self, may_lose_s: float) -> None:
        """From a start, with whatever the last cut has left, to the next cut."""
        is_early = self._chance.random() < 0.2
        if is_early:
            await self._power.cut_in(self._chance.randrange(1, 60))
        gone = asyncio.create_task(self._power.is_gone())
        try:
            await self._live(gone, is_early, may_lose_s)
        finally:
            gone.cancel()
        self.lost_sectors += await self._power.come_back()

    async def _live(self, gone: asyncio.Task[None], is_early: bool, may_lose_s: float) -> None:
        is_ready = await self._broker.start()
        assert is_ready or gone.done() or is_early, self._broker.log.read_text()[-3_000:]
        if is_ready:
            if not is_early:
                await self.witness.check(self._cuts_at, may_lose_s)
                await self._power.cut_in(self._chance.randrange(1, 3_000))
            async with self.witness.load():
                await asyncio.wait({gone}, timeout=self._chance.uniform(0.05, LONGEST_LIFE_S))
                if not gone.done():
                    await self._power.cut_in(0)
                await gone
                self._cuts_at.append(asyncio.get_running_loop().time())
                await self._broker.kill()
        else:
            self.cut_at_start += 1
            await self._broker.kill()
            await gone

    async def end(self, may_lose_s: float) -> None:
        assert await self._broker.start(), self._broker.log.read_text()[-3_000:]
        await self.witness.check(self._cuts_at, may_lose_s)
        print(
            f"{self.witness.acknowledgements:,} acknowledged, {self.lost_sectors:,} sectors lost,"
            f" {self.cut_at_start} starts cut; {self.witness.lost:,} messages lost, the oldest"
            f" {self.witness.oldest_lost_s:.2f} s before the cut",
            flush=True,
        )


async def cuts(
    root: Path,
    count: int,
    seed: int,
    flush: str,
    may_lose_s: float = 0.0,
    *,
    syncs: bool = True,
) -> None:
    (port,) = quiet_ports(random.Random(seed), 1)
    async with power_supply(root, seed) as power:
        log = root / "broker.log"
        broker = PoweredBroker(power.folder, port, log, syncs=syncs, flushDiskType=flush, **SMALL)
        try:
            lives = Lives(power, broker, seed)
            for _ in range(count):
                await lives.live(may_lose_s)
            await lives.end(may_lose_s)
            assert lives.witness.acknowledgements > count
            assert lives.lost_sectors
        except AssertionError:
            await broker.kill()
            with contextlib.suppress(OSError):
                shutil.copytree(power.folder, root / "left")  # for whoever looks into it
            raise
        finally:
            await broker.kill()


async def test_nothing_acknowledged_is_lost_in_three_cuts(tmp_path: Path) -> None:
    await cuts(tmp_path, 3, 1, SYNC)


async def test_without_syncs_something_is_lost(tmp_path: Path) -> None:
    """What the others rest on: this file system does forget messages, or whole files."""
    with pytest.raises(AssertionError, match=r"before the cut|bytes are configured"):
        await cuts(tmp_path, 5, 1, SYNC, syncs=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(32))
async def test_nothing_acknowledged_is_lost_in_many_cuts(tmp_path: Path, seed: int) -> None:
    """800 cuts in all."""
    await cuts(tmp_path, 25, 1_000 + seed, SYNC)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_with_async_flush_only_the_newest_is_lost(tmp_path: Path, seed: int) -> None:
    """200 cuts in all."""
    await cuts(tmp_path, 25, 2_000 + seed, ASYNC, ASYNC_MAY_LOSE_S)
