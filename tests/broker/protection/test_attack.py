"""Hostile peers and honest clients at once: how long do the honest ones wait?

The short form runs a broker in a thread and measures each step of its loop in time of the
processor, which does not depend on what else the machine does: while a step runs, everybody
waits. The long form runs a broker as a process of its own, and measures what honest clients
see, and its memory. It wants a quiet machine.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker import Broker, BrokerConfig
from rocketq.remoting import Command, RemotingClient
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo
from rocketq.remoting.headers.access import CreateAcl, CreateUser
from rocketq.store import StoreConfig
from tests.broker.harness import pull_request, send_request
from tests.broker.protection.attacks import ATTACKS, attack, prepare
from tests.siege import besiege, server_process
from tests.steps import ATTEMPTS, Steps, measured_server


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[str]:
    broker = Broker(
        BrokerConfig(
            broker_name="attacked",
            broker_ip1="127.0.0.1",
            bind_address="127.0.0.1",
            listen_port=0,
            namesrv_addr="",
            enable_property_filter=True,
            max_made_per_connection=2_000,
            recall_message_enable=True,
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
    async with broker.serving():
        yield broker.address


LOCKED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"root-password"}',
}
ROOT = RequestSigner("root", "root-password")
MALLORY = RequestSigner("mallory", "mallory-password")


async def make_mallory(address: str) -> None:
    """A user like any other, who may do everything and is not a super user."""
    client = RemotingClient(hooks=[ROOT])
    user = UserInfo(password="mallory-password", user_type="Normal")
    entry = PolicyEntry(resource="*", actions=["All"], decision="Allow")
    acl = AclInfo(policies=[Policy(policy_type="Custom", entries=[entry])])
    for request in (
        Command.request(CreateUser(username="mallory"), user.encode()),
        Command.request(CreateAcl(subject="User:mallory"), acl.encode()),
    ):
        assert (await client.call(address, request, 30.0)).code == 0
    await client.close()


@pytest.mark.parametrize("settings", [{}, LOCKED], ids=["without users", "with users"])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_step_of_the_loop_keeps_the_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, Any]
) -> None:
    async def go(address: str, steps: Steps) -> None:
        if settings:
            await make_mallory(address)
        hooks = [MALLORY] if settings else []
        await prepare(address, hooks)
        steps.is_measuring = True
        under_attack = asyncio.create_task(attack(address, name, rounds=2, hooks=hooks))
        client = RemotingClient(hooks=[ROOT] if settings else [])
        try:
            while not under_attack.done():
                reply = await client.call(address, send_request("honest"), 60.0)
                assert reply.code == 0, reply
        finally:
            await client.close()
        await under_attack
        steps.is_measuring = False

    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"{attempt}"
        with measured_server(partial(serving, folder, **settings), monkeypatch) as (address, steps):
            asyncio.run(go(address, steps))
        if steps.are_short:
            return
    pytest.fail(str(steps))


# The long form


async def honest(address: str, waits: list[float], stop: asyncio.Event) -> None:
    """Sends a message and reads it back, a hundred times per second."""
    client = RemotingClient()
    try:
        offset = 0
        while not stop.is_set():
            began = time.perf_counter()
            sent = await client.call(address, send_request("honest", queue_id=1), 30.0)
            waits.append(time.perf_counter() - began)
            assert sent.code == 0, sent
            began = time.perf_counter()
            pulled = await client.call(address, pull_request("honest", offset, queue_id=1), 30.0)
            waits.append(time.perf_counter() - began)
            assert pulled.code == 0, pulled
            offset += 1
            await asyncio.sleep(0.01)
    finally:
        await client.close()


@pytest.mark.slow
def test_honest_clients_among_hostile_ones(tmp_path: Path) -> None:
    settings = {
        "storePathRootDir": str(tmp_path),
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "enablePropertyFilter": "true",
        "recallMessageEnable": "true",
        "mappedFileSizeCommitLog": str(64 << 20),
    }
    with server_process("broker", settings) as server:
        asyncio.run(prepare(server.address))
        besiege(server, "tests.broker.protection.attacks", list(ATTACKS), honest)
