"""Faults by chance, one after the other, on processes with networks and disks of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controller.etcd_server import needs_etcd

ROOT = Path(__file__).parents[2]
MINUTES = os.environ.get("ROCKETQ_CHAOS_MINUTES", "60")

pytestmark = [
    needs_etcd,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "tc", "ip"))),
        reason="needs root, for a network and disks of its own (packages util-linux, iproute2)",
    ),
]


def chaos(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.failover.chaos", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0
    return done.stdout


def test_nothing_is_lost_with_a_full_disk() -> None:
    assert "all there" in chaos("--minutes", "0", "--seed", "0", "--only-new", "--without-java")


@pytest.mark.slow
def test_nothing_is_lost_in_an_hour_of_everything() -> None:
    """ROCKETQ_CHAOS_MINUTES makes it another time."""
    assert "all there" in chaos("--minutes", MINUTES)
