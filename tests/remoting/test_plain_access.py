"""Accounts of RocketMQ 4: white lists, rights, files."""

import ipaddress
import logging
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.access import Action, Need, ResourceType
from rocketq.common.config import ConfigError
from rocketq.remoting.access.plain import InvalidAccounts, PlainAccount, PlainFile, PlainFiles
from rocketq.remoting.access.plain.accounts import Standing
from rocketq.remoting.access.plain.addresses import InvalidAddress, white_list

# As shipped with RocketMQ 4.9.
SHIPPED = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("", [], ["127.0.0.1"]),
        ("*", ["127.0.0.1", "::1"], []),
        ("*.*.*.*", ["127.0.0.1"], []),
        ("10.10.103.*", ["10.10.103.0", "10.10.103.255"], ["10.10.104.1", "::1", "nonsense"]),
        ("10.1-5.*.*", ["10.1.9.9", "10.5.0.0"], ["10.6.0.1", "10.0.255.255"]),
        ("10.1.2.{1,2,7}", ["10.1.2.1", "10.1.2.7"], ["10.1.2.3"]),
        ("10.1.2.3, 10.1.2.4", ["10.1.2.3", "10.1.2.4"], ["10.1.2.5"]),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.30"]),
        ("1050:0:0:0:5:600:300c:326b", ["1050::5:600:300c:326b"], ["1050::5:600:300c:326c"]),
        ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:1"], ["1050::5:600:300d:1", "10.0.0.1"]),
        ("1050:0:0:0:5:600:300c:{1,2}", ["1050::5:600:300c:2"], ["1050::5:600:300c:3"]),
    ],
)
def test_patterns_of_addresses(pattern: str, inside: list[str], outside: list[str]) -> None:
    matches = white_list(pattern)
    assert all(matches(address) for address in inside)
    assert not any(matches(address) for address in outside)


@pytest.mark.parametrize(
    "wrong",
    ["10.1.2", "10.1.2.x", "10.1.2.{", "10.1.2.300", "10.5-1.*.*", "*.1.1.1", "10.*", "a,b"],
)
def test_what_is_no_pattern_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidAddress):
        white_list(wrong)


@given(st.text(alphabet="0123456789.*-{},: abcdef", max_size=40), st.ip_addresses())
def test_any_text_is_a_pattern_or_refused(
    text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> None:
    try:
        matches = white_list(text)
    except InvalidAddress:
        return
    assert matches(str(address)) in (True, False)


def need(kind: ResourceType, name: str, *actions: Action) -> Need:
    return Need(kind, name, frozenset(actions))


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@pytest.mark.parametrize(
    ("wanted", "is_allowed"),
    [
        (need(TOPIC, "topicA", Action.PUB), False),
        (need(TOPIC, "topicB", Action.PUB), True),
        (need(TOPIC, "topicB", Action.SUB), True),
        (need(TOPIC, "topicC", Action.PUB), False),
        (need(TOPIC, "topicC", Action.SUB), True),
        (need(TOPIC, "topicC", Action.GET), True),
        (need(TOPIC, "topicA", Action.GET), False),
        (need(TOPIC, "topicC", Action.SUB, Action.GET), True),
        (need(TOPIC, "other", Action.PUB), False),
        (need(TOPIC, "topicB", Action.CREATE), False),
        (need(TOPIC, "topicB", Action.SUB, Action.UPDATE), True),
        (need(GROUP, "groupA", Action.SUB), False),
        (need(GROUP, "groupC", Action.SUB), True),
        (need(GROUP, "other", Action.SUB), True),
        (need(GROUP, "groupC", Action.DELETE), False),
        (need(CLUSTER, "", Action.GET), False),
    ],
)
def test_rights_of_the_shipped_account(wanted: Need, is_allowed: bool) -> None:
    ordinary, admin = PlainFile.parse(yaml.safe_load(SHIPPED)).accounts
    assert (Standing(ordinary).refusal(wanted) is None) is is_allowed
    assert Standing(admin).refusal(wanted) is None


def test_an_administrator_with_rights_has_these_alone() -> None:
    admin = Standing(
        PlainAccount("administrator", "12345678", is_admin=True, topic_perms=("a=PUB",))
    )
    assert admin.refusal(need(CLUSTER, "", Action.UPDATE)) is None
    assert admin.refusal(need(TOPIC, "a", Action.PUB)) is None
    assert admin.refusal(need(TOPIC, "b", Action.PUB)) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        "accounts: 5",
        "accounts: [5]",
        "accounts: [{accessKey: short, secretKey: '12345678'}]",
        "accounts: [{accessKey: longenough, secretKey: short}]",
        "accounts: [{accessKey: longenough, secretKey: longenough, topicPerms: [a]}]",
        "accounts: [{accessKey: longenough, secretKey: longenough, whiteRemoteAddress: x.y}]",
        "globalWhiteRemoteAddresses: [1.2]",
        "- a\n- b",
        "{",
        "a: &a [*a]",
    ],
)
def test_what_cannot_be_used_stops_the_start_and_tells_no_secrets(
    wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(wrong)
    if wrong == "a: &a [*a]":
        PlainFiles(path, tmp_path / "acl").load()  # says nothing of accounts
        return
    with pytest.raises(ConfigError, match="plain_acl") as refused:
        PlainFiles(path, tmp_path / "acl").load()
    assert "longenough" not in str(refused.value)


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="aclEnable=true"):
        PlainFiles(tmp_path / "plain_acl.yml", tmp_path / "acl").load()


@pytest.fixture
def files(tmp_path: Path) -> PlainFiles:
    (tmp_path / "plain_acl.yml").write_text(SHIPPED)
    folder = tmp_path / "acl" / "deeper"
    folder.mkdir(parents=True)
    (folder / "more.yaml").write_text(
        "accounts: [{accessKey: RocketMQ, secretKey: another one},"
        "{accessKey: further, secretKey: '12345678'}]\n"
        "globalWhiteRemoteAddresses: [172.16.0.9]"
    )
    found = PlainFiles(tmp_path / "plain_acl.yml", tmp_path / "acl")
    found.load()
    return found


async def test_all_files_count_and_of_a_key_in_two_the_first(files: PlainFiles) -> None:
    assert {account.access_key for account in files.accounts} == {
        "RocketMQ",
        "rocketmq2",
        "further",
    }
    standing = files.account("RocketMQ")
    assert standing is not None
    assert standing.account.secret_key == "12345678"
    assert files.is_white("10.10.103.5")
    assert files.is_white("172.16.0.9")
    assert not files.is_white("172.16.0.10")


async def test_changed_files_are_read_again_if_they_can_be(
    files: PlainFiles, caplog: pytest.LogCaptureFixture
) -> None:
    revision = files.revision
    await files.look()
    assert files.revision == revision
    files.path.write_text(SHIPPED.replace("secretKey: 12345678", "secretKey: 87654321"))
    await files.look()
    standing = files.account("RocketMQ")
    assert standing is not None
    assert standing.account.secret_key == "87654321"
    with caplog.at_level(logging.WARNING):
        files.path.write_text("{ secret")
        await files.look()
    assert "the old ones are" in caplog.text
    assert files.account("RocketMQ") is standing


async def test_changes_are_kept(files: PlainFiles, tmp_path: Path) -> None:
    await files.put(
        lambda before: PlainAccount("newcomer", "12345678", topic_perms=("t=PUB",)), "newcomer"
    )
    await files.put(lambda before: PlainAccount("further", "changed!"), "further")
    await files.delete("rocketmq2")
    await files.set_white_addresses(("1.2.3.*",), None)
    with pytest.raises(InvalidAccounts, match="no account"):
        await files.delete("nobody-at-all")
    with pytest.raises(InvalidAccounts, match="no file"):
        await files.set_white_addresses((), Path("/etc/passwd"))
    again = PlainFiles(files.path, tmp_path / "acl")
    again.load()
    assert again.accounts == files.accounts
    assert {account.access_key for account in again.accounts} == {"RocketMQ", "newcomer", "further"}
    assert again.is_white("1.2.3.4")
    assert not again.is_white("10.10.103.5")
    further = again.account("further")
    assert further is not None
    assert further.account.secret_key == "changed!"
    assert again.files[files.path].version_counter == 3
