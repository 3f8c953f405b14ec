"""Mutated frames of every kind over real sockets, plain and encrypted, with users and without.

A broker takes them all without an exception that nobody has foreseen, without a step of its loop
that others would notice, and without keeping anything of those who sent them. The long form
sends a million; ROCKETQ_FUZZ_FRAMES and ROCKETQ_FUZZ_SEED cut it into pieces.
"""

import asyncio
import contextlib
import logging
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker import Broker, BrokerConfig
from rocketq.remoting import Command, RemotingClient
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.errors import BadFrame
from rocketq.remoting.tls import ClientTls
from rocketq.remoting.wire.frame import decode_frame
from rocketq.store import StoreConfig
from tests.broker.harness import send_request
from tests.remoting.golden import recorded
from tests.remoting.wire.test_fuzz import mutated
from tests.steps import ATTEMPTS, Steps, measured_server
from tests.waiting import eventually

ROOT = RequestSigner("root", "root-password")
LOCKED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"root-password"}',
}
FRAMES_PER_CONNECTION = 40

# A broker under test keeps its settings: a value that a mutation has made may be a lawful one.
CHANGES_SETTINGS = {25}


def seeds() -> list[bytes]:
    return [
        each.frame
        for capture in ("json", "binary-all", "binary-client", "v4.9.8")
        for each in recorded(capture)
        if each.kind != "response" and each.header["code"] not in CHANGES_SETTINGS
    ]


def signed(frame: bytes) -> bytes:
    """The same frame signed by a user, so that what is wrong with it gets past the guard."""
    try:
        command = decode_frame(frame)
        if command.code in CHANGES_SETTINGS:
            return frame
        ROOT.before_request("", command)
        return b"".join(command.encode())
    except (BadFrame, ValueError, UnicodeError):
        return frame


@asynccontextmanager
async def serving(folder: Path, brokers: list[Broker], **settings: Any) -> AsyncIterator[str]:
    broker = Broker(
        BrokerConfig(
            broker_name="fuzzed",
            broker_ip1="127.0.0.1",
            bind_address="127.0.0.1",
            listen_port=0,
            namesrv_addr="",
            **settings,
        ),
        StoreConfig(
            store_path_root_dir=str(folder),
            mapped_file_size_commit_log=8 << 20,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=1_000,
            max_index_num=40_000,
        ),
    )
    brokers.append(broker)
    async with broker.serving():
        yield broker.address


async def throw(address: str, pieces: list[bytes], tls: ssl.SSLContext | None = None) -> None:
    """One connection's worth: everything is sent, and what comes back is read to the end."""
    host, port = address.split(":")
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                if tls is None:
                    writer.write_eof()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        while await reader.read(65_536):
                            pass
            finally:
                writer.close()


async def frames(address: str, chance: random.Random, count: int, *, sign: bool) -> None:
    frames = seeds()
    tls = ClientTls().context()
    for _ in range(count // FRAMES_PER_CONNECTION):
        pieces = [mutated(chance.choice(frames), chance) for _ in range(FRAMES_PER_CONNECTION)]
        if sign:
            pieces = [signed(piece) if chance.random() < 0.7 else piece for piece in pieces]
        await throw(address, pieces, tls if chance.random() < 0.2 else None)


async def records(address: str, chance: random.Random, count: int) -> None:
    """Handshakes with something wrong in them, and encrypted frames that were damaged."""
    host, port = address.split(":")
    for _ in range(count):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        machine = ClientTls().context().wrap_bio(incoming, outgoing)
        damaged_step = chance.randrange(4)
        with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    for step in range(4):
                        try:
                            machine.do_handshake()
                            machine.write(b"".join(Command(11, opaque=1).encode()))
                        except ssl.SSLWantReadError:
                            pass
                        out = outgoing.read()
                        writer.write(mutated(out, chance) if step == damaged_step and out else out)
                        await writer.drain()
                        async with asyncio.timeout(0.1):
                            incoming.write(await reader.read(65_536))
                finally:
                    writer.close()


async def honest(address: str, stop: asyncio.Event, *, sign: bool) -> None:
    client = RemotingClient(hooks=[ROOT] if sign else [])
    try:
        while not stop.is_set():
            reply = await client.call(address, send_request("honest"), 60.0)
            assert reply.code == 0, reply
            await asyncio.sleep(0.005)
    finally:
        await client.close()


async def besiege(address: str, steps: Steps, count: int, seed: int, *, sign: bool) -> None:
    stop = asyncio.Event()
    bystander = asyncio.create_task(honest(address, stop, sign=sign))
    chance = random.Random(seed)
    steps.is_measuring = True
    await asyncio.gather(
        frames(address, random.Random(chance.random()), count * 9 // 20, sign=sign),
        frames(address, random.Random(chance.random()), count * 9 // 20, sign=sign),
        records(address, random.Random(chance.random()), count // 100),
    )
    steps.is_measuring = False
    stop.set()
    await bystander


def unforeseen(log: pytest.LogCaptureFixture) -> list[str]:
    return [
        f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}"
        for record in log.records
        if record.levelno >= logging.ERROR
    ]


def run_against(
    make: Callable[[Path], Callable[[], Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    brokers: list[Broker],
    count: int,
    *,
    sign: bool,
    seed: int = 0,
) -> None:
    for attempt in range(seed, seed + ATTEMPTS):
        serve = make(tmp_path / f"{attempt}")
        with measured_server(serve, monkeypatch) as (address, steps):
            asyncio.run(besiege(address, steps, count, attempt, sign=sign))
            asyncio.run(_nobody_is_left(brokers[-1]))
        assert not unforeseen(caplog)
        if steps.are_short:
            return
    pytest.fail(str(steps))


async def _nobody_is_left(broker: Broker) -> None:
    await eventually(lambda: not broker.connections, "all connections to go")


@pytest.mark.parametrize("sign", [False, True], ids=["without users", "with users"])
def test_mutated_frames_and_records(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sign: bool,
) -> None:
    brokers: list[Broker] = []
    settings = LOCKED if sign else {}
    run_against(
        lambda folder: partial(serving, folder, brokers, **settings),
        *(tmp_path, monkeypatch, caplog, brokers, 10_000),
        sign=sign,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sign", [False, True], ids=["without users", "with users"])
def test_a_million_mutated_frames_and_records(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sign: bool,
) -> None:
    brokers: list[Broker] = []
    settings = LOCKED if sign else {}
    count = int(os.environ.get("ROCKETQ_FUZZ_FRAMES", "500000"))
    run_against(
        lambda folder: partial(serving, folder, brokers, **settings),
        *(tmp_path, monkeypatch, caplog, brokers, count),
        sign=sign,
        seed=int(os.environ.get("ROCKETQ_FUZZ_SEED", "0")),
    )
