"""Sub-commands of mqadmin that look again and again, and those for what is seldom there."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.cli.admin.command import TABLE
from rocketq.cli.admin.java_text import direct_result_text
from rocketq.cli.commands import _parser
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult
from rocketq.remoting.headers import AddBroker, RemoveBroker
from rocketq.store import MessageInner, MessageStore, StoreConfig
from rocketq.testing import LocalBroker
from tests.cli.programs import run
from tests.cli.stand_in import StandIn


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def admin(broker: LocalBroker, *words: str) -> str:
    ended = run("admin", *words, "-n", broker.namesrv)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_reports_come_again_and_again(broker: LocalBroker) -> None:
    words = ("-c", "DefaultCluster", "-i", "1", "--rounds", "2")
    text = admin(broker, "haStatus", *words)
    assert text.count("#MasterCommitLogMaxOffset") == 2
    rounds = [json.loads(line) for line in admin(broker, "haStatus", *words, "--json").splitlines()]
    assert [[info["master"] for info in each.values()] for each in rounds] == [[True], [True]]
    listed = admin(broker, "clusterList", "-i", "1", "--rounds", "2")
    assert listed.count("#Cluster Name") == 2


def test_send_times_of_clusters_are_data_in_every_round(broker: LocalBroker) -> None:
    words = ("clusterRT", "-a", "3", "-s", "16", "-i", "0", "--rounds", "2", "--json")
    rounds = [json.loads(line) for line in admin(broker, *words).splitlines()]
    assert [each[0]["successCount"] for each in rounds] == [3, 3]


def test_monitoring_tells_of_groups_that_are_behind(broker: LocalBroker) -> None:
    topic = broker.create_topic(queues=1)
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        tail = ("tail", topic, "--group", "late", "--from", "earliest", "--no-follow")
        assert run(*tail, "-n", broker.namesrv).stdout == "x\n"
        producer.send(Message(topic, b"x"))
    words = ("startMonitoring", "--first", "0", "--rounds", "1")
    assert "group=late undone=1 consumers=0" in admin(broker, *words)
    (found,) = json.loads(admin(broker, *words, "--json"))
    assert (found["group"], found["undoneMessages"]) == ("late", 1)


def test_a_master_has_no_flush_offset_of_its_master(broker: LocalBroker) -> None:
    said = admin(broker, "resetMasterFlushOffset", "-b", broker.address, "-o", "42")
    assert said == "reset master flush offset to 42 success\n"


def test_records_of_a_file_are_shown(broker: LocalBroker, tmp_path: Path) -> None:
    async def fill() -> None:
        async with MessageStore(StoreConfig(store_path_root_dir=str(tmp_path))) as store:
            for body in (b"first", b"second"):
                store.append(MessageInner(topic="kept", queue_id=0, body=body))

    asyncio.run(fill())
    log = tmp_path / "commitlog" / ("0" * 20)
    shown = admin(broker, "dumpCompactionLog", "-f", str(log)).splitlines()
    assert len(shown) == 2
    assert all("topic='kept'" in line for line in shown)
    ended = run("admin", "dumpCompactionLog", "-f", str(tmp_path / "none"), "-n", broker.namesrv)
    assert (ended.returncode, "No such file" in ended.stderr) == (1, True)


def test_containers_are_told(broker: LocalBroker) -> None:
    """RocketMQ's container is stood in for by a server that takes its two requests."""
    with StandIn(AddBroker, RemoveBroker) as container:
        said = admin(broker, "addBroker", "-c", container.address, "-b", "/etc/b.conf")
        assert said == f"add broker to {container.address} success\n"
        said = admin(broker, "removeBroker", "-c", container.address, "-b", "C:broker-a:1")
        assert said == f"remove broker from {container.address} success\n"
    assert container.taken == [
        AddBroker(config_path="/etc/b.conf"),
        RemoveBroker(broker_cluster_name="C", broker_name="broker-a", broker_id=1),
    ]
    wrong = run("admin", "removeBroker", "-c", "127.0.0.1:1", "-b", "x", "-n", broker.namesrv)
    assert (wrong.returncode, "cluster:name:id" in wrong.stderr) == (1, True)


@pytest.mark.parametrize("name", ["updateStaticTopic", "rocksDBConfigToJson", "getLiteTopicInfo"])
def test_what_is_not_there_is_said_in_one_line(broker: LocalBroker, name: str) -> None:
    ended = run("admin", name, "-n", broker.namesrv, "-qn", "4")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def of_rocketmq() -> dict[str, list[str]]:
    """What `mqadmin help COMMAND` of 5.5.0 says: each command with its options."""
    lines = (Path(__file__).parent / "mqadmin-5.5.0.txt").read_text().splitlines()
    return {name: options for name, *options in map(str.split, lines)}


def test_no_sub_command_of_rocketmq_is_missing(of_rocketmq: dict[str, list[str]]) -> None:
    assert len(of_rocketmq) == 96
    assert sorted(of_rocketmq.keys() - TABLE.keys()) == []


def test_no_option_of_a_sub_command_is_missing(of_rocketmq: dict[str, list[str]]) -> None:
    missing = {
        name: sorted({*options} - {word for each in known for word in each.option_strings})
        for name, options in of_rocketmq.items()
        if not getattr(TABLE[name], "takes_anything", False)
        for known in [_parser(TABLE[name], name)._actions]
    }
    assert {name: options for name, options in missing.items() if options} == {}


def test_slaves_are_changed_too_when_an_option_says_so(broker: LocalBroker) -> None:
    """RocketMQ wants a value with it, and does not look at it."""
    words = ("-c", "DefaultCluster", "-k", "transactionCheckMax", "-v", "13", "-a", "true")
    assert admin(broker, "updateBrokerConfig", *words).startswith("update broker config success")


def test_a_message_is_looked_for_in_a_time(broker: LocalBroker) -> None:
    topic = broker.create_topic(queues=1)
    with Producer("p", namesrv=broker.namesrv) as producer:
        sent = producer.send(Message(topic, b"x", keys=["k"])).msg_id
    words = ("queryMsgByUniqueKey", "-t", topic, "-i", sent)
    assert sent in admin(broker, *words, "-s", "0")
    assert "Message not found!" in admin(broker, *words, "-e", "1")
    by_tag = run("admin", "queryMsgByKey", "-t", topic, "-k", "k", "-p", "T", "-n", broker.namesrv)
    assert (by_tag.returncode, "only keys" in by_tag.stderr) == (1, True)


def test_people_can_make_and_describe_groups(broker: LocalBroker) -> None:
    made = run("group", "create", "billing", "--retries", "3", "-n", broker.namesrv)
    assert made.stdout.startswith("billing has 3 retries on "), made.stderr
    described = json.loads(
        run("group", "describe", "billing", "--json", "-n", broker.namesrv).stdout
    )
    assert described[0]["settings"]["retryMaxTimes"] == "3"
    copies = run("cluster", "copies", "--json", "-n", broker.namesrv)
    assert json.loads(copies.stdout)[0]["slave"] == "none"


def test_what_became_of_a_message_handed_to_a_client_reads_as_in_java() -> None:
    result = ConsumeMessageDirectlyResult(consume_result="CR_SUCCESS", spent_time_mills=3)
    assert direct_result_text(result) == (
        "ConsumeMessageDirectlyResult [order=false, autoCommit=true, consumeResult=CR_SUCCESS, "
        "remark=null, spentTimeMills=3]"
    )
