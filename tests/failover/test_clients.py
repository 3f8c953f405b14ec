"""Producers and consumers of the SDK ride through the loss of a master."""

import asyncio
import itertools
import signal
from pathlib import Path

import pytest

from rocketq.aio import Message, Producer, PushConsumer
from rocketq.client.errors import ClientError
from rocketq.message.message import MessageExt
from tests.failover.processes import Member
from tests.failover.sets import broker_set
from tests.waiting import eventually


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
async def test_sends_and_reads_go_on_with_the_next_master(
    tmp_path: Path, fault: signal.Signals
) -> None:
    received: list[bytes] = []

    async def listen(messages: list[MessageExt]) -> None:
        received.extend(message.body for message in messages)

    async with broker_set(tmp_path) as brokers:
        master = brokers.member_at(await brokers.complete())
        acknowledged: list[bytes] = []
        began_after: list[float] = []
        loop = asyncio.get_running_loop()
        faulted_at = float("inf")
        stop = asyncio.Event()
        async with (
            Producer("producers", namesrv=brokers.namesrv, send_timeout_s=30) as producer,
            PushConsumer(
                "consumers",
                namesrv=brokers.namesrv,
                topics="orders",
                listener=listen,
                consume_from="first",
            ),
        ):

            async def send() -> None:
                for number in itertools.count():
                    if stop.is_set():
                        return
                    body = b"%d" % number
                    began = loop.time()
                    await producer.send(Message("orders", body))
                    acknowledged.append(body)
                    if began > faulted_at:
                        began_after.append(loop.time() - faulted_at)

            async def paced() -> None:
                """One that begins sends whether or not those before were answered."""
                while not stop.is_set():
                    sending.append(asyncio.ensure_future(one()))
                    await asyncio.sleep(0.02)

            async def one() -> None:
                began = loop.time()
                body = b"p%f" % began
                try:
                    await producer.send(Message("orders", body))
                except ClientError as error:
                    failed.append(str(error))
                    return
                acknowledged.append(body)
                if began > faulted_at:
                    began_after.append(loop.time() - faulted_at)

            sending: list[asyncio.Future[None]] = []
            failed: list[str] = []
            steady = [asyncio.create_task(send()), asyncio.create_task(paced())]
            await eventually(lambda: len(acknowledged) > 100, "some messages")
            faulted_at = loop.time()
            _strike(master, fault)
            await eventually(lambda: len(began_after) > 100, "the next master")
            stop.set()
            await asyncio.gather(*steady, *sending)
            if fault is signal.SIGSTOP:
                master.send_signal(signal.SIGCONT)
            assert not failed
            print(f"{fault.name}: {min(began_after):.3f} s", flush=True)
            await eventually(
                lambda: set(acknowledged) <= set(received), "every message to be consumed"
            )


def _strike(master: Member, fault: signal.Signals) -> None:
    if fault is signal.SIGKILL:
        master.end()
    else:
        master.send_signal(fault)
