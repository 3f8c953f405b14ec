"""`rocketq topic`, `group`, `cluster` and `message`."""

import json
from collections.abc import Iterator

import pytest

from rocketq import Message, Producer
from rocketq.testing import LocalBroker
from tests.cli.programs import run


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def ask(broker: LocalBroker, *words: str) -> str:
    ended = run(*words, "-n", broker.namesrv)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def data(broker: LocalBroker, *words: str) -> object:
    return json.loads(ask(broker, *words, "--json"))


def test_a_topic_is_made_listed_described_and_deleted(broker: LocalBroker) -> None:
    assert ask(broker, "topic", "create", "orders", "-q", "2").startswith("orders has 2 queues on ")
    run("send", "orders", "hello", "-n", broker.namesrv)
    titles, *rows = ask(broker, "topic", "list").splitlines()
    assert titles.split()[:3] == ["TOPIC", "QUEUES", "MESSAGES"]
    (own,) = (row.split() for row in rows if row.startswith("orders "))
    assert own[:3] == ["orders", "2", "1"]
    assert not any(
        any(own in row for own in ("RMQ_SYS", "TBW102", "%", "_REPLY_TOPIC")) for row in rows
    )
    assert "TBW102" in ask(broker, "topic", "list", "--all")
    described = data(broker, "topic", "describe", "orders")
    assert isinstance(described, dict)
    assert [queue["queue"] for queue in described["queues"]] == [0, 1]
    assert sum(queue["end"] for queue in described["queues"]) == 1
    assert ask(broker, "topic", "delete", "orders") == "orders is deleted\n"
    assert "orders" not in ask(broker, "topic", "list")


def test_a_group_is_listed_with_its_lag_and_sent_back(broker: LocalBroker) -> None:
    topic = broker.create_topic(queues=1)
    with Producer("p", namesrv=broker.namesrv) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"x"))
        tail = ("tail", topic, "--group", "readers", "--from", "earliest", "--no-follow")
        assert ask(broker, *tail) == "x\n" * 3
        producer.send(Message(topic, b"x"))
    lag = data(broker, "group", "lag", "readers", "--topic", topic)
    assert isinstance(lag, dict)
    assert [(queue["at"], queue["end"], queue["behind"]) for queue in lag["queues"]] == [(3, 4, 1)]
    assert "readers" in ask(broker, "group", "list")
    reset = ("group", "reset", "readers", "--topic", topic, "--to", "earliest")
    assert [row["continues_at"] for row in json.loads(ask(broker, *reset, "--json"))] == [0]
    assert ask(broker, *tail) == "x\n" * 4


def test_a_message_is_found_by_id_and_key(broker: LocalBroker) -> None:
    receipt = ask(broker, "send", "found", "hello", "--key", "k1", "--tag", "T").split()
    text = ask(broker, "message", "get", "found", receipt[0])
    assert f"msgId: {receipt[0]}" in text
    assert text.endswith("\nhello\n")
    found = data(broker, "message", "find", "found", "k1")
    assert isinstance(found, list)
    assert [each["msgId"] for each in found] == [receipt[0]]
    assert ask(broker, "message", "track", "found", receipt[0]).split() == ["GROUP", "STATE", "WHY"]


def test_brokers_are_listed_and_their_settings_shown_and_changed(broker: LocalBroker) -> None:
    assert broker.address in ask(broker, "cluster", "list")
    assert "brokerVersionDesc" in ask(broker, "cluster", "describe", "broker-a")
    assert ask(broker, "cluster", "config", "broker-a", "brokerName") == "broker-a\n"
    ask(broker, "cluster", "set", "broker-a", "fileReservedTime", "48")
    assert ask(broker, "cluster", "config", "broker-a", "fileReservedTime") == "48\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topic", "describe", "none"), "no broker serves the topic none"),
        (("topic", "delete", "none"), "there is no topic none"),
        (("topic", "create", "t", "--cluster", "other"), "say which cluster with --cluster"),
        (("cluster", "config", "nobody"), "no broker nobody is registered"),
        (("cluster", "config", "broker-a", "nosuch"), "broker-a has no setting nosuch"),
        (("message", "get", "t", "0" * 32), "no broker serves the topic t"),
    ],
)
def test_a_mistake_is_one_clear_line(
    broker: LocalBroker, words: tuple[str, ...], complaint: str
) -> None:
    ended = run(*words, "-n", broker.namesrv)
    assert ended.returncode == 1
    assert ended.stderr == f"rocketq: {complaint}\n" or complaint in ended.stderr
    assert ended.stderr.count("\n") == 1
