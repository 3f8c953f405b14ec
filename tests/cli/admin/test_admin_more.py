"""The sub-commands of mqadmin that were added after the first forty-two."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq import Message, Producer, PushConsumer
from rocketq.testing import LocalBroker
from tests.cli.admin.test_admin import Tool
from tests.waiting import wait_until

CLUSTER = ("-c", "DefaultCluster")


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    with LocalBroker({"traceTopicEnable": "true"}) as broker:
        yield Tool(broker)


def test_topics_and_groups_come_from_files(tool: Tool, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(
        json.dumps(
            [
                {"topicName": "from-file-a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
                {"topicName": "from-file-b", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6},
            ]
        )
    )
    address = tool.broker.address
    assert tool.lines("updateTopicList", "-f", str(topics), *CLUSTER) == [
        f"submit batch of topic config to {address} success, please check the result later."
    ]
    assert {"from-file-a", "from-file-b"} <= set(tool.lines("topicList"))
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps([{"groupName": "g-file", "retryMaxTimes": 3}]))
    assert tool.lines("updateSubGroupList", "-f", str(groups), "-b", address) == [
        f"submit batch of group config to {address} success, please check the result later."
    ]
    assert "retryMaxTimes" in "\n".join(tool.lines("getConsumerConfig", "-g", "g-file"))
    missing = tool.run("updateTopicList", "-f", str(tmp_path / "none"), *CLUSTER)
    assert f"the file path {tmp_path / 'none'} does not exists" in missing.stderr


def test_how_a_group_fetches_is_set(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "popped", *CLUSTER)
    tool.lines("updateSubGroup", "-g", "poppers", *CLUSTER)
    words = ("setConsumeMode", "-t", "popped", "-g", "poppers", "-m", "POP", "-q", "2", *CLUSTER)
    assert tool.lines(*words) == [
        f"set consume mode to {tool.broker.address} success.",
        "topic[popped] group[poppers] consume mode[POP] popShareQueueNum[2]",
    ]


def test_consumers_tell_about_themselves(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tool.lines("updateTopic", "-t", "told", "-r", "1", "-w", "1", *CLUSTER)
    consumer = PushConsumer(
        "tellers", namesrv=tool.broker.namesrv, topics={"told": "A || B"}, listener=lambda _: None
    )
    with consumer:
        wait_until(lambda: any(queue.topic == "told" for queue in consumer.assignment))
        head, row, *findings = tool.lines("consumerStatus", "-g", "tellers")
        assert head.split() == ["#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"]
        number, client_id, _, path = row.split()
        assert number == "1"
        assert "Rebalance OK" in findings
        kept = Path(path).read_text()
        assert "#Consumer Subscription#" in kept
        one = "\n".join(tool.lines("consumerStatus", "-g", "tellers", "-i", client_id, "-s"))
        for section in ("Properties", "Subscription", "Offset", "MQ Detail", "RT&TPS", "jstack"):
            assert f"#Consumer {section}#" in one
        assert "SubExpression: A || B" in one
        data = tool.data("consumerStatus", "-g", "tellers", "-i", client_id)
        assert isinstance(data, dict)
        assert "properties" in data
    assert os.listdir(tmp_path) != []


def test_a_group_nobody_knows_is_named(tool: Tool) -> None:
    for words in (("consumerProgress", "-g", "nobody"), ("consumerStatus", "-g", "nobody")):
        result = tool.run(*words)
        assert result.exit_code == 1
        assert "no broker knows the consumer group nobody" in result.stderr


def test_brokers_are_timed(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "timed", "-r", "2", "-w", "2", *CLUSTER)
    head, *rows, mean = tool.lines("checkMsgSendRT", "-t", "timed", "-a", "4")
    assert head.split()[0] == "#Broker"
    assert [row.split()[1] for row in rows] == ["0", "1", "0", "1"]
    assert mean.startswith("Avg RT: ")
    lines = tool.lines("sendMsgStatus", "-b", "broker-a", "-c", "2")
    assert len(lines) == 2
    assert "SendResult=SendResult [sendStatus=SEND_OK, msgId=" in lines[0]
    head, row = tool.lines("clusterRT", "-a", "2", "--rounds", "1")
    assert head.split()[4:] == ["#RT", "#successCount", "#failCount"]
    assert row.split()[:2] == ["DefaultCluster", "broker-a"]
    assert row.split()[3:] == ["2", "0"]


def test_replication_and_cold_data_are_shown(tool: Tool) -> None:
    address = tool.broker.address
    status = tool.lines("haStatus", "-b", address)
    assert status[:5][1] == f"#MasterAddr\t{address}"
    assert "#SlaveNum\t0" in status
    assert tool.lines(
        "updateColdDataFlowCtrGroupConfig", "-g", "cold", "-v", "1048576", "-b", address
    ) == [f"updateColdDataFlowCtrGroupConfig success, {address}"]
    assert "cold" in "\n".join(tool.lines("getColdDataFlowCtrInfo", *CLUSTER))
    assert tool.lines("removeColdDataFlowCtrGroupConfig", "-g", "cold", *CLUSTER) == [
        f"remove broker cold read threshold success, {address}"
    ]
    assert tool.lines("setCommitLogReadAheadMode", "-m", "1", "-b", address)[1] == (
        "commitLog set readAhead mode rstStrset commitlog readahead mode success, mode: 1"
    )
    assert tool.run("setCommitLogReadAheadMode", "-m", "2", "-b", address).exit_code == 1


def test_the_way_of_a_message_is_shown(tool: Tool) -> None:
    namesrv = tool.broker.namesrv
    tool.lines("updateTopic", "-t", "traced", "-r", "1", "-w", "1", *CLUSTER)
    with Producer("tracers", namesrv=namesrv, trace=True) as producer:
        message_id = producer.send(Message("traced", b"x")).msg_id

    def rows() -> list[str]:
        result = tool.run("queryMsgTraceById", "-i", message_id)
        return [line for line in result.output.splitlines() if line.startswith("Pub")]

    (row,) = wait_until(rows, "the trace")
    words = row.split()
    assert (words[1], words[-1]) == ("tracers", "success")


def test_one_queue_is_printed_and_its_tags_counted(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "printed", "-r", "1", "-w", "1", *CLUSTER)
    for tag in ("A", "B", "A"):
        tool.lines("sendMessage", "-t", "printed", "-p", f"in {tag}", "-c", tag)
    words = ("printMsgByQueue", "-t", "printed", "-a", "broker-a", "-i", "0")
    assert tool.lines(*words) == []
    lines = tool.lines(*words, "-p", "true", "-d", "true", "-f", "true")
    assert [line.rpartition(" BODY: ")[2] for line in lines[:3]] == ["in A", "in B", "in A"]
    assert [line.split() for line in lines[3:]] == [
        ["Tag:", "A", "Count:", "2"],
        ["Tag:", "B", "Count:", "1"],
    ]


def test_a_cluster_is_exported(tool: Tool, tmp_path: Path) -> None:
    tool.lines("updateTopic", "-t", "exported", "-r", "2", "-w", "2", *CLUSTER)
    folder = ("-f", str(tmp_path))
    assert tool.lines("exportMetadata", *CLUSTER, *folder) == [
        f"export {tmp_path}/metadata.json success"
    ]
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["topicConfigTable"]["exported"]["writeQueueNums"] == 2
    assert "TBW102" not in metadata["topicConfigTable"]
    assert {"subscriptionGroupTable", "exportTime"} <= metadata.keys()
    tool.lines("exportMetadata", "-b", tool.broker.address, "-t", *folder)
    assert "subscriptionGroupTable" not in json.loads((tmp_path / "topic.json").read_text())
    tool.lines("exportConfigs", *CLUSTER, *folder)
    configs = json.loads((tmp_path / "configs.json").read_text())
    assert configs["clusterScale"]["masterBrokerSize"] == 1
    assert configs["brokerConfigs"]["broker-a"]["brokerName"] == "broker-a"
    tool.lines("exportMetrics", *CLUSTER, *folder)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert "broker-a" in metrics["evaluateReport"]
