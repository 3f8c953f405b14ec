"""The sub-commands of users, policies and accounts print what RocketMQ's own print.

The texts are those of mqadmin 5.5.0 (users, policies) and 4.9.7 (accounts), run against a broker
with the same contents.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq.testing import LocalBroker
from tests.cli.admin.test_admin import Tool

# A $ stands for the end of a line that ends with blanks.
USERS = """\
#UserName         #Password               #UserType               #UserStatus           $
alice             12345678                Normal                  disable               $
bob               12345678                Super                   enable                $
""".replace("$\n", "\n")
POLICIES = """\
#Subject          #PolicyType  #Resource               #Actions              #SourceIp                 #Decision $
User:alice        Custom      Topic:*                 [Pub, Sub]            [10.0.0.9]                Allow     $
User:alice        Custom      Group:g                 [Sub]                 null                      Deny      $
""".replace("$\n", "\n")  # noqa: E501


@pytest.fixture
def tool() -> Iterator[Tool]:
    with LocalBroker() as broker:
        yield Tool(broker)


def said(tool: Tool, *words: str) -> str:
    result = tool.run(*words)
    assert result.exit_code == 0, result.stderr
    return result.output


def test_users_and_policies(tool: Tool) -> None:
    address = tool.broker.address
    here = ("-b", address)
    made = said(tool, "createUser", *here, "-u", "alice", "-p", "12345678")
    assert made == f"create user to {address} success.\n"
    again = tool.run("createUser", *here, "-u", "alice", "-p", "12345678")
    assert again.exit_code == 1
    assert "The user is existed" in again.stderr
    assert "12345678" not in again.stderr
    cluster = ("-c", "DefaultCluster")
    made = said(tool, "createUser", *cluster, "-u", "bob", "-p", "12345678", "-t", "Super")
    assert made == f"create user to {address} success.\n"
    changed = said(tool, "updateUser", *here, "-u", "alice", "-s", "disable")
    assert changed == f"update user to {address} success.\n"
    assert tool.run("updateUser", *here, "-u", "nobody", "-p", "x").exit_code == 1
    assert tool.run("updateUser", *here, "-u", "alice").exit_code == 1
    head, alice, bob = USERS.splitlines(keepends=True)
    assert said(tool, "getUser", *here, "-u", "alice") == head + alice
    assert said(tool, "getUser", *here, "-u", "nobody") == ""
    assert said(tool, "listUser", *here) == USERS
    found = said(tool, "listUser", *cluster, "-f", "bo")
    assert found == f"{head}{bob}get user from {address} success.\n"

    wanted = ("-s", "User:alice", "-r", "Topic:*,Group:g", "-a", "Pub,Sub", "-d", "Allow")
    made = said(tool, "createAcl", *here, *wanted, "-i", "10.0.0.9")
    assert made == f"create acl to {address} success.\n"
    wanted = ("-s", "User:alice", "-r", "Group:g", "-a", "Sub", "-d", "Deny")
    assert said(tool, "updateAcl", *cluster, *wanted) == f"update acl to {address} success.\n"
    head, _, second = POLICIES.splitlines(keepends=True)
    assert said(tool, "getAcl", *here, "-s", "User:alice") == POLICIES
    assert said(tool, "listAcl", *here) == POLICIES
    assert said(tool, "listAcl", *cluster, "-s", "alice", "-r", "Group") == head + second

    copied = said(tool, "copyUser", "-f", address, "-t", address, "-u", "alice")
    assert copied == f"copy user of alice from {address} to {address} success.\n"
    copied = said(tool, "copyAcl", "-f", address, "-t", address, "-s", "User:alice")
    assert copied == f"copy acl of User:alice from {address} to {address} success.\n"

    gone = said(tool, "deleteAcl", *here, "-s", "User:alice", "-r", "Group:g")
    assert gone == f"delete acl to {address} success.\n"
    assert "Group:g" not in said(tool, "getAcl", *here, "-s", "User:alice")
    assert said(tool, "deleteAcl", *here, "-s", "User:alice")
    assert said(tool, "getAcl", *here, "-s", "User:alice") == ""
    assert said(tool, "deleteUser", *here, "-u", "alice") == f"delete user to {address} success.\n"
    refused = tool.run("createAcl", *here, *wanted)
    assert "The subject of User:alice is not exist." in refused.stderr


def test_a_broker_or_a_cluster_has_to_be_named(tool: Tool) -> None:
    for words in (("listUser",), ("listAcl",), ("createUser", "-u", "a", "-p", "b")):
        assert tool.run(*words).exit_code == 1


def test_users_of_another_broker_are_copied_with_their_policies(tool: Tool) -> None:
    here = tool.broker.address
    said(tool, "createUser", "-b", here, "-u", "alice", "-p", "12345678")
    said(
        *(tool, "createAcl", "-b", here, "-s", "User:alice", "-r", "Topic:t"),
        *("-a", "Pub", "-d", "Allow"),
    )
    with LocalBroker() as other:
        there = other.address
        said(tool, "copyUser", "-f", here, "-t", there)
        said(tool, "copyAcl", "-f", here, "-t", there)
        for words in (("listUser",), ("listAcl",)):
            assert said(tool, *words, "-b", here) == said(tool, *words, "-b", there)


def test_accounts_of_rocketmq_4(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "globalWhiteRemoteAddresses: [127.0.0.1]\n"
        "accounts:\n- {accessKey: RocketMQ, secretKey: '12345678', topicPerms: [a=PUB]}\n"
    )
    settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(path)}
    with LocalBroker(settings, folder=tmp_path / "data") as broker:
        tool = Tool(broker)
        here = ("-b", broker.address)
        account = ("-a", "newcomer", "-s", "newcomer-secret", "-t", "topicA=PUB,topicB=SUB")
        made = said(tool, "updateAclConfig", *here, *account, "-g", "groupA=DENY", "-m", "false")
        assert made == f"create or update plain access config to {broker.address} success.\n"
        shown = said(tool, "getAclConfig", *here)
        assert shown.startswith("\nglobalWhiteRemoteAddresses: [127.0.0.1]\n\naccounts:\n")
        assert "  accessKey         : newcomer\n" in shown
        assert "  topicPerms        : [topicA=PUB, topicB=SUB]\n" in shown
        version = said(tool, "clusterAclConfigVersion", "-c", "DefaultCluster")
        assert version.startswith("#Cluster Name     #Broker Name            #Broker Addr")
        assert str(path) in version
        assert version.endswith("get cluster's plain access config version success.\n")
        white = said(tool, "updateGlobalWhiteAddr", *here, "-g", "127.0.0.1,10.0.0.*")
        assert white == f"update global white remote addresses to {broker.address} success.\n"
        gone = said(tool, "deleteAclConfig", *here, "-a", "newcomer")
        assert gone == (
            f"delete plain access config account from {broker.address} success.\n"
            "account's accesskey is:newcomer\n"
        )
        assert "newcomer" not in said(tool, "getAclConfig", *here)
        assert tool.run("deleteAclConfig", *here, "-a", "newcomer").exit_code == 1
