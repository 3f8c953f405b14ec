"""`rocketq topic`, `group`, `broker`, `cluster`, `message` and `user`."""

import json
import re
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


def rateless(text: str) -> str:
    """Without what changes from one moment to the next."""
    return re.sub(r"\d+\.\d\b", "?", text)


def test_a_broker_is_asked_where_a_word_follows(broker: LocalBroker) -> None:
    listed, clusters = (ask(broker, noun, "list") for noun in ("broker", "cluster"))
    assert rateless(listed) == rateless(clusters)
    assert "commitLogMaxOffset" in ask(broker, "broker", "describe", "broker-a")
    assert ask(broker, "broker", "config", broker.address, "brokerName") == "broker-a\n"
    assert "--printImportantConfig" in run("broker", "--help").stdout


def test_messages_are_sent_and_followed_under_their_noun(broker: LocalBroker) -> None:
    assert ask(broker, "message", "send", "nouns", "hello").count("\n") == 1
    tail = ("message", "tail", "nouns", "--from", "earliest", "--no-follow")
    assert ask(broker, *tail) == "hello\n"


def test_a_user_is_made_allowed_changed_and_deleted(broker: LocalBroker) -> None:
    created = ask(broker, "user", "create", "otto", "--password", "12345678")
    assert created == f"otto can log in ({broker.address})\n"
    assert data(broker, "user", "list") == [{"user": "otto", "kind": "Normal", "state": "enable"}]
    ask(broker, "user", "allow", "otto", "Topic:orders", "Pub,Sub")
    ask(broker, "user", "deny", "otto", "Group:g*", "Sub", "--from", "10.0.0.9")
    ask(broker, "user", "change", "otto", "--state", "disable")
    described = data(broker, "user", "describe", "otto")
    assert isinstance(described, dict)
    assert described["state"] == "disable"
    assert described["rights"] == [
        {"resource": "Topic:orders", "decision": "Allow", "actions": "Pub, Sub", "from": ""},
        {"resource": "Group:g*", "decision": "Deny", "actions": "Sub", "from": "10.0.0.9"},
    ]
    assert "12345678" not in ask(broker, "user", "describe", "otto")
    ask(broker, "user", "forget", "otto", "Topic:orders")
    assert "Topic:orders" not in ask(broker, "user", "describe", "otto")
    assert ask(broker, "user", "delete", "otto").startswith("otto is deleted")
    assert data(broker, "user", "list") == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topic", "describe", "none"), "no broker serves the topic none"),
        (("topic", "delete", "none"), "there is no topic none"),
        (("topic", "create", "t", "--cluster", "other"), "say which cluster with --cluster"),
        (("cluster", "config", "nobody"), "no broker nobody is registered"),
        (("cluster", "config", "broker-a", "nosuch"), "broker-a has no setting nosuch"),
        (("message", "get", "t", "0" * 32), "no broker serves the topic t"),
        (("broker", "describe", "nobody"), "no broker nobody is registered"),
        (("user", "describe", "nobody"), "there is no user nobody"),
    ],
)
def test_a_mistake_is_one_clear_line(
    broker: LocalBroker, words: tuple[str, ...], complaint: str
) -> None:
    ended = run(*words, "-n", broker.namesrv)
    assert ended.returncode == 1
    assert ended.stderr == f"rocketq: {complaint}\n" or complaint in ended.stderr
    assert ended.stderr.count("\n") == 1
