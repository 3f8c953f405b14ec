"""A broker that stops: nobody who sends meanwhile is refused, nothing that was said is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketq.aio import Message, Producer
from rocketq.common import json
from rocketq.namesrv import NameServer
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.codes import Version
from rocketq.remoting.headers import UpdateConsumerOffset
from rocketq.store.config import BrokerRole, FlushDiskType
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request
from tests.broker.replication import pairs
from tests.store.disks import SlowDisk
from tests.waiting import eventually


class Sender:
    """Sends one message after another, several at a time, and remembers what was refused."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[BaseException] = []
        self._producer = producer
        self._topic = topic
        self._is_wanted = True

    async def run(self) -> None:
        while self._is_wanted:
            try:
                sent = await self._producer.send(Message(self._topic, b"x"))
                self.acknowledged.append(sent.msg_id)
            except Exception as error:
                self.refused.append(error)

    def end(self) -> None:
        self._is_wanted = False


@asynccontextmanager
async def senders(namesrv: str, topic: str, count: int = 4) -> AsyncIterator[list[Sender]]:
    async with Producer("senders", namesrv=namesrv) as producer:
        found = [Sender(producer, topic) for _ in range(count)]
        tasks = [asyncio.ensure_future(each.run()) for each in found]
        try:
            yield found
        finally:
            for each in found:
                each.end()
            await asyncio.gather(*tasks)


async def goes_on(found: list[Sender], count: int = 200) -> None:
    """Wait until each has sent so many more."""
    wanted = [len(each.acknowledged) + count // len(found) for each in found]
    await eventually(
        lambda: all(
            len(each.acknowledged) >= number or each.refused
            for each, number in zip(found, wanted, strict=True)
        )
    )


async def spread(name_server: NameServer, topic: str, brokers: list[TestBroker]) -> None:
    """Make a topic on every broker by sending to each, and wait until the route has all."""
    for broker in brokers:
        assert (await broker.send(topic)).code == 0

    def is_known() -> bool:
        names = name_server.registry.brokers
        serving = [name for name in names if topic in name_server.registry.topics_of_broker(name)]
        return len(serving) == len(brokers)

    await eventually(is_known)


async def test_nobody_is_refused_when_one_of_two_brokers_stops(tmp_path: Path) -> None:
    async with (
        pairs.name_server(tmp_path) as namesrv,
        pairs.broker(tmp_path / "b", namesrv.address, broker_name="broker-b") as other,
        pairs.broker(tmp_path / "a", namesrv.address, broker_name="broker-a") as stopping,
    ):
        await spread(namesrv, "orders", [stopping, other])
        async with senders(namesrv.address, "orders") as found:
            await goes_on(found)
            await stopping.broker.stop()
            await goes_on(found)
        assert [each.refused for each in found] == [[]] * len(found)


async def test_a_rolling_restart_of_a_replicated_cluster_refuses_nothing(tmp_path: Path) -> None:
    """Two masters with a slave each; every one of the four is stopped and started again."""
    async with pairs.name_server(tmp_path) as namesrv:
        options = {"broker_role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 2}

        def start(name: str, slave_id: int, port: int = 0) -> pairs.Started:
            role = {} if slave_id else options
            folder = tmp_path / f"{name}-{slave_id}"
            return pairs.Started(
                folder,
                namesrv.address,
                slave_id=slave_id,
                broker_name=name,
                listen_port=port,
                enable_auto_in_sync_replicas=True,
                **role,
            )

        members = [
            start(name, slave_id) for slave_id in (0, 1) for name in ("broker-a", "broker-b")
        ]
        try:
            for member in members:
                await member.start()
            masters = [member.running for member in members[:2]]
            await spread(namesrv, "orders", masters)
            async with senders(namesrv.address, "orders") as found:
                await goes_on(found)
                # Slaves first, as docs/operations.md says.
                for number in (2, 3, 0, 1):
                    await members[number].restart()
                    await goes_on(found)
            assert [each.refused for each in found] == [[]] * len(found)
            stored = sum(
                [
                    len(await member.running.messages("orders", queue_id))
                    for member in members[:2]
                    for queue_id in range(8)
                ]
            )
            assert stored >= sum(len(each.acknowledged) for each in found)
        finally:
            for member in reversed(members):
                await member.stop()


async def test_new_work_is_sent_away_and_old_work_is_taken(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("orders")
        connection = broker.client.connection_to(broker.address)
        assert connection is not None
        stopping = asyncio.ensure_future(broker.broker.stop())
        answers = [
            connection.start_call(request(), 5)
            for request in (_send, _old_send, _pull, _commit)
            for _ in range(1)
        ]
        await asyncio.sleep(0)
        replies = await asyncio.gather(*answers)
        await stopping
        codes = [reply.code for reply in replies]
        # The first may have come before the broker said goodbye.
        assert codes[0] in (ResponseCode.SUCCESS, ResponseCode.GO_AWAY)
        assert codes[1] == ResponseCode.SUCCESS
        assert codes[3] == ResponseCode.SUCCESS
    stored = json.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())
    assert stored["offsetTable"]["orders@group"] == {"0": 1}


def _send() -> Command:
    return send_request("orders")


def _old_send() -> Command:
    request = send_request("orders")
    request.version = Version.V4_9_8
    return request


def _pull() -> Command:
    return pull_request("orders", 0)


def _commit() -> Command:
    header = UpdateConsumerOffset(
        consumer_group="group", topic="orders", queue_id=0, commit_offset=1
    )
    return Command.request(header)


async def test_who_waits_for_the_disk_is_answered_before_the_end(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with running_broker(
        tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH
    ) as broker:
        assert (await broker.send("orders")).code == 0
        disk.gate.clear()
        sending = asyncio.ensure_future(broker.send("orders"))
        await eventually(disk.is_waiting.is_set)
        stopping = asyncio.ensure_future(broker.broker.stop())
        await asyncio.sleep(0.1)
        assert not sending.done()
        disk.gate.set()
        assert (await sending).code == ResponseCode.SUCCESS
        await stopping


@pytest.mark.parametrize("is_new", [True, False])
async def test_who_knows_the_word_is_told_to_go(tmp_path: Path, is_new: bool) -> None:
    """Requests that keep coming while the broker stops: a new client is told, an old one served."""
    request: Callable[[], Command] = _send if is_new else _old_send
    async with running_broker(tmp_path) as broker:
        await broker.send("orders")
        connection = broker.client.connection_to(broker.address)
        assert connection is not None
        stopping = asyncio.ensure_future(broker.broker.stop())
        codes = []
        while not stopping.done() and not connection.is_closing:
            try:
                codes.append((await connection.call(request(), 5)).code)
            except Exception:
                break
        await stopping
    assert (ResponseCode.GO_AWAY in codes) == is_new
