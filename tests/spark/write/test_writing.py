"""What a sink sends, and what it does when it cannot."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from rocketq import Message, Producer
from rocketq.client.errors import NoRoute
from rocketq.message.message import MessageExt
from rocketq.spark.options import InvalidOptions, sink_options
from rocketq.spark.wire import broker_socket
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import WriteFailed, write_rows
from rocketq.spark.write.sender import SendRefused
from rocketq.spark.write.sink import check_schema
from rocketq.spark.write.written import Written
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows, numbers
from tests.waiting import wait_until

MAP = pa.map_(pa.string(), pa.string())


def write(namesrv: str, origin: str = "a test", /, *tables: pa.RecordBatch, **options: Any) -> Any:
    given = {"namesrv": namesrv, **{name: str(value) for name, value in options.items()}}
    return write_rows(sink_options(given), task(origin), iter(tables))


def task(sink: str) -> TaskName:
    return TaskName(sink=sink, batch=0, partition=0)


def table(**columns: Any) -> pa.RecordBatch:
    types = {"body": pa.binary(), "properties": MAP, "flag": pa.int32(), "delay_level": pa.int32()}
    arrays = [pa.array(values, types.get(name)) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def by_body(messages: list[MessageExt]) -> dict[bytes, MessageExt]:
    return {message.body: message for message in messages}


def test_columns_become_parts_of_the_message(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic()
    rows = table(
        body=[b"a", b"b"],
        tags=["paid", None],
        keys=[["k1", "k2"], []],
        properties=[[("city", "Oslo"), ("TAGS", "not this one")], None],
        sharding_key=["eu", None],
        flag=[9, None],
    )
    assert write(local_broker.namesrv, "o", rows, topic=topic) == Written(2, 178)
    found = by_body(local_broker.messages(topic))
    assert (found[b"a"].tags, found[b"a"].keys, found[b"a"].flag) == ("paid", ["k1", "k2"], 9)
    assert found[b"a"].get_property("city") == "Oslo"
    assert found[b"a"].sharding_key == "eu"
    assert (found[b"b"].tags, found[b"b"].keys, found[b"b"].flag) == (None, [], 0)


def test_what_is_written_is_read_again(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    rows = table(
        body=[bytes([i % 256]) * (i + 1) for i in range(300)],
        tags=["even" if i % 2 == 0 else None for i in range(300)],
        keys=[f"k{i} all" if i % 3 else None for i in range(300)],
        properties=[[("n", str(i)), ("имя", "ё")] if i % 5 else None for i in range(300)],
        flag=list(range(300)),
    )
    pieces = [rows.slice(0, 7), rows.slice(7, 200), rows.slice(207)]
    write(any_cluster.namesrv, "round trip", *pieces, topic=topic, batchMessages=50)
    read: list[dict[str, Any]] = []

    def all_can_be_read() -> bool:
        """A Java broker acknowledges a message shortly before it can be read."""
        read[:] = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
        return len(read) >= 300

    wait_until(all_can_be_read)
    read.sort(key=lambda row: row["flag"])
    assert len({row["msg_id"] for row in read}) == 300
    own = {"UNIQ_KEY", "TAGS", "KEYS", "WAIT", "CLUSTER", "INSTANCE_ID"}
    for got, sent in zip(read, rows.to_pylist(), strict=True):
        assert {name: got[name] for name in ("body", "tags", "keys", "flag")} == {
            name: sent[name] for name in ("body", "tags", "keys", "flag")
        }
        added = [(name, value) for name, value in got["properties"] if name not in own]
        assert added == (sent["properties"] or [])


def test_a_column_says_which_topic_unless_the_option_does(local_broker: LocalBroker) -> None:
    first, second, third = (local_broker.create_topic() for _ in range(3))
    rows = table(body=[b"1", b"2", b"3"], topic=[first, second, first])
    write(local_broker.namesrv, "o", rows)
    assert sorted(m.body for m in local_broker.messages(first)) == [b"1", b"3"]
    assert [m.body for m in local_broker.messages(second)] == [b"2"]
    write(local_broker.namesrv, "o", rows, topic=third)
    assert len(local_broker.messages(third)) == 3


def test_one_key_means_one_queue_and_its_order(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic(queues=4)
    rows = table(
        body=[b"%d" % i for i in range(500)], sharding_key=[f"city-{i % 7}" for i in range(500)]
    )
    write(
        *(local_broker.namesrv, "o", rows.slice(0, 250), rows.slice(250)),
        topic=topic,
        batchMessages=11,
    )
    by_key: dict[int, list[MessageExt]] = defaultdict(list)
    for message in local_broker.messages(topic):
        by_key[int(message.body) % 7].append(message)
    assert len(by_key) == 7
    for found in by_key.values():
        assert len({message.queue_id for message in found}) == 1
        found.sort(key=lambda message: message.queue_offset)
        assert [int(m.body) for m in found] == sorted(int(m.body) for m in found)
    # The SDK, and Java, choose the same queues.
    with Producer("p", namesrv=local_broker.namesrv) as producer:
        sent = producer.send(Message(topic, b"x", sharding_key="city-3"))
    assert sent.queue.queue_id == by_key[3][0].queue_id


def test_columns_may_have_kafkas_names(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic(queues=4)
    rows = table(
        value=["a", "b", "c"],
        key=pa.array([b"Oslo", None, b"Oslo"], pa.binary()),
        partition=pa.array([0, 1, 2], pa.int32()),
    )
    write(local_broker.namesrv, "o", rows, topic=topic)
    found = by_body(local_broker.messages(topic))
    assert (found[b"a"].keys, found[b"b"].keys) == (["Oslo"], [])
    assert found[b"a"].queue_id == found[b"c"].queue_id, "one key, one queue"
    unfit = table(value=["a", "b"], key=pa.array([b"Oslo", b"\xff"], pa.binary()))
    with pytest.raises(WriteFailed, match="row 1: the key is not text"):
        write(local_broker.namesrv, "o", unfit, topic=topic)


def test_delayed_rows_arrive_later(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic()
    rows = table(body=[b"now", b"later"], delay_level=[None, 1], flag=[1, 2], tags=["a", "b"])
    write(local_broker.namesrv, "o", rows, topic=topic)
    assert [m.body for m in local_broker.messages(topic)] == [b"now"]
    later = by_body(local_broker.wait_for_messages(topic, 2))[b"later"]
    assert later.store_timestamp - later.born_timestamp >= 900
    assert (later.flag, later.tags) == (2, "b")


def test_a_row_larger_than_a_batch_goes_alone(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic()
    rows = table(body=[b"s" * 10, b"l" * 5000, b"t" * 10])
    write(local_broker.namesrv, "o", rows, topic=topic, batchBytes=1024)
    assert sorted(len(m.body) for m in local_broker.messages(topic)) == [10, 10, 5000]


def test_a_task_that_is_run_again_sends_the_same_unique_keys(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic()
    rows = table(body=[b"%d" % i for i in range(20)])
    for _ in range(2):
        write(local_broker.namesrv, "query/7/partition", rows, topic=topic)
    write(local_broker.namesrv, "query/8/partition", rows, topic=topic)
    ids: dict[bytes, list[str]] = defaultdict(list)
    for message in local_broker.messages(topic):
        ids[message.body].append(message.msg_id)
    assert {len(found) for found in ids.values()} == {3}
    assert len({each for found in ids.values() for each in found}) == 40


def test_topics_of_a_namespace_are_written_under_it(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic(f"shop%{local_broker.new_name()}")
    bare = topic.removeprefix("shop%")
    write(local_broker.namesrv, "o", table(body=[b"1"]), topic=bare, namespace="shop")
    assert [m.body for m in local_broker.messages(topic)] == [b"1"]


# Failures


def open_clients() -> int:
    """Sockets of this process.

    The broker is in it: what it still has open of an earlier test may be closed meanwhile.
    """
    return sum(is_socket(Path("/proc/self/fd") / number) for number in os.listdir("/proc/self/fd"))


def is_socket(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor).startswith("socket:")
    except FileNotFoundError:  # that of the listing
        return False


def test_a_row_that_cannot_be_a_message_is_named(local_broker: LocalBroker) -> None:
    before = open_clients()
    rows = table(body=[b"1", b"2", None])
    with pytest.raises(WriteFailed, match=r"row 2 for topic 'orders': the body is null"):
        write(local_broker.namesrv, "o", rows, topic="orders")
    with pytest.raises(WriteFailed, match="row 1: the topic is null"):
        write(local_broker.namesrv, "o", table(body=[b"1", b"2"], topic=["orders", None]))
    wait_until(lambda: open_clients() <= before)


def test_the_brokers_answer_is_told_with_the_topic(local_broker: LocalBroker) -> None:
    topic, before = local_broker.create_topic(), open_clients()
    rows = table(body=[b"x" * (5 << 20)])
    with pytest.raises(SendRefused, match=rf"1 rows for topic '{topic}'.*MESSAGE_ILLEGAL"):
        write(local_broker.namesrv, "o", rows, topic=topic)
    wait_until(lambda: open_clients() <= before)


@pytest.fixture
def strict_broker() -> Iterator[LocalBroker]:
    """A broker that makes no topics by itself."""
    with LocalBroker({**SETTINGS, "autoCreateTopicEnable": "false"}) as broker:
        yield broker


def test_a_topic_nobody_makes_is_named_at_once(strict_broker: LocalBroker) -> None:
    with pytest.raises(NoRoute, match="'nowhere'"):
        write(strict_broker.namesrv, "o", table(body=[b"1"]), topic="nowhere")


@pytest.mark.parametrize("pending", [1, 16])
def test_a_write_goes_on_when_the_broker_is_back(strict_broker: LocalBroker, pending: int) -> None:
    topic = strict_broker.create_topic()

    def tables() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            yield table(body=[b"%d" % number])
            if number == 5:
                strict_broker.stop()
                threading.Timer(0.3, strict_broker.start).start()

    given = {"namesrv": strict_broker.namesrv, "topic": topic, "maxPending": str(pending)}
    write_rows(sink_options(given), task("o"), tables())
    wait_until(lambda: Cluster(strict_broker.namesrv).queues(topic))
    assert set(numbers(batch_rows(namesrv=strict_broker.namesrv, subscribe=topic))) == {*range(20)}


def test_what_was_answered_is_not_sent_again(strict_broker: LocalBroker) -> None:
    """Rows come slowly, and meanwhile the broker closes the connection."""
    topic, cluster = strict_broker.create_topic(), Cluster(strict_broker.namesrv)

    def tables() -> Iterator[pa.RecordBatch]:
        yield table(body=[b"1"])
        wait_until(lambda: cluster.size(topic) == 1)
        strict_broker.stop()
        strict_broker.start()
        wait_until(lambda: cluster.queues(topic))
        yield table(body=[b"2", b"3", b"4"])

    given = {"namesrv": cluster.namesrv, "topic": topic, "batchMessages": "1"}
    write_rows(sink_options(given), task("o"), tables())
    assert cluster.size(topic) == 4


def test_answers_are_taken_in_while_requests_are_sent(
    strict_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker stops reading from one who does not read, and nobody would ever go on."""
    monkeypatch.setattr(broker_socket, "_WAITING_IN_KERNEL", 1 << 16)
    topic, rows = strict_broker.create_topic(), 400_000
    narrow = table(body=[b"x"] * rows)
    options = {"topic": topic, "maxPending": 10_000, "timeoutMs": 5_000}
    assert write(strict_broker.namesrv, "o", narrow, **options).messages == rows
    assert Cluster(strict_broker.namesrv).size(topic) == rows


def test_a_broker_that_stays_away_is_an_error(strict_broker: LocalBroker) -> None:
    topic = strict_broker.create_topic()

    def tables() -> Iterator[pa.RecordBatch]:
        yield table(body=[b"1"])
        strict_broker.stop()
        yield table(body=[b"2"])

    given = {"namesrv": strict_broker.namesrv, "topic": topic, "retryTimeoutMs": "200"}
    with pytest.raises(SendRefused, match=f"1 rows for topic '{topic}', broker-a queue"):
        write_rows(sink_options(given), task("o"), tables())


# Schemas


def schema(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"text": StringType()}, "no column body .*value, will do.*It has text"),
        ({"body": StringType(), "tag": LongType()}, "'tag' means nothing.*mean 'tags'"),
        ({"body": StringType(), "value": StringType()}, "'value' and 'body' mean the same"),
        ({"body": StringType(), "price": LongType()}, "column 'price' means nothing here"),
        ({"body": IntegerType()}, "column 'body' is int, it must be binary or string"),
        ({"body": BinaryType(), "keys": ArrayType(LongType())}, "column 'keys' is array<bigint>"),
    ],
)
def test_a_table_that_cannot_be_messages_is_refused(
    columns: dict[str, Any], complaint: str
) -> None:
    options = sink_options({"namesrv": "a:1", "topic": "t"})
    with pytest.raises(InvalidOptions, match=complaint):
        check_schema(options, schema(**columns))


def test_a_topic_must_come_from_somewhere() -> None:
    options = sink_options({"namesrv": "a:1"})
    with pytest.raises(InvalidOptions, match="give the option topic, or a column"):
        check_schema(options, schema(body=StringType()))
    check_schema(options, schema(body=StringType(), topic=StringType()))


def test_what_was_read_may_be_written_as_it_is() -> None:
    options = sink_options({"namesrv": "a:1", "topic": "t"})
    check_schema(options, schema(body=BinaryType(), queue_offset=LongType(), msg_id=StringType()))
