"""What is written for good has a name for good, however new the directories above it are."""

import asyncio
from pathlib import Path

from rocketq.common.files import write_atomically
from tests.power.supply import power_supply
from tests.power.test_cuts import pytestmark  # noqa: F401


async def test_a_file_in_new_directories_is_there_after_a_cut(tmp_path: Path) -> None:
    async with power_supply(tmp_path, seed=1) as power:
        for turn in range(5):
            path = power.folder / f"new-{turn}" / "newer" / "file.json"
            await asyncio.to_thread(write_atomically, path, b"{}")
            await power.cut_in(0)
            await power.is_gone()
            await power.come_back()
            assert await asyncio.to_thread(path.read_bytes) == b"{}"
