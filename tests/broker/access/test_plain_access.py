"""A broker with the accounts of RocketMQ 4, over the wire."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketq.broker import BrokerConfig
from rocketq.common.config import ConfigError
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.access import AclInfo, UserInfo
from rocketq.remoting.headers.access import (
    DeleteAclConfig,
    GetAcl,
    GetBrokerClusterAclInfoResponse,
    GetUser,
    UpdateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request

TOPIC = "BenchmarkTest"
ACCOUNTS = f"""
accounts:
- accessKey: producer
  secretKey: producer-secret
  topicPerms: [{TOPIC}=PUB]
- accessKey: consumer
  secretKey: consumer-secret
  defaultGroupPerm: SUB
  topicPerms: [{TOPIC}=SUB, other=all of it]
- accessKey: administrator
  secretKey: administrator-secret
  admin: true
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(ACCOUNTS)
    return path


@pytest.fixture
async def broker(tmp_path: Path, path: Path) -> AsyncIterator[TestBroker]:
    async with running_broker(
        tmp_path / "store", acl_enable=True, rocketmq_home=str(tmp_path / "home")
    ) as running:
        yield running


def content_of(path: Path) -> str:
    return path.read_text()


def replace_in(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


async def ask(broker: TestBroker, request: Command, user: str = "administrator") -> Command:
    RequestSigner(user, f"{user}-secret").before_request("", request)
    return await broker.call(request)


async def test_everybody_gets_what_the_file_says(broker: TestBroker) -> None:
    refused = ResponseCode.NO_PERMISSION
    assert (await broker.send(TOPIC)).code == refused
    assert (await ask(broker, send_request(TOPIC), "producer")).code == 0
    assert (await ask(broker, send_request(TOPIC), "consumer")).code == refused
    assert (await ask(broker, send_request("other"), "producer")).code == refused
    assert (await ask(broker, pull_request(TOPIC), "producer")).code == refused
    assert (await ask(broker, pull_request(TOPIC), "consumer")).code != refused
    config = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=true")
    assert (await ask(broker, config, "consumer")).code == refused
    config = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=true")
    assert (await ask(broker, config)).code == 0
    wrong = send_request(TOPIC)
    RequestSigner("producer", "wrong").before_request("", wrong)
    assert (await broker.call(wrong)).code == refused
    nobody = send_request(TOPIC)
    RequestSigner("nobody!", "wrong").before_request("", nobody)
    assert (await broker.call(nobody)).code == refused


async def test_accounts_are_administered_as_in_rocketmq(broker: TestBroker, path: Path) -> None:
    make = UpdateAclConfig(
        access_key="newcomer", secret_key="newcomer-secret", topic_perms=f"{TOPIC}=PUB|SUB"
    )
    assert (await ask(broker, Command.request(make), "producer")).code == 16
    assert (await ask(broker, Command.request(make))).code == 0
    assert (await ask(broker, send_request(TOPIC), "newcomer")).code == 0
    assert "newcomer" in content_of(path)

    weak = UpdateAclConfig(access_key="x", secret_key="y")
    assert (await ask(broker, Command.request(weak))).code == 209
    shown = await ask(broker, Command(RequestCode.GET_BROKER_CLUSTER_ACL_INFO))
    header = shown.header(GetBrokerClusterAclInfoResponse)
    assert json.loads(header.version)["counter"] == 1
    assert list(json.loads(header.all_acl_file_version or "{}")) == [str(path)]
    listed = await ask(broker, Command(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG))
    keys = [each["accessKey"] for each in json.loads(bytes(listed.body))["plainAccessConfigs"]]
    assert keys == ["producer", "consumer", "administrator", "newcomer"]

    gone = Command.request(DeleteAclConfig(access_key="newcomer"))
    assert (await ask(broker, gone)).code == 0
    assert (await ask(broker, send_request(TOPIC), "newcomer")).code == 16
    gone = Command.request(DeleteAclConfig(access_key="newcomer"))
    assert (await ask(broker, gone)).code == 210

    white = UpdateGlobalWhiteAddrsConfig(global_white_addrs="127.0.0.*")
    assert (await ask(broker, Command.request(white))).code == 0
    assert (await broker.send(TOPIC)).code == 0
    wrong = UpdateGlobalWhiteAddrsConfig(
        global_white_addrs="1.2.3.4", acl_file_full_path="/etc/passwd"
    )
    assert (await broker.call(Command.request(wrong))).code == 211


async def test_an_account_is_let_in_from_its_own_address_without_a_signature(
    tmp_path: Path, path: Path
) -> None:
    replace_in(path, "accessKey: producer", "accessKey: producer\n  whiteRemoteAddress: 127.0.0.1")
    async with running_broker(
        tmp_path / "store", acl_enable=True, rocketmq_home=str(tmp_path / "home")
    ) as broker:
        request = send_request(TOPIC)
        request.ext_fields["AccessKey"] = "producer"
        assert (await broker.call(request)).code == 0


async def test_accounts_become_users(tmp_path: Path, path: Path) -> None:
    async with running_broker(
        tmp_path / "store",
        rocketmq_home=str(tmp_path / "home"),
        authentication_enabled=True,
        authorization_enabled=True,
        migrate_auth_from_v1_enabled=True,
        init_authentication_user='{"username":"producer","password":"kept-as-it-was"}',
    ) as broker:
        user = UserInfo.decode(
            (await ask(broker, Command.request(GetUser(username="administrator")))).body
        )
        assert user.user_type == "Super"
        assert (await ask(broker, pull_request(TOPIC), "consumer")).code != 16
        assert (await ask(broker, send_request(TOPIC), "consumer")).code == 16
        assert (await ask(broker, send_request(TOPIC), "producer")).code == 16  # its own password
        acl = AclInfo.decode(
            (await ask(broker, Command.request(GetAcl(subject="User:consumer")))).body
        )
        entries = {
            (policy.policy_type, entry.resource, entry.decision, *entry.actions)
            for policy in acl.policies
            for entry in policy.entries
        }
        assert entries == {
            ("Custom", f"Topic:{TOPIC}", "Allow", "Sub"),
            ("Custom", "Topic:other", "Deny", "All"),
            ("Default", "Group:*", "Allow", "Sub"),
        }


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"acl_enable": True, "authentication_enabled": True}, "not together"),
        ({"migrate_auth_from_v1_enabled": True}, "authenticationEnabled=true"),
    ],
)
def test_what_excludes_each_other_stops_the_start(settings: dict[str, bool], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        BrokerConfig(**settings)  # type: ignore[arg-type]


async def test_accounts_without_a_file_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="aclEnable=true"):
        async with running_broker(tmp_path, acl_enable=True, rocketmq_home=str(tmp_path)):
            pass


async def test_where_accounts_are_off_there_are_none_to_change(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for code in (50, 51, 52, 53, 54):
            fields = {"accessKey": "a", "admin": "false", "globalWhiteAddrs": "*"}
            reply = await broker.call(Command(code, ext_fields=fields))
            assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
