"""Options: RocketMQ's keys, what is in force, and what changes at run time."""

from pathlib import Path

import pytest

from rocketq.broker.config import (
    IMPORTANT_KEYS,
    WITHOUT_EFFECT,
    BrokerConfig,
    LiveConfig,
    load_configs,
)
from rocketq.common.clock import ManualClock
from rocketq.common.config import ConfigError, parse_properties, settings, to_properties
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
    assert caplog.text == ""  # also the key that has no effect here is a right one


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
        "maxHeldPulls",
    }
    assert ours.keys() - theirs.keys() == own
    different = {
        key: (ours[key], theirs[key]) for key in ours.keys() - own if ours[key] != theirs[key]
    }
    assert different.keys() <= configured, different


def test_important_options_exist() -> None:
    known = settings(BrokerConfig).keys() | settings(StoreConfig).keys()

    assert known >= IMPORTANT_KEYS
    assert not WITHOUT_EFFECT & known


def live(path: Path | None = None) -> LiveConfig:
    broker = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", listen_port=10911)
    return LiveConfig(broker, StoreConfig(), path=path, clock=ManualClock())


def test_a_change_is_in_force_at_once_and_kept(tmp_path: Path) -> None:
    options = live(tmp_path / "broker.conf")
    heard: list[tuple[int, int]] = []
    options.on_change(
        lambda before, after: heard.append((before.broker_permission, after.broker_permission))
    )

    options.update({"brokerPermission": "4", "fileReservedTime": "24"})

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
