"""The switch of a file system in a process of its own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEVICE_SIZE = 1 << 20


class PowerSupply:
    """Cuts the power of a forgetful file system, and gives it back."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.folder = folder
        self._process = process

    async def cut_in(self, requests: int) -> None:
        """Let the power go after so many requests to the disk, at once with 0."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"cut %d\n" % requests)
        await self._process.stdin.drain()

    async def is_gone(self) -> None:
        assert await self._line() == b"dark\n"

    async def come_back(self) -> int:
        """After a cut; how many sectors are lost. Nobody may have a file open any more."""
        await asyncio.to_thread(self._write_back)
        assert self._process.stdin is not None
        self._process.stdin.write(b"again\n")
        word, lost = (await self._line()).split()
        assert word == b"mounted"
        return int(lost)

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    def _write_back(self) -> None:
        """Let the kernel write what it still holds: that too may have got to the disk or not."""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                descriptor = os.open(Path(folder, name), os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                except OSError:
                    pass  # it is dark; but the pages have been written
                finally:
                    os.close(descriptor)


@asynccontextmanager
async def power_supply(root: Path, seed: int) -> AsyncIterator[PowerSupply]:
    folder, image = root / "disk", root / "device"
    folder.mkdir()
    image.write_bytes(bytes(DEVICE_SIZE))
    device = await _losetup("--find", "--show", str(image))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.power.forgetful", str(folder), device, str(seed)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert (await process.stdout.readline()).startswith(b"mounted")
            yield PowerSupply(folder, process)
        finally:
            process.stdin.close()
            await process.wait()
    finally:
        await _losetup("--detach", device)


async def _losetup(*words: str) -> str:
    process = await asyncio.create_subprocess_exec("losetup", *words, stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode().strip()
