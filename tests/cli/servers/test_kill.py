"""The whole system killed with SIGKILL under load: what was acknowledged is consumed."""

import asyncio
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.client.producer.producer import Producer
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message
from tests.cli.programs import Server, serving
from tests.client.consuming import QUICK, Received
from tests.waiting import eventually

KILLS = 3
SENDERS = 8


class Restarting:
    """`rocketq up` on one directory and the same ports, as often as it takes."""

    def __init__(self, folder: Path, settings: tuple[str, ...]) -> None:
        self._folder = folder
        self._settings = [word for setting in settings for word in ("--set", setting)]
        self._ports = ("0", "0")
        self._stack = ExitStack()
        self._server: Server | None = None

    @property
    def namesrv(self) -> str:
        assert self._server is not None
        return self._server.facts["namesrv"]

    def start(self) -> None:
        namesrv, broker = self._ports
        self._server = self._stack.enter_context(
            serving(
                "up",
                *("--dir", str(self._folder), "--namesrv-port", namesrv, "--broker-port", broker),
                *self._settings,
            )
        )
        self._ports = (
            self._server.facts["namesrv"].rpartition(":")[2],
            self._server.facts["broker"].rpartition(":")[2],
        )

    def kill(self) -> None:
        assert self._server is not None
        assert self._server.stop(signal.SIGKILL) == -signal.SIGKILL

    def close(self) -> None:
        self._stack.close()


@contextmanager
def restarting(folder: Path, *settings: str) -> Iterator[Restarting]:
    system = Restarting(folder, settings)
    try:
        system.start()
        yield system
    finally:
        system.close()


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_acknowledged_messages_outlive_kills(tmp_path: Path, flush: str) -> None:
    chance = random.Random(7)
    received = Received()
    acknowledged: set[bytes] = set()
    stop = asyncio.Event()
    numbers = iter(range(10**9))

    async def send(producer: Producer) -> None:
        while not stop.is_set():
            body = b"%d" % next(numbers)
            try:
                await producer.send(Message("orders", body))
            except RocketqError:
                await asyncio.sleep(0.02)
            else:
                acknowledged.add(body)

    settings = (f"flushDiskType={flush}", f"mappedFileSizeCommitLog={1 << 22}")
    with restarting(tmp_path, *settings) as system:
        consumer = PushConsumer(
            "group",
            namesrv=system.namesrv,
            topics="orders",
            listener=received,
            consume_from="first",
            **QUICK,
        )
        async with Producer("senders", namesrv=system.namesrv) as producer:
            await producer.send(Message("orders", b"first"))
            acknowledged.add(b"first")
            async with consumer:
                sending = [asyncio.create_task(send(producer)) for _ in range(SENDERS)]
                for _ in range(KILLS):
                    await grown(acknowledged, chance.randrange(100, 600))
                    await asyncio.to_thread(system.kill)
                    await asyncio.to_thread(system.start)
                await grown(acknowledged, 100)
                stop.set()
                await asyncio.gather(*sending)
                await received.wait_for(acknowledged)


async def grown(acknowledged: set[bytes], more: int) -> None:
    wanted = len(acknowledged) + more
    await eventually(lambda: len(acknowledged) >= wanted, f"{more} more acknowledgements")
