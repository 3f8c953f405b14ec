"""Everything that can be cut, killed, frozen or set wrong: brokers, controllers, etcd, clocks.

Alone and together. Whatever it is, what was acknowledged or read stays, no number is given twice,
and no two masters acknowledge in one epoch.
"""

import random
from pathlib import Path

import pytest

from tests.controller.etcd_server import needs_etcd
from tests.failover.etcd_sets import etcd_set
from tests.failover.faults import (
    FAULTS,
    controller_killed,
    controller_without_etcd,
    master_frozen,
    strike,
    together,
)
from tests.failover.sets import stubborn_history, verdict

pytestmark = needs_etcd


async def test_nothing_is_lost_with_a_part_of_everything(tmp_path: Path) -> None:
    """A short form of what follows."""
    async with etcd_set(tmp_path, seed=11) as brokers, stubborn_history(brokers) as history:
        await history.next_acknowledged(60)
        await strike(brokers, history, controller_killed, 1.0)
        await strike(brokers, history, together(controller_without_etcd, master_frozen), 4.0)
        await verdict(brokers, history)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_whatever_fails(tmp_path: Path, seed: int) -> None:
    """Each fault once, in an order and for a time that the seed says."""
    chance = random.Random(seed)
    faults = chance.sample(FAULTS, len(FAULTS))
    async with etcd_set(tmp_path, seed=seed) as brokers, stubborn_history(brokers) as history:
        await history.next_acknowledged(60)
        for fault in faults:
            last_s = chance.choice([1.0, 2.0, 3.0, 5.0, 8.0, 20.0, 60.0])
            await strike(brokers, history, fault, last_s)
        await verdict(brokers, history)
