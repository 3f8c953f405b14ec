"""Users and rights over the wire: nobody gets in who does not belong."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker import BrokerConfig
from rocketq.broker.access import BROKER_RULES
from rocketq.common.config import ConfigError
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RemotingClient,
    RequestCode,
    ResponseCode,
)
from rocketq.remoting.access import RequestSigner, signature
from rocketq.remoting.bodies.access import (
    AclInfo,
    Policy,
    PolicyEntry,
    UserInfo,
    decode_acls,
    decode_users,
)
from rocketq.remoting.headers import GetConsumerRunningInfo
from rocketq.remoting.headers.access import (
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
)
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request
from tests.waiting import eventually

TOPIC = "BenchmarkTest"
LOCKED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"rootpass"}',
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with running_broker(tmp_path, **LOCKED) as running:
        yield running


@contextmanager
def signed(request: Command, user: str, secret: str) -> Iterator[Command]:
    RequestSigner(user, secret).before_request("", request)
    yield request


async def call_as(
    broker: TestBroker, request: Command, user: str = "root", secret: str = "rootpass"
) -> Command:
    with signed(request, user, secret) as ready:
        return await broker.call(ready)


async def make_user(
    broker: TestBroker, name: str, *entries: tuple[str, str], kind: str = "Normal"
) -> None:
    info = UserInfo(password=name + "pass", user_type=kind)
    reply = await call_as(broker, Command.request(CreateUser(username=name), info.encode()))
    assert reply.code == ResponseCode.SUCCESS, reply
    if entries:
        policy = Policy(
            policy_type="Custom",
            entries=[
                PolicyEntry(resource=resource, actions=actions.split("|"), decision="Allow")
                for resource, actions in entries
            ],
        )
        body = AclInfo(policies=[policy]).encode()
        reply = await call_as(broker, Command.request(CreateAcl(subject=f"User:{name}"), body))
        assert reply.code == ResponseCode.SUCCESS, reply


def test_signatures_are_those_of_rocketmq() -> None:
    fields = {"topic": "TopicA", "AccessKey": "rocketmq2"}
    assert signature(fields, b"", b"12345678") == "yvZvKMqXR7E4uBCgkiiGE2OZ9Zg="
    assert signature(fields, b"hello", b"12345678") == "CLWlAOdV2SOUQYi+6SjfwmrW+O0="


async def test_nobody_sends_without_a_user(broker: TestBroker) -> None:
    reply = await broker.send(TOPIC)
    assert reply.code == ResponseCode.NO_PERMISSION
    assert reply.remark == "username cannot be null."


@pytest.mark.parametrize(
    ("user", "secret"), [("root", "wrong"), ("nobody", "rootpass"), ("x" * 5_000, "rootpass")]
)
async def test_a_wrong_user_or_secret_is_refused(
    broker: TestBroker, user: str, secret: str
) -> None:
    reply = await call_as(broker, send_request(TOPIC), user, secret)
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "rootpass" not in (reply.remark or "")


async def test_what_was_changed_after_signing_is_refused(broker: TestBroker) -> None:
    with signed(send_request(TOPIC), "root", "rootpass") as request:
        request.ext_fields["e"] = "1"
        assert (await broker.call(request)).code == ResponseCode.NO_PERMISSION


async def test_fields_that_old_clients_add_late_do_no_harm(broker: TestBroker) -> None:
    with signed(send_request(TOPIC), "root", "rootpass") as request:
        request.ext_fields["__ZONE_NAME"] = "zone"
        assert (await broker.call(request)).code == ResponseCode.SUCCESS


async def test_a_user_may_do_what_its_policies_say(broker: TestBroker) -> None:
    await make_user(broker, "alice", (f"Topic:{TOPIC}", "Pub"))
    sent = await call_as(broker, send_request(TOPIC), "alice", "alicepass")
    assert sent.code == ResponseCode.SUCCESS
    for request in (
        send_request("SELF_TEST_TOPIC"),
        pull_request(TOPIC),
        Command(RequestCode.GET_BROKER_CONFIG),
        Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false"),
        Command.request(CreateUser(username="mallory"), UserInfo(password="x").encode()),
        Command(RequestCode.DELETE_EXPIRED_COMMITLOG),
    ):
        reply = await call_as(broker, request, "alice", "alicepass")
        assert reply.code == ResponseCode.NO_PERMISSION, request


async def test_a_change_counts_at_once(broker: TestBroker) -> None:
    await make_user(broker, "alice", (f"Topic:{TOPIC}", "Pub"))
    assert (await call_as(broker, send_request(TOPIC), "alice", "alicepass")).code == 0

    taken = DeleteAcl(subject="User:alice", resource=f"Topic:{TOPIC}")
    assert (await call_as(broker, Command.request(taken))).code == 0
    reply = await call_as(broker, send_request(TOPIC), "alice", "alicepass")
    assert reply.code == ResponseCode.NO_PERMISSION

    await call_as(broker, Command.request(DeleteUser(username="alice")))
    reply = await call_as(broker, send_request(TOPIC), "alice", "alicepass")
    assert reply.remark == "User:alice is not found."


async def test_a_disabled_user_is_out(broker: TestBroker) -> None:
    await make_user(broker, "alice", ("*", "All"))
    off = Command(
        RequestCode.AUTH_UPDATE_USER,
        ext_fields={"username": "alice"},
        body=UserInfo(user_status="disable").encode(),
    )
    assert (await call_as(broker, off)).code == 0
    reply = await call_as(broker, send_request(TOPIC), "alice", "alicepass")
    assert reply.remark == "User:alice is disabled."


async def test_only_super_users_make_super_users_and_see_passwords(broker: TestBroker) -> None:
    await make_user(broker, "bob", ("Cluster:*", "All"))
    wanted = Command.request(
        CreateUser(username="evil"), UserInfo(password="x", user_type="Super").encode()
    )
    assert (await call_as(broker, wanted, "bob", "bobpass")).code == ResponseCode.NO_PERMISSION

    shown = await call_as(broker, Command.request(ListUsers()), "bob", "bobpass")
    assert {user.password for user in decode_users(shown.body)} == {"******"}
    shown = await call_as(broker, Command.request(GetUser(username="bob")))
    assert UserInfo.decode(shown.body).password == "bobpass"


async def test_policies_are_listed_as_they_were_made(broker: TestBroker) -> None:
    await make_user(broker, "alice", (f"Topic:{TOPIC}", "Pub|Sub"), ("Group:g*", "Sub"))
    reply = await call_as(broker, Command.request(GetAcl(subject="User:alice")))
    (policy,) = AclInfo.decode(reply.body).policies
    assert {entry.resource for entry in policy.entries} == {f"Topic:{TOPIC}", "Group:g*"}
    reply = await call_as(broker, Command.request(ListAcls(resource_filter="Group:")))
    (listed,) = decode_acls(reply.body)
    assert [entry.resource for entry in listed.policies[0].entries] == ["Group:g*"]


async def test_users_survive_a_restart_and_the_first_one_is_not_made_again(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, **LOCKED) as broker:
        await make_user(broker, "alice", (f"Topic:{TOPIC}", "Pub"))
        changed = Command(
            RequestCode.AUTH_UPDATE_USER,
            ext_fields={"username": "root"},
            body=UserInfo(password="other").encode(),
        )
        assert (await call_as(broker, changed)).code == 0
    async with running_broker(tmp_path, **LOCKED) as broker:
        assert (await call_as(broker, send_request(TOPIC), "alice", "alicepass")).code == 0
        assert (await call_as(broker, send_request(TOPIC))).code == ResponseCode.NO_PERMISSION
        assert (await call_as(broker, send_request(TOPIC), "root", "other")).code == 0


async def test_secrets_do_not_leave_by_the_configuration(broker: TestBroker) -> None:
    reply = await call_as(broker, Command(RequestCode.GET_BROKER_CONFIG))
    assert b"rootpass" not in bytes(reply.body)
    assert b"initAuthenticationUser=******" in bytes(reply.body)


async def test_a_white_list_needs_no_user(tmp_path: Path) -> None:
    settings = LOCKED | {"authentication_whitelist": "28", "authorization_whitelist": "28"}
    async with running_broker(tmp_path, **settings) as broker:
        reply = await broker.call(Command(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert reply.code == ResponseCode.SUCCESS


async def test_each_refusal_is_a_line_of_the_audit_log(
    broker: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "rocketq.audit"):
        await broker.send(TOPIC)
        await make_user(broker, "alice")
    refused, created = [r for r in caplog.records if r.name == "rocketq.audit"]
    assert refused.__dict__["code"] == RequestCode.SEND_MESSAGE_V2
    assert refused.__dict__["reason"] == "username cannot be null."
    assert created.getMessage() == "user created"
    assert created.__dict__["subject"] == "alice"


def test_rights_without_users_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="authenticationEnabled"):
        BrokerConfig(authorization_enabled=True)


async def test_every_code_is_checked_for_everybody(broker: TestBroker, tmp_path: Path) -> None:
    """No user, a user without rights, a super user: for each code that the broker serves."""
    await make_user(broker, "alice")
    served = set(broker.broker.served_codes)
    left_to_super_users = served - set(BROKER_RULES)
    assert not left_to_super_users, sorted(left_to_super_users)
    client = RemotingClient()
    try:
        for code in sorted(served):
            fields = {"consumerGroup": "g", "topic": TOPIC, "b": TOPIC, "group": "g"}
            bare = await client.call(broker.address, Command(code, ext_fields=dict(fields)))
            assert bare.code == ResponseCode.NO_PERMISSION, code
            with signed(Command(code, ext_fields=dict(fields)), "alice", "alicepass") as request:
                reply = await client.call(broker.address, request)
            if code not in _NEED_NO_RIGHT_WHEN_EMPTY:
                assert reply.code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR), code
    finally:
        await client.close()


# A heartbeat of producers alone, the end of a transaction of an old client that names no topic,
# a client that says goodbye: what such a request does not name needs no right.
_NEED_NO_RIGHT_WHEN_EMPTY = {
    RequestCode.HEART_BEAT,
    RequestCode.END_TRANSACTION,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.BATCH_ACK_MESSAGE,
}


async def test_a_policy_names_the_cluster_of_the_broker_not_one_of_the_request(
    broker: TestBroker,
) -> None:
    """Whoever may administer another cluster cannot say to mean that one here."""
    await make_user(broker, "owner", ("Cluster:TestCluster", "Get"))
    await make_user(broker, "other", ("Cluster:theirs", "All"))
    for fields in ({}, {"clusterName": "theirs"}, {"cluster": "theirs"}):
        request = Command(RequestCode.GET_BROKER_CONFIG, ext_fields=dict(fields))
        reply = await call_as(broker, request, "other", "otherpass")
        assert reply.code == ResponseCode.NO_PERMISSION
        request = Command(RequestCode.GET_BROKER_CONFIG, ext_fields=dict(fields))
        assert (await call_as(broker, request, "owner", "ownerpass")).code == 0


async def test_many_refusals_are_counted_and_not_written_one_by_one(
    broker: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="rocketq.audit"):
        for _ in range(50):
            assert (await broker.send(TOPIC)).code == ResponseCode.NO_PERMISSION

        def told() -> int:
            return sum(getattr(record, "times", 0) for record in caplog.records)

        await eventually(lambda: told() == 50)
    assert len(caplog.records) < 10


async def test_a_body_that_is_too_long_to_be_looked_through_is_refused(broker: TestBroker) -> None:
    await make_user(broker, "alice", ("*", "All"))
    long = Command(RequestCode.HEART_BEAT, body=b'{"clientID":"c","x":"' + bytes(300_000) + b'"}')
    reply = await call_as(broker, long, "alice", "alicepass")
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_the_broker_tells_its_clients_as_ever(broker: TestBroker) -> None:
    """What a broker asks its clients is not a request that somebody would have to sign."""
    told: list[str] = []

    def note(request: Command, connection: Connection) -> None:
        told.append(request.ext_fields["consumerGroup"])

    def running_info(request: Command, connection: Connection) -> Command:
        return request.reply(body=b"{}")

    handlers: Handlers = {
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: note,
        RequestCode.GET_CONSUMER_RUNNING_INFO: running_info,
    }
    client = RemotingClient(handlers=handlers, hooks=[RequestSigner("root", "rootpass")])
    await broker.heartbeat("first", client=client)
    other = RemotingClient(hooks=[RequestSigner("root", "rootpass")])
    await broker.heartbeat("second", client=other)
    await eventually(lambda: "group" in told, "the first member to be told of the second")
    asked = GetConsumerRunningInfo(consumer_group="group", client_id="first")
    reply = await call_as(broker, Command.request(asked))
    assert (reply.code, bytes(reply.body)) == (0, b"{}")
    await other.close()
    await client.close()


async def test_what_was_popped_again_can_be_acknowledged(broker: TestBroker) -> None:
    """It comes from a retry topic of its own, which nobody would think of naming."""
    await make_user(broker, "alice", ("Group:billing", "Sub"), (f"Topic:{TOPIC}", "Sub"))
    for topic in (TOPIC, f"%RETRY%billing_{TOPIC}", f"%RETRY%billing+{TOPIC}"):
        for code in (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
            request = Command(code, ext_fields={"topic": topic, "consumerGroup": "billing"})
            reply = await call_as(broker, request, "alice", "alicepass")
            assert reply.code != ResponseCode.NO_PERMISSION, (topic, reply)
    for topic in ("%RETRY%other", "%RETRY%billing_other", "%RETRY%billing+other"):
        request = Command(
            RequestCode.ACK_MESSAGE, ext_fields={"topic": topic, "consumerGroup": "billing"}
        )
        reply = await call_as(broker, request, "alice", "alicepass")
        assert reply.code == ResponseCode.NO_PERMISSION, topic
