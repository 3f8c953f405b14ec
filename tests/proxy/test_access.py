"""Who may, over gRPC: signatures, rights, TLS on the same port."""

import asyncio
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from rocketq.proxy.access import credential, needs
from rocketq.proxy.http2.connection import PREFACE
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused
from rocketq.remoting import Command
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo
from rocketq.remoting.headers.access import CreateAcl, CreateUser
from rocketq.remoting.headers.topics import CreateTopic
from tests.proxy.bare_client import Client
from tests.proxy.harness import BEFORE, HERE, Place, place
from tests.proxy.test_http2 import DATA, END_HEADERS, END_STREAM, HEADERS, Raw, headers, message
from tests.waiting import eventually

LOCKED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"rootpass"}',
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"innerpass"}',
}
WHEN = "20260101T000000Z"


def signature(secret: str) -> str:
    return hmac.digest(secret.encode(), WHEN.encode(), hashlib.sha1).hex()


def test_signatures_are_those_of_rocketmq() -> None:
    assert signature("12345678") == "744d438196af86606d44b8c9a7c8e0e0b2ffb22b"


@pytest.mark.parametrize(
    ("given", "user"),
    [
        ("MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time, Signature=AB", "ak"),
        ("MQv2-HMAC-SHA1 Credential=ak//Rocketmq, SignedHeaders=x, Signature=AB", "ak"),
        ("MQv2-HMAC-SHA1 Credential=ak/cn/svc, SignedHeaders=x, Signature=AB", "ak"),
        ("MQv2-HMAC-SHA1 Credential=, SignedHeaders=x, Signature=AB", ""),
        ("junk", ""),
        ("", ""),
    ],
)
def test_each_clients_form_is_read(given: str, user: str) -> None:
    assert credential({"authorization": given})[0] == user


@pytest.fixture(params=[HERE, BEFORE])
async def locked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path, request.param, proxy=LOCKED, **LOCKED) as running:
        signer = RequestSigner("root", "rootpass")

        async def admin(command: Command) -> None:
            signer.before_request("", command)
            reply = await running.broker.call(command)
            assert reply.code == 0, reply

        for name, entries in (
            ("sender", [("Topic:t", "Pub")]),
            ("reader", [("Topic:t", "Sub"), ("Group:g", "Sub")]),
        ):
            info = UserInfo(password=name + "pass", user_type="Normal")
            await admin(Command.request(CreateUser(username=name), info.encode()))
            policy = Policy(
                policy_type="Custom",
                entries=[
                    PolicyEntry(resource=resource, actions=[action], decision="Allow")
                    for resource, action in entries
                ],
            )
            body = AclInfo(policies=[policy]).encode()
            await admin(Command.request(CreateAcl(subject=f"User:{name}"), body))
        yield running


def client_of(at: Place, user: str, secret: str | None = None, form: str = "{}") -> Client:
    text = (
        f"MQv2-HMAC-SHA1 Credential={form.format(user)}, SignedHeaders=x-mq-date-time, "
        f"Signature={signature(secret or user + 'pass')}"
    )
    client = at.client()
    client.metadata |= {"authorization": text, "x-mq-date-time": WHEN}
    return client


async def make_topic(at: Place) -> None:
    command = Command.request(
        CreateTopic(
            topic="t",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            attributes="+message.type=NORMAL",
        )
    )
    RequestSigner("root", "rootpass").before_request("", command)
    assert (await at.broker.call(command)).code == 0


async def test_each_does_what_it_may(locked: Place) -> None:
    await make_topic(locked)
    sender, reader = client_of(locked, "sender"), client_of(locked, "reader")
    go = client_of(locked, "sender", form="{}//Rocketmq")
    assert (await sender.send("t")).status.code == pb.OK
    assert (await go.send("t")).status.code == pb.OK
    assert (await reader.send("t")).status.code == pb.UNAUTHORIZED
    route = pb.QueryRouteRequest(topic=pb.Resource(name="t"))
    for client in (sender, reader):
        assert (await client.call("QueryRoute", route)).status.code == pb.OK
    assert (await sender.receive("t", "g")).code == pb.UNAUTHORIZED
    received = await reader.receive("t", "g")
    assert received.code == pb.OK
    assert (await reader.ack("t", "g", *received.messages)).status.code == pb.OK
    assert (await sender.ack("t", "g", *received.messages)).status.code == pb.UNAUTHORIZED
    assert (await reader.receive("t", "other")).code == pb.UNAUTHORIZED


@pytest.mark.parametrize("rpc", sorted(pb.rpcs))
def test_every_rpc_needs_a_right(rpc: str) -> None:
    request_class, _ = pb.rpcs[rpc]
    request = request_class()
    if rpc == "SendMessage":
        request.messages.add(topic=pb.Resource(name="t"))
    elif rpc == "Telemetry":
        request.settings.subscription.group.name = "g"
    elif rpc == "NotifyClientTermination":
        request.group.name = "g"
    assert list(needs(rpc, request))


def test_what_has_no_rule_is_for_super_users() -> None:
    with pytest.raises(Refused):
        list(needs("SomethingNew", None))


async def test_each_refusal_is_told_once_a_second(
    locked: Place, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = locked.client()
    with caplog.at_level("INFO", "rocketq.audit"):
        for _ in range(20):
            await stranger.send("t")
        await eventually(
            lambda: sum(record.__dict__["times"] for record in caplog.records) >= 20,
            "all of them to be counted",
        )
    assert {record.__dict__["rpc"] for record in caplog.records} == {"SendMessage"}
    assert len(caplog.records) < 20


async def test_strangers_are_refused(locked: Place) -> None:
    await make_topic(locked)
    forger = locked.client(x_mq_authorization_ak="root")
    for client in (
        locked.client(),
        forger,
        client_of(locked, "sender", "wrong"),
        client_of(locked, "nobody"),
        client_of(locked, ""),
    ):
        answer = await client.send("t")
        assert answer.status.code == pb.UNAUTHORIZED
        assert answer.status.message
    stranger = locked.client()
    stream = stranger.telemetry()
    await stream.write(pb.TelemetryCommand(settings=stranger.producer_settings("t")))
    assert (await stream.read()).status.code == pb.UNAUTHORIZED
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK
    known = client_of(locked, "sender")
    await known.introduce(known.producer_settings("t"))


# TLS


async def test_tls_and_plaintext_share_a_port(at: Place) -> None:
    plain = at.client()
    await at.create_topic("t")
    assert (await plain.send("t")).status.code == pb.OK
    host, port = at.target.rsplit(":", 1)
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    assert "BEGIN CERTIFICATE" in pem


async def test_a_grpc_client_is_served_over_tls(at: Place) -> None:
    host, port = at.target.rsplit(":", 1)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    tls = writer.get_extra_info("ssl_object")
    assert tls.selected_alpn_protocol() == "h2"
    writer.write(PREFACE + b"\0\0\0\4\0\0\0\0\0")
    async with asyncio.timeout(30):
        head = await reader.readexactly(9)
    assert head[3] == 4  # SETTINGS
    writer.close()


async def test_tls_without_http2_is_hung_up_on(at: Place) -> None:
    host, port = at.target.rsplit(":", 1)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    async with asyncio.timeout(30):
        assert await reader.read(-1) == b""
    writer.close()


async def test_a_trusted_proxy_says_who_it_is(tmp_path: Path) -> None:
    trusted = {"proxy_protocol_addresses": "127.0.0.1"}
    async with place(tmp_path, HERE, proxy=trusted) as at:
        await at.create_topic("t", queues=1)
        raw = Raw(*await asyncio.open_connection("127.0.0.1", at.server.port))
        raw.write_bytes(b"PROXY TCP4 10.9.8.7 127.0.0.1 4321 8081\r\n")
        raw.write_bytes(PREFACE)
        raw.write(4, 0, 0, b"")
        raw.write(HEADERS, END_HEADERS, 1, headers("SendMessage"))
        sent = at.client().message("t")
        raw.write(DATA, END_STREAM, 1, message(pb.SendMessageRequest(messages=[sent])))
        await raw.until(HEADERS, flags=END_STREAM)
        (record,) = await at.broker.messages("t")
        assert record.get_property("__BORNHOST") == "10.9.8.7:4321"
        assert record.born_host == ("10.9.8.7", 4321)
        await raw.close()
