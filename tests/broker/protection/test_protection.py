"""What keeps a broker alive: bounded memory, bounded waiting, failures that stay where they are."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.tables import topics
from rocketq.remoting import ResponseCode
from rocketq.store import FlushDiskType, MessageStore, PutStatus, StoreConfig
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request
from tests.waiting import eventually

MIB = 1 << 20


def unsent(broker: TestBroker) -> int:
    """Bytes the broker holds for peers that do not read them."""
    return sum(
        connection._transport.get_write_buffer_size()
        for connection in broker.broker.connections
        if connection._transport is not None
    )


async def test_a_consumer_that_does_not_read_holds_a_bounded_amount(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, mapped_file_size_commit_log=32 * MIB, write_buffer_high_water_mark=MIB
    ) as broker:
        await asyncio.gather(*(broker.send("big", b"x" * 100_000) for _ in range(100)))
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", broker.broker.port)) as deaf:
            deaf.setblocking(False)
            pull = b"".join(
                bytes(part)
                for part in pull_request("big", max_msg_nums=1000, max_msg_bytes=2**31 - 1).encode()
            )
            for _ in range(100):
                await loop.sock_sendall(deaf, pull)
            await eventually(lambda: unsent(broker) > 0)
            for _ in range(50):
                assert (await broker.send("big", b"others go on")).code == ResponseCode.SUCCESS

            # One answer of at most four megabytes may go beyond the mark.
            assert unsent(broker) <= 6 * MIB
            await loop.sock_recv(deaf, 100)


async def test_waiting_pulls_of_a_consumer_that_does_not_read_wait_on(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, mapped_file_size_commit_log=32 * MIB, write_buffer_high_water_mark=MIB // 4
    ) as broker:
        await broker.send("big")
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", broker.broker.port)) as deaf:
            deaf.setblocking(False)
            for group in range(300):
                request = pull_request(
                    "big",
                    1,
                    consumer_group=f"group-{group}",
                    sys_flag=6,
                    suspend_timeout_millis=15_000,
                    max_msg_bytes=2**31 - 1,
                )
                await loop.sock_sendall(deaf, b"".join(bytes(part) for part in request.encode()))
            await broker.pull("big")  # everything before it has been read
            await broker.send("big", b"x" * 200_000)
            await eventually(lambda: unsent(broker) > 0)
            for _ in range(20):
                await broker.send("big", b"y" * 1000)

            # 300 answers of 200 kB were due; few of them may lie here.
            assert unsent(broker) <= 4 * MIB

            received = 0
            while received < 300 * 200_000:
                received += len(await asyncio.wait_for(loop.sock_recv(deaf, MIB), 5))


async def test_sends_are_refused_while_too_many_wait_for_the_disk(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH, send_thread_pool_queue_capacity=50
    ) as broker:
        await broker.send("topic")
        replies = []
        for _ in range(10):
            run = [send_request("topic", b"%d" % n) for n in range(40)]
            replies += [broker.client.send(broker.address, request) for request in run]
            await asyncio.sleep(0)
        answers = await asyncio.gather(*replies)

        refused = [reply for reply in answers if reply.code != ResponseCode.SUCCESS]
        for reply in refused:
            assert reply.code == ResponseCode.SYSTEM_BUSY
            assert reply.remark == "[OVERLOAD]system busy, start flow control for a while"
        stored = len(await broker.messages("topic"))
        assert stored == 1 + len(answers) - len(refused)


class StubStore:
    """A store whose flush is finished by hand."""

    def __init__(self) -> None:
        self.future: asyncio.Future[PutStatus] | None = None

    def durable(self, position: int) -> asyncio.Future[PutStatus] | None:
        return self.future


async def test_waiting_acknowledgements_are_counted() -> None:
    store: Any = StubStore()
    live = LiveConfig(
        BrokerConfig(broker_name="b", send_thread_pool_queue_capacity=10), StoreConfig()
    )
    acknowledgements = Acknowledgements(live, store)
    answers: list[PutStatus] = []

    assert not acknowledgements.when_safe(1, 5, answers.append)  # nothing to wait for
    store.future = asyncio.get_running_loop().create_future()
    assert acknowledgements.when_safe(1, 5, answers.append)
    assert acknowledgements.when_safe(2, 5, answers.append)
    assert (acknowledgements.waiting, acknowledgements.is_full) == (10, True)
    store.future.set_result(PutStatus.FLUSH_DISK_TIMEOUT)
    await asyncio.sleep(0)

    assert answers == [PutStatus.FLUSH_DISK_TIMEOUT] * 2
    assert (acknowledgements.waiting, acknowledgements.is_full) == (0, False)


async def test_a_flush_that_takes_too_long_is_said_and_the_message_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
    late.set_result(PutStatus.FLUSH_DISK_TIMEOUT)
    monkeypatch.setattr(MessageStore, "durable", lambda self, position: late)
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as broker:
        for body in (b"first message of its topic", b"next"):
            reply = await broker.send("topic", body)
            assert reply.code == ResponseCode.FLUSH_DISK_TIMEOUT
            assert reply.ext_fields["msgId"]
            assert reply.ext_fields["TRACE_ON"] == "true"

        for offset in (0, 1):
            pulled = await broker.pull("topic", offset, sys_flag=6, suspend_timeout_millis=5000)
            assert pulled.code == ResponseCode.SUCCESS


async def test_one_request_that_fails_does_not_hurt_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no luck")

    async with running_broker(tmp_path) as broker:
        await broker.send("topic")
        monkeypatch.setattr(topics.Topics, "create_on_send", fail)
        requests = [send_request("topic"), send_request("fresh"), send_request("topic")]
        answers = await asyncio.gather(
            *(broker.client.send(broker.address, request) for request in requests)
        )

    assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_ERROR, 0]
    assert "no luck" in (answers[1].remark or "")
    assert "no luck" in caplog.text


async def test_a_broker_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            async with running_broker(tmp_path, listen_port=port):
                raise AssertionError("it started")


async def test_a_broker_can_be_started_again_on_what_it_left(tmp_path: Path) -> None:
    for round_ in range(3):
        async with running_broker(tmp_path) as broker:
            await broker.send("topic", b"%d" % round_)
            bodies = [message.body for message in await broker.messages("topic")]
            assert bodies == [b"%d" % n for n in range(round_ + 1)]
