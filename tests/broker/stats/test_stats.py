"""Counting, and what the tools are told of it."""

import time

import pytest

from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.stats.sampling import Rate
from rocketq.broker.stats.stats import BrokerStats
from rocketq.common.clock import ManualClock
from rocketq.store.config import StoreConfig


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def stats(clock: ManualClock) -> BrokerStats:
    config = BrokerConfig(broker_cluster_name="TestCluster", broker_name="broker-a")
    counted = BrokerStats(LiveConfig(config, StoreConfig()), clock)
    counted.sample()
    return counted


def minutes_pass(stats: BrokerStats, clock: ManualClock, count: float = 1) -> None:
    for _ in range(int(count * 6)):
        clock.advance(10_000)
        stats.sample()


def test_a_topic_is_the_sum_of_its_queues(stats: BrokerStats, clock: ManualClock) -> None:
    stats.messages_put("orders", 0, count=10, size=1000)
    stats.messages_put("orders", 1, count=5, size=700)
    minutes_pass(stats, clock, 1 / 6)

    nums = stats.view("TOPIC_PUT_NUMS", "orders")
    sizes = stats.view("TOPIC_PUT_SIZE", "orders")
    queue = stats.view("QUEUE_PUT_NUMS", "orders@1")
    assert nums is not None
    assert sizes is not None
    assert queue is not None
    assert nums.minute == Rate(sum=15, tps=1.5, avgpt=7.5)
    assert sizes.minute.sum == 1700
    assert queue.minute.sum == 5


def test_hours_and_days_run_up_to_now(stats: BrokerStats, clock: ManualClock) -> None:
    minutes_pass(stats, clock, 5)
    stats.messages_put("orders", 0, count=30, size=1)
    clock.advance(1_000)

    figure = stats.view("TOPIC_PUT_NUMS", "orders")
    assert figure is not None
    assert figure.minute == Rate()
    assert (figure.hour.sum, figure.day.sum) == (30, 30)

    minutes_pass(stats, clock, 120)
    stats.messages_put("orders", 0, count=12, size=1)
    figure = stats.view("TOPIC_PUT_NUMS", "orders")
    assert figure is not None
    assert (figure.hour.sum, figure.day.sum) == (12, 42)


def test_what_groups_got_is_counted_by_topic_and_queue(
    stats: BrokerStats, clock: ManualClock
) -> None:
    stats.messages_got("billing", "orders", 3, count=8, size=800)
    minutes_pass(stats, clock, 1 / 6)

    group = stats.view("GROUP_GET_NUMS", "orders@billing")
    queue = stats.view("QUEUE_GET_SIZE", "orders@3@billing")
    assert group is not None
    assert queue is not None
    assert group.minute.sum == 8
    assert queue.minute.sum == 800
    assert stats.group_get_tps("billing", "orders") == pytest.approx(0.8)


def test_the_broker_is_the_sum_of_its_topics(stats: BrokerStats, clock: ManualClock) -> None:
    stats.messages_put("orders", 0, count=10, size=100)
    stats.messages_put("SCHEDULE_TOPIC_XXXX", 2, count=7, size=100)
    minutes_pass(stats, clock, 1 / 6)

    everything = stats.view("BROKER_PUT_NUMS", "TestCluster")
    of_users = stats.view("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "TestCluster")
    assert everything is not None
    assert of_users is not None
    assert everything.minute.sum == 17
    assert of_users.minute.sum == 10
    assert stats.put_total == 10


def test_what_was_never_counted_does_not_exist(stats: BrokerStats) -> None:
    assert stats.view("TOPIC_PUT_NUMS", "nokey") is None
    assert stats.view("QUEUE_PUT_NUMS", "orders@x") is None
    assert stats.view("BROKER_PUT_NUMS", "OtherCluster") is None
    assert stats.view("NO_SUCH_FIGURE", "orders") is None


def test_given_back_messages_are_counted_one_by_one(stats: BrokerStats, clock: ManualClock) -> None:
    stats.message_sent_back("billing", "orders")
    stats.message_sent_back("billing", "orders")
    stats.message_sent_to_dlq("billing", "orders")
    minutes_pass(stats, clock, 1 / 6)

    back = stats.view("SNDBCK_PUT_NUMS", "orders@billing")
    dead = stats.view("DLQ_PUT_NUMS", "orders@billing")
    assert back is not None
    assert dead is not None
    assert back.minute.sum == 2
    assert dead.minute.sum == 1


def test_totals_of_yesterday_and_today_change_at_midnight(
    stats: BrokerStats, clock: ManualClock
) -> None:
    stats.messages_put("orders", 0, count=10, size=1)
    stats.messages_got("billing", "orders", 0, count=4, size=1)
    day_ms = 24 * 3_600_000
    seconds_of_day = time.localtime(clock.now_ms() / 1000)
    until_midnight = day_ms - (
        (seconds_of_day.tm_hour * 60 + seconds_of_day.tm_min) * 60 + seconds_of_day.tm_sec
    ) * 1000  # fmt: skip
    clock.advance(until_midnight - 11_000)
    stats.sample()
    assert stats.put_until_this_morning == 0

    clock.advance(12_000)
    stats.sample()
    assert (stats.put_until_this_morning, stats.got_until_this_morning) == (10, 4)

    stats.messages_put("orders", 0, count=5, size=1)
    clock.advance(day_ms)
    stats.sample()
    assert (stats.put_until_yesterday_morning, stats.put_until_this_morning) == (10, 15)


def test_a_deleted_topic_leaves_its_share_in_the_totals(
    stats: BrokerStats, clock: ManualClock
) -> None:
    stats.messages_put("orders", 0, count=10, size=1)
    stats.messages_got("billing", "orders", 0, count=4, size=1)
    stats.message_sent_back("billing", "orders")

    stats.forget_topic("orders")

    assert stats.view("TOPIC_PUT_NUMS", "orders") is None
    assert stats.view("GROUP_GET_NUMS", "orders@billing") is None
    assert stats.view("SNDBCK_PUT_NUMS", "orders@billing") is None
    assert (stats.put_total, stats.got_total) == (10, 4)
    minutes_pass(stats, clock, 1)
    everything = stats.view("BROKER_PUT_NUMS", "TestCluster")
    assert everything is not None
    assert everything.minute.sum >= 0


def test_a_deleted_group_is_forgotten(stats: BrokerStats) -> None:
    stats.messages_got("billing", "orders", 0, count=4, size=1)
    stats.messages_got("audit", "orders", 0, count=2, size=1)

    stats.forget_group("billing")

    assert stats.view("GROUP_GET_NUMS", "orders@billing") is None
    assert stats.view("GROUP_GET_NUMS", "orders@audit") is not None
    assert stats.got_total == 6
