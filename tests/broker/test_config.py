"""Options: RocketMQ's keys, what is in force, and what changes at run time."""

from pathlib import Path

import pytest

from rocketq.broker import Broker
from rocketq.broker.config import (
    IMPORTANT_KEYS,
    BrokerConfig,
    LiveConfig,
    load_configs,
)
from rocketq.broker.settings.rows import Standing
from rocketq.broker.settings.table import TABLE
from rocketq.common.clock import ManualClock
from rocketq.common.config import ConfigError, parse_properties, settings, to_properties
from rocketq.remoting.tls import TlsSettings
from rocketq.store import StoreConfig
from tests.broker.golden import exchanges

BROKER_CONF = """
# as shipped with RocketMQ
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
sendMessageThreadPoolNums = 16
"""


def test_a_file_of_rocketmq_is_understood(caplog: pytest.LogCaptureFixture) -> None:
    broker, store = load_configs(parse_properties(BROKER_CONF))

    assert (broker.broker_name, broker.broker_id) == ("broker-a", 0)
    assert store.file_reserved_time == 48
    assert len(caplog.records) == 1
    assert "without effect here" in caplog.text
    assert "sendMessageThreadPoolNums" in caplog.text


def test_a_file_of_rocketmq_for_a_controller_is_understood() -> None:
    """It says brokerId=-1, which has no say there."""
    text = "brokerId=-1\nenableControllerMode=true\ncontrollerAddr=127.0.0.1:9878\n"
    broker, _ = load_configs(parse_properties(text))
    assert broker.enable_controller_mode


def test_a_key_nobody_knows_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    load_configs({"brokerNam": "broker-a"})

    assert "brokerNam" in caplog.text
    assert "brokerName" in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerPermission", "8"),
        ("listenPort", "70000"),
        ("brokerName", ""),
        ("defaultTopicQueueNums", "0"),
        ("autoCreateTopicEnable", "yes"),
    ],
)
def test_impossible_values_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_configs({key: value})


def test_keys_and_defaults_are_those_of_rocketmq() -> None:
    (recorded,) = [each for each in exchanges() if each.scenario == "broker config get"]
    theirs = parse_properties(recorded.response_body.decode())
    ours = to_properties(BrokerConfig(broker_name="b", broker_ip1="127.0.0.1"))
    configured = {
        *("bindAddress", "brokerClusterName", "brokerIP1", "brokerIP2", "brokerName"),
        *("defaultTopicQueueNums", "enablePropertyFilter", "listenPort", "namesrvAddr"),
        *("recallMessageEnable", "rocketmqHome", "transactionCheckInterval", "transactionTimeOut"),
    }

    own = {
        "autoCreateTopicOnAllBrokers",
        "maxPullBytes",
        "maxPullMessageCount",
        "maxGroupsMadeUnasked",
        "maxConsumerOffsets",
        "maxGroupsPerConnection",
        "maxHeldPopsPerConnection",
        "maxHeldPulls",
        "maxHeldPullsPerConnection",
        "maxMadePerConnection",
        "maxQueueNums",
        "maxTopicsMadeUnasked",
        "masterLeaseTimeout",
        "maxConnections",
        "maxConnectionsPerAddress",
        "maxTlsHandshakes",
        "tlsHandshakeTimeoutMillis",
        "maxFrameLengthBeforeLogin",
        "proxyProtocolAddresses",
        "stayAwakeMicros",
    }
    assert own == {key for key in ours if TABLE[key].is_ours}
    # RocketMQ keeps these in a configuration of their own, in the same file.
    access = {
        *("authenticationEnabled", "authorizationEnabled"),
        *("authenticationWhitelist", "authorizationWhitelist"),
        *("initAuthenticationUser", "innerClientAuthenticationCredentials"),
        *("migrateAuthFromV1Enabled", "rocketmq.acl.plain.file"),
    }
    # And these among the properties of Java's system.
    encryption = set(settings(TlsSettings)) - {"useTLS"}
    assert ours.keys() - theirs.keys() - {"useTLS"} == own | access | encryption
    different = {
        key: (ours[key], theirs[key])
        for key in (ours.keys() & theirs.keys()) - own - access
        if ours[key] != theirs[key]
    }
    # A master that hangs is replaced after 2 s, not 10.
    sooner = {"brokerHeartbeatInterval", "controllerHeartBeatTimeoutMills"}
    assert different.keys() <= configured | sooner, different


def test_important_options_exist() -> None:
    known = settings(BrokerConfig).keys() | settings(StoreConfig).keys()

    assert known >= IMPORTANT_KEYS


# The table


def test_every_setting_has_a_row_and_every_row_that_counts_a_setting() -> None:
    known = {**settings(BrokerConfig), **settings(StoreConfig)}
    assert known.keys() <= TABLE.keys()
    assert {key for key, row in TABLE.items() if row.counts} <= known.keys()
    for key, row in TABLE.items():
        if row.counts:
            assert (row.lowest is not None) == (known[key].kind is int), f"{key} needs a range"


def test_every_key_of_rocketmq_is_in_the_table() -> None:
    (recorded,) = [each for each in exchanges() if each.scenario == "broker config get"]
    theirs = parse_properties(recorded.response_body.decode())
    assert theirs.keys() <= TABLE.keys()
    for key, row in TABLE.items():
        assert row.is_ours is False or key not in theirs


def test_defaults_are_values_that_may_be() -> None:
    defaults = to_properties(BrokerConfig(broker_name="b")) | to_properties(StoreConfig())
    for key, value in defaults.items():
        assert TABLE[key].refusal(value) is None


# What is refused

ASKS_FOR_MORE = [
    *(("tls.server.mode", "sometimes"), ("tls.server.need.client.auth", "maybe")),
    *(("brokerRole", "LEARNER"), ("inSyncReplicas", "65"), ("enableSlaveActingMaster", "true")),
    *(("enableControllerMode", "true"), ("fetchControllerAddrByDnsLookup", "true")),
    *(("enableDLegerCommitLog", "true"), ("storeType", "defaultRocksDB")),
    *(("metricsInDelta", "true"), ("enableLmq", "true")),
]


@pytest.mark.parametrize(("key", "value"), ASKS_FOR_MORE)
def test_what_is_not_there_is_refused_in_one_line(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_configs({key: value})
    assert str(refused.value).startswith(f"{key}={value}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("masterLeaseTimeout", "2000"), ("controllerHeartBeatTimeoutMills", "999")],
)
def test_a_lease_that_allows_two_masters_is_refused(key: str, value: str) -> None:
    controlled = {"enableControllerMode": "true", "controllerAddr": "10.0.0.1:9878"}
    load_configs({key: value})
    load_configs(controlled)
    with pytest.raises(ConfigError, match=f"{key}={value}"):
        load_configs(controlled | {key: value})


def test_what_is_not_there_is_refused_however_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lockInStrictMode=true"):
        Broker(
            BrokerConfig(lock_in_strict_mode=True), StoreConfig(store_path_root_dir=str(tmp_path))
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, row.choices[0]) for key, row in TABLE.items() if not row.counts and row.choices],
)
def test_not_asking_for_what_is_not_there_is_fine(key: str, value: str) -> None:
    load_configs({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("sendThreadPoolQueueCapacity", "0"), ("maxPullMessageCount", "-5")),
        *(("transactionCheckInterval", "0"), ("flushConsumerOffsetInterval", "-1")),
        *(("maxMessageSize", "0"), ("fileReservedTime", "-72"), ("maxHeldPulls", "0")),
        *(("flushDiskType", "NEVER"), ("brokerPermission", "9" * 30), ("listenPort", "-1")),
    ],
)
def test_values_out_of_range_are_refused_at_the_start_and_as_a_change(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_configs({key: value})
    options = live()
    with pytest.raises(ConfigError, match=key):
        options.update({key: value})
    assert options.version.value.counter == 0


@pytest.mark.parametrize("value", ["a\nconfigBlackList=none", "a\rb", "a\x00b", "a\x7fb", "\x85"])
def test_control_characters_are_refused(value: str) -> None:
    for key in ("regionId", "namesrvAddr", "storePathRootDir"):
        with pytest.raises(ConfigError, match=f"{key}=.*line feeds"):
            load_configs({key: value})
        with pytest.raises(ConfigError, match="line feeds"):
            live().update({key: value})


@pytest.mark.parametrize(
    "value", ["C:\\new", "back\\\\slash\\", "#no comment", "a=b:c", "\\u000aevil"]
)
def test_what_is_kept_in_the_file_is_read_back_as_it_was(tmp_path: Path, value: str) -> None:
    path = tmp_path / "broker.conf"
    options = live(path)
    options.update({"regionId": value})
    broker, _ = load_configs(parse_properties(path.read_text()))
    assert broker.region_id == options.broker.region_id == value


def live(path: Path | None = None) -> LiveConfig:
    broker = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", listen_port=10911)
    return LiveConfig(broker, StoreConfig(), path=path, clock=ManualClock())


def test_a_change_is_in_force_at_once_and_kept(tmp_path: Path) -> None:
    options = live(tmp_path / "broker.conf")
    heard: list[tuple[int, int]] = []
    options.on_change(
        lambda before, after: heard.append((before.broker_permission, after.broker_permission))
    )

    assert options.update({"brokerPermission": "4", "fileReservedTime": "24"}) == []

    assert options.broker.broker_permission == 4
    assert options.store.file_reserved_time == 24
    assert heard == [(6, 4)]
    assert options.version.value.counter == 1
    kept = parse_properties((tmp_path / "broker.conf").read_text())
    assert (kept["brokerPermission"], kept["fileReservedTime"]) == ("4", "24")
    assert "brokerPermission=4\n" in options.text()


def test_a_change_that_cannot_be_made_changes_nothing() -> None:
    options = live()

    with pytest.raises(ConfigError):
        options.update({"brokerPermission": "9", "traceOn": "false"})

    assert options.broker.trace_on
    assert options.version.value.counter == 0


def test_some_keys_may_not_be_changed_at_run_time() -> None:
    assert live().black_list == {"configBlackList", "brokerConfigPath"}
    broker = BrokerConfig(broker_name="b", config_black_list="brokerName;listenPort")
    assert LiveConfig(broker, StoreConfig()).black_list == {
        *("brokerName", "listenPort", "configBlackList", "brokerConfigPath")
    }


def test_a_change_of_a_key_nobody_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match="unknown key brokerPermision; did you mean brokerPermission"
    ):
        live().update({"brokerPermision": "4"})
    with pytest.raises(ConfigError, match="sendMessageThreadPoolNums has no effect here"):
        live().update({"sendMessageThreadPoolNums": "4"})


def test_a_change_that_needs_a_start_is_kept_for_it_and_not_shown_before(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    options = live(path)

    assert options.update({"flushDiskType": "SYNC_FLUSH", "traceOn": "false"}) == ["flushDiskType"]
    assert options.update({"brokerPermission": "4"}) == []

    assert not options.store.is_sync_flush
    assert not options.broker.trace_on
    assert "flushDiskType=ASYNC_FLUSH\n" in options.text()
    kept = parse_properties(path.read_text())
    assert (kept["flushDiskType"], kept["traceOn"], kept["brokerPermission"]) == (
        *("SYNC_FLUSH", "false", "4"),
    )
    assert options.update({"flushDiskType": "ASYNC_FLUSH"}) == []
    assert parse_properties(path.read_text())["flushDiskType"] == "ASYNC_FLUSH"

    with pytest.raises(ConfigError, match="flushDiskType counts from the next start on"):
        live().update({"flushDiskType": "SYNC_FLUSH"})
    with pytest.raises(ConfigError, match="enableLmq=true"):
        options.update({"enableLmq": "true"})


def test_only_what_counts_is_shown() -> None:
    shown = parse_properties(live().text())
    assert shown["brokerRole"] == "ASYNC_MASTER"
    for key in shown:
        assert TABLE[key].standing is not Standing.NO_EFFECT
