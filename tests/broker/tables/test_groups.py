"""The table of consumer groups."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.tables.groups import FORBID_READ, SubscriptionGroups
from rocketq.common.clock import ManualClock
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.store.config import StoreConfig
from tests.broker.golden import config_file


def groups_in(folder: Path, **options: Any) -> SubscriptionGroups:
    live = LiveConfig(BrokerConfig(broker_name="broker-t", **options), StoreConfig())
    return SubscriptionGroups(live, folder / "subscriptionGroup.json", ManualClock())


async def test_a_group_makes_itself_when_it_is_first_used(tmp_path: Path) -> None:
    groups = groups_in(tmp_path)

    assert groups.get("orders-service") is None
    assert groups.get_or_make("orders-service") == SubscriptionGroupConfig(
        group_name="orders-service"
    )
    assert "orders-service" in groups
    assert groups.data_version.counter == 1
    await groups.saved()


async def test_a_group_does_not_make_itself_where_that_is_off(tmp_path: Path) -> None:
    groups = groups_in(tmp_path, auto_create_subscription_group=False)

    assert groups.get_or_make("orders-service") is None
    assert groups.get_or_make("CID_RMQ_SYS_something") is not None
    await groups.saved()


async def test_a_group_with_an_impossible_name_is_not_made(tmp_path: Path) -> None:
    groups = groups_in(tmp_path)

    assert groups.get_or_make("no blanks, please") is None
    assert groups.get_or_make("x" * 121) is None


async def test_groups_survive_a_restart(tmp_path: Path) -> None:
    groups = groups_in(tmp_path)
    groups.put(SubscriptionGroupConfig(group_name="one", retry_max_times=3))
    groups.set_forbidden("one", "orders", FORBID_READ)
    groups.put(SubscriptionGroupConfig(group_name="two"))
    groups.delete("two")
    await groups.close()

    again = groups_in(tmp_path)
    again.load()

    assert again.get("one") == SubscriptionGroupConfig(group_name="one", retry_max_times=3)
    assert again.is_forbidden("one", "orders")
    assert "two" not in again


async def test_a_pair_of_group_and_topic_can_be_forbidden_and_allowed(tmp_path: Path) -> None:
    groups = groups_in(tmp_path)

    groups.set_forbidden("one", "orders", FORBID_READ)
    assert groups.is_forbidden("one", "orders")
    assert not groups.is_forbidden("one", "payments")
    groups.set_forbidden("one", "orders", 0)
    assert not groups.is_forbidden("one", "orders")
    assert groups.body().forbidden_table == {}
    await groups.saved()


async def test_a_group_that_is_too_slow_can_be_stopped(tmp_path: Path) -> None:
    groups = groups_in(tmp_path)
    config = groups.get_or_make("slow")
    assert config is not None

    groups.disable_consume("slow")

    assert groups.get("slow") == replace(config, consume_enable=False)
    await groups.saved()


@pytest.mark.parametrize("store", ["store-4.9.8", "store-5.5.0"])
def test_files_of_java_brokers_are_read(store: str, tmp_path: Path) -> None:
    path, expected = config_file(store, "subscriptionGroup.json", tmp_path)

    groups = groups_in(path.parent)
    groups.load()

    for name, config in expected["subscriptionGroupTable"].items():
        read = groups.get(name)
        assert read is not None
        assert (read.retry_max_times, read.retry_queue_nums, read.consume_broadcast_enable) == (
            config["retryMaxTimes"],
            config["retryQueueNums"],
            config["consumeBroadcastEnable"],
        )
