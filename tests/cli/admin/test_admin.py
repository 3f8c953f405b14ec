"""What `rocketq admin` and `mqadmin` print; the tables are RocketMQ's."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from rocketq.cli.admin import run, run_as_mqadmin
from rocketq.testing import LocalBroker


class Result(NamedTuple):
    """What a command said, and how it ended."""

    exit_code: object
    output: str
    stderr: str


def invoke(*arguments: str) -> Result:
    """Run a sub-command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run("rocketq admin", list(arguments))
        except SystemExit as end:
            code = end.code
    return Result(code, out.getvalue(), err.getvalue())


class Tool:
    """The sub-commands, run against a real broker."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker

    def run(self, *arguments: str) -> Result:
        return invoke(*arguments, "-n", self.broker.namesrv)

    def lines(self, *arguments: str) -> list[str]:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.output.splitlines()

    def data(self, *arguments: str) -> object:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.output)


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    with LocalBroker() as broker:
        yield Tool(broker)


@pytest.fixture(scope="module")
def topic(tool: Tool) -> str:
    """A topic of one queue with two messages in it."""
    tool.lines("updateTopic", "-t", "orders", "-c", "DefaultCluster", "-r", "1", "-w", "1")
    tool.lines("sendMessage", "-t", "orders", "-p", "first", "-k", "key1", "-c", "TagA")
    tool.lines("sendMessage", "-t", "orders", "-p", "second", "-k", "key2", "-c", "TagB")
    return "orders"


def columns(line: str) -> list[str]:
    return re.split(r"\s{2,}|\s(?=#)", line.strip())


# Topics


def test_a_created_topic_is_reported_as_rocketmq_reports_it(tool: Tool) -> None:
    lines = tool.lines("updateTopic", "-t", "made", "-c", "DefaultCluster", "-r", "2", "-w", "3")
    assert lines == [
        f"create topic to {tool.broker.address} success.",
        "TopicConfig [topicName=made, readQueueNums=2, writeQueueNums=3, perm=RW-, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}]",
    ]


def test_an_ordered_topic_is_told_to_the_name_server(tool: Tool) -> None:
    lines = tool.lines(
        *("updateTopic", "-t", "in-order", "-b", tool.broker.address, "-w", "4", "-o", "true")
    )
    assert lines[0] == "set broker orderConf. isOrder=true, orderConf=[broker-a:4]"
    got = tool.lines("updateOrderConf", "-t", "in-order", "-m", "get")
    assert got == ["get orderConf success. topic=[in-order], orderConf=[broker-a:4] "]
    tool.lines("updateOrderConf", "-t", "in-order", "-m", "delete")
    assert "orderConf=[None]" in tool.lines("updateOrderConf", "-t", "in-order", "-m", "get")[0]


def test_a_route_is_printed_as_indented_json_or_as_a_list(tool: Tool, topic: str) -> None:
    text = "\n".join(tool.lines("topicRoute", "-t", topic))
    assert f'\t\t\t"brokerAddrs":{{\n\t\t\t\t0:"{tool.broker.address}"\n\t\t\t}},' in text
    head, row, dashes, total = tool.lines("topicRoute", "-t", topic, "-l")
    assert columns(head) == [
        *("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    ]
    assert columns(row) == [
        *("DefaultCluster", "broker-a", f"{{0={tool.broker.address}}}", "1", "1", "6")
    ]
    assert set(dashes) == {"-"}
    assert columns(total) == ["Total:", "1", "1", "1"]
    assert isinstance(tool.data("topicRoute", "-t", topic), dict)


def test_the_status_of_a_topic_is_a_row_a_queue(tool: Tool, topic: str) -> None:
    head, row, blank, tps = tool.lines("topicStatus", "-t", topic)
    assert head == (
        "#Broker Name                      #QID  #Min Offset           #Max Offset"
        "             #Last Updated"
    )
    assert columns(row)[:4] == ["broker-a", "0", "0", "2"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", columns(row)[4])
    assert blank == ""
    assert tps.startswith("Topic Put TPS: ")


def test_topics_are_listed_alone_or_with_their_clusters(tool: Tool, topic: str) -> None:
    assert topic in tool.lines("topicList")
    head, *rows = tool.lines("topicList", "-c")
    assert columns(head) == ["#Cluster Name", "#Topic", "#Consumer Group"]
    assert ["DefaultCluster", topic] in [columns(row)[:2] for row in rows]
    assert tool.lines("topicClusterList", "-t", topic) == ["DefaultCluster"]


def test_a_permission_is_changed(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "guarded", "-c", "DefaultCluster")
    where = tool.broker.address
    assert tool.lines("updateTopicPerm", "-t", "guarded", "-p", "4", "-c", "DefaultCluster") == [
        f"update topic perm from 6 to 4 in {where} success."
    ]
    same = tool.lines("updateTopicPerm", "-t", "guarded", "-p", "4", "-b", where)
    assert same == ["new perm equals to the old one!"]


def test_a_topic_is_deleted(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "gone", "-c", "DefaultCluster")
    assert tool.lines("deleteTopic", "-t", "gone", "-c", "DefaultCluster") == [
        "delete topic [gone] from cluster [DefaultCluster] success.",
        "delete topic [gone] from NameServer success.",
    ]
    result = tool.run("topicRoute", "-t", "gone")
    assert result.exit_code == 1
    assert result.stderr == "rocketq: topicRoute failed: no broker serves the topic gone\n"


def test_queues_are_shared_in_json(tool: Tool, topic: str) -> None:
    (line,) = tool.lines("allocateMQ", "-t", topic, "-i", "10.0.0.1")
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": topic}
    assert json.loads(line) == {"result": {"10.0.0.1": [queue]}}


def test_statistics_of_a_topic_without_readers(tool: Tool) -> None:
    tool.lines("updateTopic", "-t", "unread", "-c", "DefaultCluster")
    head, row = tool.lines("statsAll", "-t", "unread")
    assert columns(head)[0] == "#Topic"
    assert row.endswith("NO_CONSUMER")


# Groups


def test_a_group_is_made_and_deleted(tool: Tool) -> None:
    first, second = tool.lines("updateSubGroup", "-g", "GID_a", "-c", "DefaultCluster", "-r", "3")
    assert first == f"create subscription group to {tool.broker.address} success."
    assert second.startswith(
        "SubscriptionGroupConfig{groupName=GID_a, consumeEnable=true, consumeFromMinEnable=false, "
    )
    assert "retryMaxTimes=3" in second
    config = tool.lines("getConsumerConfig", "-g", "GID_a")
    assert config[0] == f"{'=' * 29}DefaultCluster:broker-a{'=' * 29}"
    assert f"{'retryMaxTimes':<40}=  3" in config
    assert tool.lines("deleteSubGroup", "-g", "GID_a", "-b", tool.broker.address) == [
        f"delete subscription group [GID_a] from broker [{tool.broker.address}] success."
    ]


def test_progress_of_all_groups_has_rocketmqs_columns(tool: Tool) -> None:
    head, *_ = tool.lines("consumerProgress")
    assert columns(head) == [
        *("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    ]


def test_nobody_online_is_an_error(tool: Tool) -> None:
    result = tool.run("consumerConnection", "-g", "GID_nobody", "-b", tool.broker.address)
    assert result.exit_code == 1
    assert "CONSUMER_NOT_ONLINE" in result.stderr


# Brokers and NameServers


def test_the_cluster_is_a_row_a_broker(tool: Tool) -> None:
    head, row = tool.lines("clusterList")
    assert "#InTPS(LOAD)" in head
    assert row.split()[:5] == ["DefaultCluster", "broker-a", "0", tool.broker.address, "V5_5_0"]
    more, _ = tool.lines("clusterList", "-m")
    assert columns(more)[-1] == "#OutTotalToday"


def test_a_brokers_state_and_options_are_pairs(tool: Tool) -> None:
    where = tool.broker.address
    assert f"{'brokerActive':<32}: true" in tool.lines("brokerStatus", "-b", where)
    in_cluster = tool.lines("brokerStatus", "-c", "DefaultCluster")
    assert f"{where:<24} {'brokerActive':<32}: true" in in_cluster
    head, *options = tool.lines("getBrokerConfig", "-b", where)
    assert head == f"============{where}============"
    assert f"{'brokerName':<50}=  broker-a" in options
    lines = tool.lines(
        *("updateBrokerConfig", "-b", where, "-k", "flushConsumerOffsetInterval", "-v", "4000")
    )
    assert lines == [f"update broker config success, {where}"]


def test_name_servers_are_told_and_asked(tool: Tool) -> None:
    namesrv = tool.broker.namesrv
    assert tool.lines("updateKvConfig", "-s", "n", "-k", "k", "-v", "v") == [
        "create or update kv config to namespace success."
    ]
    assert tool.lines("deleteKvConfig", "-s", "n", "-k", "k") == [
        "delete kv config from namespace success."
    ]
    head, *options = tool.lines("getNamesrvConfig")
    assert head == f"============{namesrv}============"
    assert f"{'orderMessageEnable':<50}=  false" in options
    update = tool.lines("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "44")
    assert update == [
        f"update name server config success![{namesrv}]",
        "waitSecondsForService : 44",
    ]
    (wiped,) = tool.lines("wipeWritePerm", "-b", "broker-a")
    assert wiped.startswith(f"wipe write perm of broker[broker-a] in name server[{namesrv}] OK, ")
    (added,) = tool.lines("addWritePerm", "-b", "broker-a")
    assert added == wiped.replace("wipe", "add")


# Messages


def test_a_message_is_found_and_described(tool: Tool, topic: str) -> None:
    head, row = tool.lines("queryMsgByKey", "-t", topic, "-k", "key1")
    assert columns(head) == ["#Message ID", "#QID", "#Offset", "#IndexKey"]
    message_id, *_, index_key = row.split()
    assert index_key.split("@")[1:5] == [topic, "K", "key1", message_id]

    found = tool.lines("queryMsgById", "-t", topic, "-i", message_id, "-f", "UTF-8")
    facts = dict(re.split(r":\s+", line, maxsplit=1) for line in found if ":  " in line)
    assert facts["Topic"] == topic
    assert facts["Tags"] == "[TagA]"
    assert facts["Keys"] == "[key1]"
    assert facts["Queue Offset"] == "0"
    assert facts["Message Body"] == "first"
    assert found[-1] == "WARN: No Consumer"
    same = tool.lines("queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "0")
    assert f"{'OffsetID:':<20} {facts['OffsetID']}" in same
    unique = tool.lines("queryMsgByUniqueKey", "-t", topic, "-i", message_id)
    assert unique[0] == f"{'Topic:':<20} {topic}"
    assert tool.lines("queryMsgById", "-t", topic, "-i", "0" * 32)[-1] == "Message not found!"


def test_messages_are_printed_with_all_they_carry(tool: Tool, topic: str) -> None:
    first, *rows = tool.lines("printMsg", "-t", topic)
    assert first == (
        f"minOffset=0, maxOffset=2, MessageQueue [topic={topic}, brokerName=broker-a, queueId=0]"
    )
    assert rows[0].endswith(" BODY: first")
    assert "MessageExt [brokerName=broker-a, queueId=0, storeSize=" in rows[0]
    assert f"toString()=Message{{topic='{topic}', flag=0, properties={{" in rows[0]
    assert rows[2] == "-" * 56
    quiet = tool.lines("printMsg", "-t", topic, "-d", "false", "-s", "TagB")
    assert [line.rpartition("BODY: ")[2] for line in quiet if "MSGID" in line] == ["NOT PRINT BODY"]


def test_messages_are_consumed_from_the_command_line(tool: Tool, topic: str) -> None:
    lines = tool.lines("consumeMessage", "-t", topic)
    assert lines[0] == "Consume ok"
    assert [line.rpartition("BODY: ")[2] for line in lines if "MSGID" in line] == [
        "first",
        "second",
    ]
    one = tool.data("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "1")
    assert isinstance(one, list)
    assert [message["body"] for message in one] == ["second"]


def test_entries_of_a_consume_queue_are_printed(tool: Tool, topic: str) -> None:
    lines = tool.lines("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "1")
    assert lines[:2] == ["Queue data: ", "max: 2, min: 0"]
    assert lines[3] == "idx: 0"
    assert lines[4].startswith("ConsumeQueueData{physicOffset=")


def test_offsets_are_reset_by_time(tool: Tool, topic: str) -> None:
    tool.lines("updateSubGroup", "-g", "GID_reset", "-c", "DefaultCluster")
    lines = tool.lines("resetOffsetByTime", "-g", "GID_reset", "-t", topic, "-s", "0")
    assert lines[0] == (
        f"start reset consumer offset by specified, group[GID_reset], topic[{topic}], "
        "force[true], timestamp(string)[0], timestamp(long)[0]"
    )
    assert columns(lines[1]) == ["#brokerName", "#queueId", "#offset"]
    assert columns(lines[2]) == ["broker-a", "0", "0"]
    skipped = tool.lines("skipAccumulatedMessage", "-g", "GID_reset", "-t", topic)
    assert columns(skipped[1]) == ["broker-a", "0", "2"]
    result = tool.run("resetOffsetByTime", "-g", "GID_reset", "-t", topic, "-s", "tomorrow")
    assert result.exit_code == 1
    assert "tomorrow is no time" in result.stderr


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("updateTopic", "-t", "x"), "one of -b (a broker) and -c (a cluster)"),
        (("sendMessage", "-t", "x", "-p", "b", "-i", "1"), "Broker name must be set"),
        (("consumeMessage", "-t", "x", "-i", "1"), "Please set the brokerName before queueId!"),
        (("consumeMessage", "-t", "x", "-o", "1"), "Please set queueId before offset!"),
        (("updateOrderConf", "-t", "x", "-m", "put"), "please set orderConf with option -v."),
        (("updateOrderConf", "-t", "x", "-m", "mend"), "it is put, get or delete"),
    ],
)
def test_options_that_do_not_go_together_show_the_usage(
    tool: Tool, arguments: tuple[str, ...], sentence: str
) -> None:
    result = tool.run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert f"usage: rocketq admin {arguments[0]}" in result.stderr


def test_names_are_found_however_they_are_written(tool: Tool) -> None:
    assert tool.lines("TOPICLIST") == tool.lines("topicList")


def test_no_name_server_is_one_clear_line() -> None:
    result = invoke("topicList", "-n", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("rocketq: topicList failed: no NameServer answered")
    assert result.stderr.count("\n") == 1


def test_mqadmin_alone_lists_its_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mqadmin"])
    run_as_mqadmin()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The most commonly used mqadmin commands are:"
    assert f"   {'topicRoute':<35} Examine topic route info." in lines
    assert lines[-1] == ("See 'mqadmin help <command>' for more information on a specific command.")


def test_mqadmin_says_when_it_has_no_such_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mqadmin", "fooBar"])
    run_as_mqadmin()
    assert capsys.readouterr().out == "The sub command fooBar not exist.\n"


def test_mqadmin_ends_with_1_when_an_option_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mqadmin", "topicRoute"])
    with pytest.raises(SystemExit) as end:
        run_as_mqadmin()
    assert end.value.code == 1
    assert "the following arguments are required: -t/--topic" in capsys.readouterr().err
