"""`rocketq send` and `rocketq tail` in pipes, `rocketq store` on the files behind them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.testing import LocalBroker
from tests.cli.programs import ENVIRONMENT, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[LocalBroker]:
    with LocalBroker({"enablePropertyFilter": "true"}, folder=folder) as broker:
        yield broker


@pytest.fixture(scope="module")
def producer(broker: LocalBroker) -> Iterator[Producer]:
    with Producer("test-pipes", namesrv=broker.namesrv) as producer:
        yield producer


def read_all(broker: LocalBroker, topic: str, *more: str) -> list[str]:
    ended = run(*("tail", topic, "--from", "earliest", "--no-follow", "-n", broker.namesrv, *more))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_lines_of_a_pipe_become_messages_and_lines_again(broker: LocalBroker) -> None:
    lines = [f"line {number}" for number in range(100)]
    sent = run("send", "piped", "-n", broker.namesrv, text="\n".join(lines) + "\n\n")
    assert sent.returncode == 0
    assert sent.stdout == ""
    assert sent.stderr.startswith("100 messages sent in ")
    assert sorted(read_all(broker, "piped")) == sorted(lines)


def test_every_receipt_and_every_message_is_a_line_of_json(broker: LocalBroker) -> None:
    options = ["--tag", "paid", "--key", "42", "--key", "43", "--property", "region=eu"]
    sent = run("send", "as-json", "hello", *options, "--json", "-n", broker.namesrv)
    receipt = json.loads(sent.stdout)
    assert receipt["status"] == "SEND_OK"
    (line,) = read_all(broker, "as-json", "--json")
    message = json.loads(line)
    assert message["msgId"] == receipt["msgId"]
    assert message["body"] == "hello"
    assert (message["tags"], message["keys"]) == ("paid", ["42", "43"])
    assert message["properties"]["region"] == "eu"


def test_bytes_of_any_encoding_go_through(broker: LocalBroker) -> None:
    body = b"caf\xe9"
    program = [sys.executable, "-m", "rocketq"]
    where = ["-n", broker.namesrv]
    sent = subprocess.run(
        [*map(os.fsencode, [*program, "send", "latin"]), body, *map(os.fsencode, where)],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert sent.returncode == 0, sent.stderr
    read = [*program, "tail", "latin", "--from", "earliest", "--no-follow", *where]
    out = subprocess.run(read, env=ENVIRONMENT, capture_output=True, timeout=60, check=True).stdout
    assert out == body + b"\n"


def test_a_file_is_one_message(broker: LocalBroker, tmp_path: Path) -> None:
    content = bytes(range(256))
    path = tmp_path / "picture"
    path.write_bytes(content)
    assert run("send", "files", "--file", str(path), "-n", broker.namesrv).returncode == 0
    assert [message.body for message in broker.messages("files")] == [content]


def test_what_tail_prints_as_json_can_be_sent_again(broker: LocalBroker) -> None:
    options = ["--tag", "paid", "--key", "42", "--property", "region=eu"]
    run("send", "original", "hello", *options, "-n", broker.namesrv)
    lines = "\n".join(read_all(broker, "original", "--json"))
    copied = run("send", "copy", "--json-in", "-n", broker.namesrv, text=lines)
    assert copied.returncode == 0, copied.stderr
    (message,) = broker.messages("copy")
    assert (message.body, message.tags, list(message.keys)) == (b"hello", "paid", ["42"])
    assert message.properties["region"] == "eu"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("no json", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ('{"body": "x", "key": "1"}', "line 2: unknown field key; known: body"),
        ('{"tags": "x"}', "line 2: there is no body"),
        ('{"bodyBase64": "?"}', "line 2: bodyBase64 is not base64"),
        ('{"body": "x", "keys": 3}', "line 2: keys must be a text or a list of texts"),
    ],
)
def test_a_line_that_is_no_message_is_named(broker: LocalBroker, line: str, complaint: str) -> None:
    text = '{"body": {"an": "object"}}\n' + line
    ended = run("send", "json-in", "--json-in", "-n", broker.namesrv, text=text)
    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_what_is_there_comes_in_the_order_of_time(broker: LocalBroker) -> None:
    topic = broker.create_topic(queues=4)
    numbers = [str(number) for number in range(40)]
    with Producer("in-order", namesrv=broker.namesrv) as producer:
        for number in numbers:
            producer.send(Message(topic, number.encode()))
    assert read_all(broker, topic) == numbers


def test_several_topics_are_read_by_name_and_by_pattern(broker: LocalBroker) -> None:
    for topic in ("shop-a", "shop-b", "other"):
        run("send", topic, f"in {topic}", "-n", broker.namesrv)
    assert read_all(broker, "shop-*") == ["in shop-a", "in shop-b"]
    assert read_all(broker, "shop-b", "other") == ["in shop-b", "in other"]


def test_the_layout_can_be_chosen(broker: LocalBroker) -> None:
    options = ["--tag", "T", "--key", "1", "--key", "2", "--property", "region=eu"]
    run("send", "laid-out", "body", *options, "-n", broker.namesrv)
    layout = r"{topic}\t{tag}\t{keys}\t{properties[region]}{properties[none]}\t{body}"
    assert read_all(broker, "laid-out", "--format", layout) == ["laid-out\tT\t1 2\teu\tbody"]


def test_a_body_is_sent_many_times_to_one_queue(broker: LocalBroker) -> None:
    topic = broker.create_topic(queues=4)
    to_queue = ("--to-queue", "broker-a:2")
    sent = run("send", topic, "again", "--count", "20", *to_queue, "-n", broker.namesrv)
    assert sent.returncode == 0
    messages = broker.messages(topic)
    assert [message.queue_id for message in messages] == [2] * 20


@pytest.mark.parametrize(
    ("selection", "bodies"),
    [
        (("--tag", "B"), ["2"]),
        (("--tag", "A || C"), ["1", "3"]),
        (("--sql", "size > 1"), ["2", "3"]),
    ],
)
def test_messages_are_selected(
    broker: LocalBroker, producer: Producer, selection: tuple[str, str], bodies: list[str]
) -> None:
    topic = broker.create_topic(queues=2)
    for number, tag in enumerate("ABC", start=1):
        size = {"size": str(number)}
        producer.send(Message(topic, str(number).encode(), tags=tag, properties=size))
    assert sorted(read_all(broker, topic, *selection)) == bodies


def test_tail_follows_until_it_has_enough(broker: LocalBroker, producer: Producer) -> None:
    """It is started before the topic exists, as one does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketq.cli", "tail", "later", "-c", "3", "-n", broker.namesrv],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == (
        "rocketq: no broker serves the topic later yet; waiting for one\n"
    )
    for body in (b"1", b"2", b"3"):
        producer.send(Message("later", body))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert sorted(out.split()) == ["1", "2", "3"]


def test_a_group_goes_on_where_it_stopped(broker: LocalBroker, producer: Producer) -> None:
    topic = broker.create_topic(queues=1)
    producer.send(Message(topic, b"first"))
    group = ("--group", "tail-group")
    assert read_all(broker, topic, *group) == ["first"]
    producer.send(Message(topic, b"second"))
    assert read_all(broker, topic, *group) == ["second"]


def test_tail_ends_with_its_reader_though_nothing_more_comes(
    broker: LocalBroker, producer: Producer
) -> None:
    producer.send(Message("looked-at-once", b"one"))
    command = f"{sys.executable} -m rocketq tail looked-at-once --from earliest"
    shell = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} -n {broker.namesrv} | head -1"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shell.returncode, shell.stdout, shell.stderr) == (0, "one\n", "")


def test_a_reader_that_has_seen_enough_is_no_error(broker: LocalBroker, producer: Producer) -> None:
    producer.send_batch([Message("long", b"line") for _ in range(5000)])
    command = f"{sys.executable} -m rocketq.cli tail long --from earliest --no-follow -n "
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} {broker.namesrv} | head -1"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == "line\n"
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("send", "t", "b", "--to-queue", "2"), "--to-queue 2: write it as BROKER:ID"),
        (("send", "t", "b", "--property", "x"), "--property x: write it as NAME=VALUE"),
        (("tail", "t", "--from", "yesterday"), "--from yesterday: it is earliest, latest"),
        (("tail", "t", "--tag", "a", "--sql", "b = 1"), "--tag and --sql exclude each other"),
        (("tail", "none", "--no-follow"), "no broker serves the topic none"),
        (("tail", "t", "--format", "{nothing}"), "--format: there is no {nothing}; there is topic"),
        (("tail", "t", "--format", "{body"), "--format {body: "),
        (("send", "t", "b", "--file", "f"), "--file and BODY exclude each other"),
        (("send", "t", "--file", "/no/such"), "cannot read /no/such: No such file"),
    ],
)
def test_a_mistake_is_one_clear_line(
    broker: LocalBroker, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = run(*arguments, "-n", broker.namesrv)
    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words", [("tail", "t"), ("send", "t", "b"), ("topic", "list"), ("admin", "topicList")]
)
def test_a_broker_in_place_of_a_name_server_is_recognised(
    broker: LocalBroker, words: tuple[str, ...]
) -> None:
    ended = run(*words, "-n", broker.address)
    assert ended.returncode == 1
    assert f"{broker.address} is not a NameServer; a broker?" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("b",), ()])
def test_nobody_there_is_one_clear_line(words: tuple[str, ...]) -> None:
    ended = run("send", "t", *words, "-n", "127.0.0.1:1", text="line\n" * 1500)
    assert ended.returncode == 1
    assert "127.0.0.1:1" in ended.stderr
    assert ended.stderr.count("\n") == 1


# Files


def test_a_store_is_checked_and_dumped_while_its_broker_runs(
    producer: Producer, folder: Path
) -> None:
    producer.send(Message("dumped", b"hello", tags="T"))
    (store,) = (path.parent for path in folder.rglob("commitlog"))
    checked = run("store", "check", str(store))
    assert checked.returncode == 0, checked.stdout
    assert "error" not in checked.stdout
    (line,) = run("store", "dump", str(store), "--topic", "dumped").stdout.splitlines()
    assert line.endswith(" [T] hello") or " [T " in line
    (text,) = run("store", "dump", str(store), "--topic", "dumped", "--json").stdout.splitlines()
    assert json.loads(text)["body"] == "hello"


def test_the_folder_of_up_is_taken_for_its_store(producer: Producer, folder: Path) -> None:
    (store,) = (path.parent for path in folder.rglob("commitlog"))
    assert store.name == "store"
    assert run("store", "check", str(store.parent)).returncode == 0
    producer.send(Message("in-up", b"hello"))
    lines = run("store", "dump", str(store.parent), "--topic", "in-up").stdout.splitlines()
    assert len(lines) == 1


def test_a_directory_that_is_no_store_is_one_clear_line(tmp_path: Path) -> None:
    for command in ("check", "dump"):
        ended = run("store", command, str(tmp_path))
        assert ended.returncode == 1
        assert ended.stderr == (
            f"rocketq: {tmp_path} is no store: it holds no commitlog directory\n"
        )
