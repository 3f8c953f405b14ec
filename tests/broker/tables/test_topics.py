"""The table of topics: system topics, automatic creation, the file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.tables.topics import Topics, check_topic_name, describe, topic
from rocketq.common.clock import ManualClock
from rocketq.remoting import RequestRejected, ResponseCode
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.store.config import StoreConfig
from tests.broker.golden import config_file


def topics_in(folder: Path, **options: Any) -> Topics:
    config = BrokerConfig(broker_cluster_name="TestCluster", broker_name="broker-t", **options)
    live = LiveConfig(config, StoreConfig(store_path_root_dir=str(folder)))
    return Topics(live, folder / "topics.json", ManualClock())


async def test_a_new_broker_has_the_system_topics(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)

    described = {name: (topics.get(name), topics.is_system(name)) for name in topics}

    assert all(is_system for _, is_system in described.values())
    queues = {name: config.write_queue_nums for name, (config, _) in described.items() if config}
    assert queues == {
        "TBW102": 8,
        "SELF_TEST_TOPIC": 1,
        "BenchmarkTest": 1024,
        "TestCluster": 16,
        "broker-t": 1,
        "OFFSET_MOVED_EVENT": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        "TestCluster_REPLY_TOPIC": 1,
        "rmq_sys_REVIVE_LOG_TestCluster": 8,
        "rmq_sys_SYNC_BROKER_MEMBER_broker-t": 1,
        "RMQ_SYS_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": 1,
        "rmq_sys_wheel_timer": 1,
    }


async def test_a_first_message_makes_its_topic_after_the_template(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    heard: list[list[TopicConfig]] = []
    topics.on_change(heard.append)

    made = topics.create_on_send("orders", "TBW102", 4)

    assert made == topic("orders", 4, perm=6)
    assert heard == [[made]]
    assert topics.data_version.counter == 1
    await topics.published()
    assert '"orders"' in (tmp_path / "topics.json").read_text()


async def test_a_topic_never_gets_more_queues_than_its_template_has(tmp_path: Path) -> None:
    made = topics_in(tmp_path, default_topic_queue_nums=2).create_on_send("orders", "TBW102", 4)

    assert made is not None
    assert made.read_queue_nums == made.write_queue_nums == 2


@pytest.mark.parametrize("template", ["TBW102", "BenchmarkTest", "nothing"])
async def test_no_topic_is_made_without_a_template_that_passes_itself_on(
    template: str, tmp_path: Path
) -> None:
    topics = topics_in(tmp_path, auto_create_topic_enable=False)

    assert topics.create_on_send("orders", template, 4) is None
    assert "orders" not in topics


async def test_the_cluster_topic_can_serve_as_template(tmp_path: Path) -> None:
    topics = topics_in(tmp_path, auto_create_topic_enable=False)

    assert topics.create_on_send("orders", "TestCluster", 4) == topic("orders", 4)


async def test_topics_survive_a_restart_and_the_file_wins(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    topics.put(replace(topic("orders", 3), attributes={"message.type": "FIFO"}))
    topics.put(topic("TBW102", 2, perm=7))
    topics.put(topic("gone"))
    topics.delete("gone")
    await topics.close()

    again = topics_in(tmp_path)
    again.load()

    assert again.get("orders") == topics.get("orders")
    assert again.get("TBW102") == topic("TBW102", 2, perm=7)
    assert "gone" not in again
    assert again.data_version == topics.data_version


async def test_many_changes_at_once_are_written_together(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)

    for number in range(200):
        topics.create_on_send(f"topic-{number}", "TBW102", 1)
    await topics.published()

    stored = json.loads((tmp_path / "topics.json").read_text())["topicConfigTable"]
    assert len([name for name in stored if name.startswith("topic-")]) == 200


async def test_the_name_server_says_which_topics_are_ordered(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    topics.put_all([topic("orders"), topic("payments")])

    topics.set_ordered({"orders": "broker-t:4"})
    assert [name for name in topics if (each := topics.get(name)) and each.order] == ["orders"]
    version = topics.data_version
    topics.set_ordered({"orders": "broker-t:4"})
    assert topics.data_version == version
    topics.set_ordered({})
    assert not any((each := topics.get(name)) and each.order for name in topics)
    await topics.published()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "The specified topic is blank."),
        ("   ", "The specified topic is blank."),
        (
            "bad topic!",
            "The specified topic: bad topic!, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("x" * 128, "The specified topic is longer than topic max length 127."),
        ("%RETRY%" + "x" * 250, "The specified topic is longer than topic max length 255."),
    ],
)
def test_impossible_names_are_refused(name: str, text: str) -> None:
    with pytest.raises(RequestRejected) as refusal:
        check_topic_name(name)
    assert refusal.value.code == ResponseCode.INVALID_PARAMETER
    assert refusal.value.remark == text


@pytest.mark.parametrize("name", ["x" * 127, "%RETRY%" + "x" * 248, "a|b%c-d_E9"])
def test_possible_names_pass(name: str) -> None:
    check_topic_name(name)


def test_a_topic_is_described_as_rocketmq_does() -> None:
    config = replace(topic("WireTopic", 2), attributes={"message.type": "NORMAL"})

    assert describe(config) == (
        "TopicConfig [topicName=WireTopic, readQueueNums=2, writeQueueNums=2, perm=RW-, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={message.type=NORMAL}]"
    )


@pytest.mark.parametrize("store", ["store-4.9.8", "store-5.5.0"])
def test_files_of_java_brokers_are_read(store: str, tmp_path: Path) -> None:
    path, expected = config_file(store, "topics.json", tmp_path)

    topics = topics_in(path.parent)
    topics.load()

    for name, config in expected["topicConfigTable"].items():
        read = topics.get(name)
        assert read is not None
        assert (read.read_queue_nums, read.write_queue_nums, read.perm) == (
            config["readQueueNums"],
            config["writeQueueNums"],
            config["perm"],
        )
