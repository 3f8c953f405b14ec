"""The official Java client among the load: sends, consumes, and says what it was told."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from peers import java
from tests.failover.history import TOPIC, History
from tests.waiting import eventually

GROUP = "witnesses"


def is_possible() -> bool:
    """Whether Java and the client's jars are at hand; nothing is fetched for a test."""
    return not java.missing_tools() and java.is_installed(java.V5)


class JavaWitness:
    """What one process of it has said."""

    def __init__(self, process: asyncio.subprocess.Process, history: History) -> None:
        self.acknowledged: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self._history = history
        self._process = process
        self._is_still = False

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            match line.split():
                case [b"sends", body]:
                    self._history.sent.add(body)
                case [b"acknowledged", queue_id, offset, body]:
                    self._history.note_acknowledged((int(queue_id), int(offset)), body)
                    self.acknowledged.add(body)
                case [b"consumed", _, _, body]:
                    self.consumed.add(body)
                case [b"still"]:
                    self._is_still = True

    async def send_no_more(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await eventually(lambda: self._is_still, "the Java client to stop sending")

    async def has_consumed_everything(self) -> None:
        """Everything it was promised has come back to it."""
        await eventually(
            lambda: self.acknowledged <= self.consumed,
            "the Java client to consume what it was promised",
            within_s=120,
        )


@asynccontextmanager
async def java_witness(root: Path, namesrv: str, history: History) -> AsyncIterator[JavaWitness]:
    classes = await asyncio.to_thread(java.compiled, "Witness.java", java.V5)
    with open(root / "witness.log", "ab") as log:  # noqa: ASYNC230
        process = await asyncio.create_subprocess_exec(
            *java.command(java.V5, "Witness", root, classes),
            *(namesrv, TOPIC, GROUP),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    witness = JavaWitness(process, history)
    listening = asyncio.create_task(witness.listen())
    try:
        await eventually(lambda: witness.consumed, "the Java client to begin", within_s=120)
        yield witness
    finally:
        process.kill()
        await process.wait()
        await listening
