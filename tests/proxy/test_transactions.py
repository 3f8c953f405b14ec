"""EndTransaction, and what becomes of transactions that nobody ended."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.server import GrpcServer
from tests.proxy.bare_client import Client
from tests.proxy.harness import BEFORE, HERE, Place, place


async def half(client: Client, body: bytes = b"half", recovery_s: int | None = None) -> Any:
    message = client.message("t", body, message_type=pb.TRANSACTION)
    if recovery_s is not None:
        duration = message.system_properties.orphaned_transaction_recovery_duration
        duration.FromSeconds(recovery_s)
    answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
    assert answer.status.code == pb.OK, answer
    return answer.entries[0]


async def end(client: Client, entry: Any, resolution: int, **more: Any) -> Any:
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="t"),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=resolution,
        source=pb.SOURCE_CLIENT,
    )
    for name, value in more.items():
        setattr(request, name, value)
    return await client.call("EndTransaction", request)


async def test_a_transaction_is_committed_or_rolled_back(at: Place, client: Client) -> None:
    await at.create_topic("t", "TRANSACTION")
    await at.create_group("g")
    committed = await half(client, b"yes")
    rolled_back = await half(client, b"no")
    assert (await end(client, rolled_back, pb.ROLLBACK)).status.code == pb.OK
    undecided = await end(client, committed, pb.TRANSACTION_RESOLUTION_UNSPECIFIED)
    assert undecided.status.code == pb.OK
    assert (await end(client, committed, pb.COMMIT)).status.code == pb.OK
    received = await client.receive("t", "g")
    assert received.bodies == [b"yes"]
    assert (await client.receive("t", "g")).bodies == []


async def test_a_transaction_ends_once(at: Place, client: Client) -> None:
    """Said again it is as before; another decision comes too late."""
    await at.create_topic("t", "TRANSACTION")
    await at.create_group("g")
    entry = await half(client, b"yes")
    for _ in range(3):
        assert (await end(client, entry, pb.COMMIT)).status.code == pb.OK
    too_late = await end(client, entry, pb.ROLLBACK)
    assert too_late.status.code == pb.INVALID_TRANSACTION_ID
    assert (await client.receive("t", "g")).bodies == [b"yes"]
    assert (await client.receive("t", "g")).bodies == []


async def test_a_transaction_needs_its_id(at: Place, client: Client) -> None:
    await at.create_topic("t", "TRANSACTION")
    entry = await half(client)
    for transaction_id in ("", " ", "junk", "dDEg", entry.message_id):
        answer = await end(client, entry, pb.COMMIT, transaction_id=transaction_id)
        assert answer.status.code == pb.INVALID_TRANSACTION_ID


async def test_a_decision_that_did_not_happen_says_so(at: Place, client: Client) -> None:
    """Whoever ends a transaction of another topic, or one that never was, is told."""
    await at.create_topic("t", "TRANSACTION")
    await at.create_topic("u", "TRANSACTION")
    entry = await half(client)
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="u"),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=pb.COMMIT,
    )
    answer = await client.call("EndTransaction", request)
    assert answer.status.code == pb.INTERNAL_SERVER_ERROR


async def test_too_long_a_recovery_is_refused(at: Place, client: Client) -> None:
    await at.create_topic("t", "TRANSACTION")
    message = client.message("t", message_type=pb.TRANSACTION)
    message.system_properties.orphaned_transaction_recovery_duration.FromSeconds(3601)
    answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
    assert answer.status.code == pb.BAD_REQUEST


async def test_any_proxy_ends_it(at: Place, client: Client) -> None:
    await at.create_topic("t", "TRANSACTION")
    await at.create_group("g")
    entry = await half(client, b"yes")
    config = ProxyConfig(
        grpc_server_port=0,
        bind_address="127.0.0.1",
        namesrv_addr=at.broker.broker.config.namesrv_addr,
    )
    async with GrpcServer(config).serving() as other:
        elsewhere = Client(f"127.0.0.1:{other.port}")
        assert (await end(elsewhere, entry, pb.COMMIT)).status.code == pb.OK
        await elsewhere.close()
    assert (await client.receive("t", "g")).bodies == [b"yes"]


@pytest.fixture(params=[HERE, BEFORE])
async def asking(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A place whose broker soon asks what became of a transaction."""
    soon: dict[str, Any] = {"transaction_time_out": 500, "transaction_check_interval": 500}
    async with place(tmp_path, request.param, **soon) as running:
        yield running


@pytest.mark.parametrize("source", [pb.SOURCE_SERVER_CHECK, pb.SOURCE_UNSPECIFIED])
async def test_an_orphan_is_asked_about_and_committed(asking: Place, source: int) -> None:
    client = asking.client()
    await asking.create_topic("t", "TRANSACTION")
    await asking.create_group("g")
    introduced = await client.introduce(client.producer_settings("t"))
    entry = await half(client, b"orphan", recovery_s=1)
    command = (await introduced.next()).recover_orphaned_transaction_command
    assert command.message.body == b"orphan"
    assert command.message.topic.name == "t"
    assert command.message.system_properties.message_id == entry.message_id
    assert command.transaction_id
    answer = await end(
        client, entry, pb.COMMIT, transaction_id=command.transaction_id, source=source
    )
    assert answer.status.code == pb.OK
    assert (await client.receive("t", "g", poll_s=5)).bodies == [b"orphan"]


async def test_another_producer_of_the_topic_is_asked(asking: Place) -> None:
    client, other = asking.client(), asking.client()
    await asking.create_topic("t", "TRANSACTION")
    await half(client, b"orphan")
    await client.close()
    introduced = await other.introduce(other.producer_settings("t"))
    command = (await introduced.next()).recover_orphaned_transaction_command
    assert command.message.body == b"orphan"
