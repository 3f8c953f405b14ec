"""Rounds of kill -9 of master or slave and of bad links, under load, with SYNC_MASTER.

What has to hold, whatever happens: nothing acknowledged is lost, nothing is there that nobody
sent, the messages of a queue lie in the order of their numbers, and at every moment the slave's
log is the beginning of the master's.
"""

import asyncio
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import PullMessageResponse, SendMessageResponse
from tests.broker.harness import pull_request, send_request
from tests.broker.replication.pairs import name_server
from tests.client.cutting_proxy import CuttingProxy
from tests.waiting import eventually

QUEUES = 4
SENDERS = 16
FILE_SIZE = 1 << 20


def quiet_ports(chance: random.Random, count: int) -> list[int]:
    """Ports that no connection is given as its own while their broker is dead.

    Among those that the system hands out, somebody who tries to connect to a dead broker may
    get the very port, and then keeps the broker from coming back.
    """
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(20_000, 32_000, 10)
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            try:
                for each, distance in ((one, 0), (two, -2), (three, 1)):
                    each.bind(("127.0.0.1", port + distance))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


class Member:
    """A broker in a process of its own, that can be killed and started again."""

    def __init__(self, folder: Path, port: int, namesrv: str, settings: dict[str, object]) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        words = [sys.executable, "-m", "rocketq.cli", "broker", "-n", namesrv]
        for key, value in {
            "brokerName": "broker-a",
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "storePathRootDir": folder,
            "mappedFileSizeCommitLog": FILE_SIZE,
            "slaveReadEnable": "true",
            **settings,
        }.items():
            words += ["--set", f"{key}={value}"]
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        log = open(self.folder.with_suffix(".log"), "ab")  # noqa: SIM115, ASYNC230
        self._process = subprocess.Popen(  # noqa: ASYNC220
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
        log.close()
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line.startswith(b"ready"), self.folder.with_suffix(".log").read_text()

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.send_signal(number)
            self._process.wait(30)
            self._process.stdout.close()
            self._process = None


class Load:
    """Senders that go on through everything, and what they were told."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.sent: set[bytes] = set()
        self._client = RemotingClient()
        self._number = 0

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as senders:
            for queue_id in range(SENDERS):
                senders.create_task(self._send(queue_id % QUEUES, stop))
        await self._client.close()

    async def _send(self, queue_id: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._number += 1
            body = b"%08d" % self._number + b"." * (self._number % 300)
            self.sent.add(body)
            try:
                reply = await self._client.call(
                    self.address, send_request("orders", body, queue_id), 3.0
                )
            except RemotingError:
                await asyncio.sleep(0.02)
                continue
            if reply.code == ResponseCode.SUCCESS:
                place = reply.header(SendMessageResponse)
                key = (place.queue_id, place.queue_offset)
                assert key not in self.acknowledged, f"{key} was given twice"
                self.acknowledged[key] = body


async def log_range(client: RemotingClient, member: Member) -> tuple[int, int]:
    request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = KVTable.decode((await client.call(member.address, request, 5.0)).body).table
    return int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])


def is_beginning(slave: Path, master: Path, end: int) -> bool:
    """Whether the slave's files up to its end are those of the master."""
    for start in range(0, end, FILE_SIZE):
        name, size = f"{start:020d}", min(FILE_SIZE, end - start)
        ours = (slave / "commitlog" / name).read_bytes()[:size]
        if ours != (master / "commitlog" / name).read_bytes()[:size]:
            return False
    return True


async def everything(client: RemotingClient, member: Member) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    for queue_id in range(QUEUES):
        at = 0
        while True:
            request = pull_request("orders", at, queue_id=queue_id, max_msg_nums=1000)
            reply = await client.call(member.address, request, 10.0)
            if reply.code != ResponseCode.SUCCESS:
                break
            for message in decode_records(reply.body):
                assert message.queue_offset == at, "a number is missing, or out of order"
                found[queue_id, at] = bytes(message.body)
                at += 1
            assert reply.header(PullMessageResponse).next_begin_offset == at
    return found


async def rounds(folder: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)
    master_port, slave_port = quiet_ports(random.Random(), 2)
    async with name_server(folder) as namesrv:
        proxy = CuttingProxy(f"127.0.0.1:{master_port + 1}", seed)
        await proxy.start()
        settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 1000}
        master = Member(folder / "master", master_port, namesrv.address, settings)
        settings = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": proxy.address}
        slave = Member(folder / "slave", slave_port, namesrv.address, settings)
        load, stop, client = Load(master.address), asyncio.Event(), RemotingClient()
        try:
            await master.start()
            await slave.start()
            loading = asyncio.create_task(load.run(stop))

            async def more(than: int, many: int = 200) -> None:
                await eventually(
                    lambda: loading.done() or len(load.acknowledged) > than + many,
                    "more acknowledgements",
                    within_s=60,
                )
                if loading.done():
                    await loading

            await more(0)
            for _ in range(count):
                what = chance.choice(["master", "slave", "cut", "trickle", "delay"])
                if what == "cut":
                    proxy.cut_all()
                elif what == "trickle":
                    proxy.budget = 20_000
                    proxy.cut_all()
                    await asyncio.sleep(0.5)
                    proxy.budget = None
                    proxy.cut_all()
                elif what == "delay":
                    proxy.delay_s = chance.choice([0.02, 0.1, 1.5])  # the last: too late to count
                    await asyncio.sleep(1.0)
                    if chance.random() < 0.5:
                        slave.end()  # while much is on its way
                        await slave.start()
                    proxy.delay_s = 0.0
                else:
                    member = master if what == "master" else slave
                    member.end()
                    await member.start()
                await more(len(load.acknowledged))
                _, end = await log_range(client, slave)
                assert is_beginning(slave.folder, master.folder, end), what
            stop.set()
            await loading

            async def is_equal() -> bool:
                with suppress(RemotingError):
                    return await log_range(client, master) == await log_range(client, slave)
                return False

            await eventually(is_equal, "equal logs")
            _, end = await log_range(client, slave)
            assert is_beginning(slave.folder, master.folder, end)
            on_slave = await everything(client, slave)
            assert on_slave == await everything(client, master)
            lost = load.acknowledged.items() - on_slave.items()
            assert not lost, f"{len(lost)} acknowledged messages are lost"
            assert set(on_slave.values()) <= load.sent, "something was invented"
        finally:
            stop.set()
            await client.close()
            for member in (slave, master):
                member.end()
            await proxy.stop()


async def test_nothing_acknowledged_is_lost_in_10_rounds(tmp_path: Path) -> None:
    await rounds(tmp_path, 10, seed=16)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_in_100_rounds(tmp_path: Path) -> None:
    await rounds(tmp_path, 100, seed=int.from_bytes(random.randbytes(4)))
