"""Rows that are in the topic once, whatever fails: attempts that are cut short, run again, run at
the same time, lose answers, lose the broker."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rocketq import Message
from rocketq.remoting.errors import ConnectionLost
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import InvalidOptions, sink_options
from rocketq.spark.wire.broker_socket import BrokerSocket
from rocketq.spark.write.once import attempt, lease
from rocketq.spark.write.once.digests import message_digest, row_digests
from rocketq.spark.write.once.lease import Fenced, Process
from rocketq.spark.write.once.marks import MARKS_TOPIC, Mark
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import WriteFailed, write_rows
from rocketq.spark.write.sender import BatchSender
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows, numbers
from tests.waiting import wait_until

ROWS = 200


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "_IN_THE_PIPE_S", 0.05)


def name(batch: int = 0, partition: int = 0) -> TaskName:
    return TaskName(sink="a query", batch=batch, partition=partition)


def tables(rows: list[int], **columns: Any) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), 20):
        body = pa.array([b"%d" % row for row in rows[at : at + 20]], pa.binary())
        yield pa.RecordBatch.from_arrays([body], names=["body"])


def cut_short(rows: list[int], after: int) -> Iterator[pa.RecordBatch]:
    for number, table in enumerate(tables(rows)):
        if number == after:
            raise WriteFailed("the task was cut short")
        yield table


def write(cluster: Cluster, topic: str, task: TaskName, rows: Any, **options: Any) -> None:
    given = {
        "namesrv": cluster.namesrv,
        "topic": topic,
        "delivery": "exactlyOnce",
        "batchMessages": "7",
        **{name: str(value) for name, value in options.items()},
    }
    write_rows(sink_options(given), task, rows)


def written(cluster: Cluster, topic: str, count: int) -> Counter[int]:
    """What is in the topic; a Java broker shows it shortly after it has acknowledged it."""
    found: list[int] = []

    def are_there() -> bool:
        found[:] = numbers(batch_rows(namesrv=cluster.namesrv, subscribe=topic))
        return len(found) >= count

    wait_until(are_there)
    return Counter(found)


def once(rows: int) -> Counter[int]:
    return Counter(range(rows))


def test_a_task_that_is_run_again_adds_what_is_missing(any_cluster: Cluster) -> None:
    topic, rows = any_cluster.new_topic(), list(range(ROWS))
    task = TaskName(sink=topic, batch=0, partition=0)
    for after in (0, 3, 7):
        with pytest.raises(WriteFailed, match="cut short"):
            write(any_cluster, topic, task, cut_short(rows, after))
    write(any_cluster, topic, task, tables(rows))
    assert written(any_cluster, topic, ROWS) == once(ROWS)
    write(any_cluster, topic, task, tables(rows))
    assert written(any_cluster, topic, ROWS) == once(ROWS), "all of it was there"
    # The same rows in another batch are other rows.
    write(any_cluster, topic, TaskName(sink=topic, batch=1, partition=0), tables(rows))
    assert written(any_cluster, topic, 2 * ROWS) == Counter(list(range(ROWS)) * 2)


def test_rows_may_come_in_another_order(cluster: Cluster) -> None:
    topic, rows = cluster.new_topic(), [*range(ROWS), *range(20)]
    with pytest.raises(WriteFailed):
        write(cluster, topic, name(), cut_short(rows, 6))
    random.Random(7).shuffle(rows)
    write(cluster, topic, name(), tables(rows))
    assert written(cluster, topic, len(rows)) == Counter(rows)
    ids = [row["msg_id"] for row in batch_rows(namesrv=cluster.namesrv, subscribe=topic)]
    assert len(set(ids)) == len(ids)


def test_other_messages_in_the_topic_are_left_alone(cluster: Cluster) -> None:
    topic, rows = cluster.new_topic(), list(range(50))
    cluster.send_numbers(topic, rows)
    with pytest.raises(WriteFailed):
        write(cluster, topic, name(), cut_short(rows, 1))
    cluster.send_numbers(topic, rows)
    write(cluster, topic, name(1, 1), tables(rows))
    write(cluster, topic, name(), tables(rows))
    assert written(cluster, topic, 200) == Counter(rows * 4)


class Forgetful(BrokerSocket):
    """Loses the answer of every few requests, after the broker has done what it was asked."""

    lost = 0
    requests = 0

    def receive(self) -> Command:
        answer = super().receive()
        Forgetful.requests += 1
        if Forgetful.requests % 5 == 0:
            Forgetful.lost += 1
            raise ConnectionLost("the answer got lost")
        return answer


@pytest.mark.parametrize("pending", [1, 16])
def test_lost_answers_double_nothing(
    any_cluster: Cluster, pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchSender, "plain_socket", Forgetful)
    monkeypatch.setattr(Forgetful, "lost", 0)
    topic = any_cluster.new_topic()
    task = TaskName(sink=topic, batch=0, partition=0)
    write(any_cluster, topic, task, tables(list(range(ROWS))), maxPending=pending)
    assert Forgetful.lost
    assert written(any_cluster, topic, ROWS) == once(ROWS)


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker to be stopped and started."""
    with LocalBroker(SETTINGS) as broker:
        yield broker


def test_a_broker_that_goes_and_comes_doubles_nothing(own_broker: LocalBroker) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic()

    def rows() -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables(list(range(ROWS)))):
            yield table
            if number in (2, 6):
                for back in under_way:
                    back.join()
                own_broker.stop()
                under_way[:] = [threading.Timer(0.2, own_broker.start)]
                under_way[0].start()

    under_way: list[threading.Timer] = []
    write(cluster, topic, name(), rows())
    wait_until(lambda: cluster.queues(topic))
    assert written(cluster, topic, ROWS) == once(ROWS)


def test_attempts_at_the_same_time_take_turns(any_cluster: Cluster) -> None:
    topic, goes_on, failures = any_cluster.new_topic(), threading.Event(), []
    task = TaskName(sink=topic, batch=0, partition=0)
    has_begun = threading.Event()

    def slowly() -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables(list(range(ROWS)))):
            yield table
            if number == 4:
                has_begun.set()
                goes_on.wait(30)

    def run(rows: Iterator[pa.RecordBatch]) -> None:
        try:
            write(any_cluster, topic, task, rows)
        except Exception as error:
            failures.append(error)

    first = threading.Thread(target=run, args=(slowly(),))
    second = threading.Thread(target=run, args=(tables(list(range(ROWS))),))
    first.start()
    assert has_begun.wait(30)
    second.start()
    goes_on.set()
    first.join()
    second.join()
    assert not failures
    assert written(any_cluster, topic, ROWS) == once(ROWS)


def test_an_attempt_that_was_away_too_long_sends_nothing_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is stopped, its lease ends, the next attempt does its work, and it wakes up."""
    topic = cluster.new_topic()
    monkeypatch.setattr(lease, "_RENEW_S", 3600.0)

    def rows() -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables(list(range(ROWS)))):
            yield table
            if number == 4:
                with monkeypatch.context() as others:
                    others.setattr(Process, "is_dead", lambda _: True)
                    write(cluster, topic, name(), tables(list(range(ROWS))))
                later = SimpleNamespace(monotonic=lambda: time.monotonic() + 30)
                monkeypatch.setattr(lease, "time", later)

    with pytest.raises(Fenced, match="lost its lease"):
        write(cluster, topic, name(), rows())
    assert written(cluster, topic, ROWS) == once(ROWS)


def test_an_attempt_that_lost_its_connection_learns_that_another_took_over(
    own_broker: LocalBroker,
) -> None:
    """A broker that is started again has forgotten who held what."""
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic()

    def rows() -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables(list(range(ROWS)))):
            yield table
            if number == 4:
                own_broker.stop()
                own_broker.start()
                wait_until(lambda: cluster.queues(topic))
                write(cluster, topic, name(), tables(list(range(ROWS))))

    with pytest.raises(Fenced, match="another attempt at partition 0 has taken over"):
        write(cluster, topic, name(), rows())
    assert written(cluster, topic, ROWS) == once(ROWS)


def test_a_batch_that_is_over_is_not_written_again(cluster: Cluster) -> None:
    topic, rows = cluster.new_topic(), list(range(40))
    task = TaskName(sink=topic, batch=7, partition=0)
    write(cluster, topic, task, tables(rows))
    write(cluster, topic, TaskName(sink=topic, batch=8, partition=0), tables(rows))
    with pytest.raises(Fenced, match="batch 7 is over: partition 0 is at 8"):
        write(cluster, topic, task, tables(rows))
    assert written(cluster, topic, 80) == Counter(rows * 2)


KILLED = """
import sys, time
import pyarrow as pa
from rocketq.spark.options import sink_options
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import write_rows

namesrv, topic = sys.argv[1:]

def rows():
    for at in range(0, 100, 10):
        body = pa.array([b"%d" % row for row in range(at, at + 10)], pa.binary())
        yield pa.RecordBatch.from_arrays([body], names=["body"])
        print(at, flush=True)
        time.sleep(0.05 if at < 50 else 600)

options = {"namesrv": namesrv, "topic": topic, "delivery": "exactlyOnce"}
write_rows(sink_options(options), TaskName(sink="killed", batch=0, partition=0), rows())
"""


def test_a_killed_process_leaves_nothing_doubled_and_keeps_nobody_waiting(cluster: Cluster) -> None:
    """Its lease has 60 s to live, but who runs on the same machine sees that it is dead."""
    topic = cluster.new_topic()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, cluster.namesrv, topic], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "50":
            pass
        os.kill(process.pid, signal.SIGKILL)
    task = TaskName(sink="killed", batch=0, partition=0)
    write(cluster, topic, task, tables(list(range(100))), timeoutMs=5000)
    assert written(cluster, topic, 100) == once(100)


def test_processes_know_who_is_dead() -> None:
    here = Process.current()
    assert not here.is_dead()
    assert Process.parse(str(here)) == here
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = lease._started(child.pid)
        assert started is not None
        assert not Process(here.machine, child.pid, started).is_dead()
        child.kill()
        child.wait()
    assert Process(here.machine, child.pid, started).is_dead()
    assert Process(here.machine, here.pid, "0").is_dead(), "another one has its number"
    assert not Process("another machine", child.pid, started).is_dead(), "nobody knows"
    assert not Process("", child.pid, started).is_dead()


def test_a_row_and_its_message_have_the_same_digest(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic()
    columns = {
        "body": pa.array([b"a", b"b", b"a"], pa.binary()),
        "tags": pa.array(["paid", None, None]),
        "keys": pa.array(["k1 k2", None, ""]),
        "sharding_key": pa.array(["eu", None, "eu"]),
        "flag": pa.array([9, None, 0], pa.int32()),
        "properties": pa.array(
            [[("city", "Oslo"), ("TAGS", "no")], None, []], pa.map_(pa.string(), pa.string())
        ),
    }
    table = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    given = {"namesrv": local_broker.namesrv, "topic": topic}
    write_rows(sink_options(given), name(), iter([table]))
    found = Counter(message_digest(message) for message in local_broker.messages(topic))
    assert found == Counter(row_digests(columns, 3))
    assert len(found) == 3


def test_what_is_no_mark_is_passed_over(cluster: Cluster) -> None:
    mark = Mark(partition=1, batch=2, topic="t", attempt="a", holder="h", positions={0: 5})
    assert Mark.decode(mark.encode()) == mark
    for noise in (b"", b"[]", b"{}", b'{"partition": "x"}', b"\xff"):
        assert Mark.decode(noise) is None
    topic, rows = cluster.new_topic(), list(range(20))
    write(cluster, topic, name(5), tables(rows))
    cluster.send([Message(MARKS_TOPIC, b"noise", tags="x") for _ in range(16)])
    write(cluster, topic, name(5), tables(rows))
    assert written(cluster, topic, 20) == once(20)


def test_what_is_delayed_cannot_be_written_once() -> None:
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    from rocketq.spark.write.sink import check_schema

    schema = StructType(
        [StructField("body", StringType()), StructField("delay_level", IntegerType())]
    )
    given = {"namesrv": "a:1", "topic": "t", "delivery": "exactlyOnce"}
    with pytest.raises(InvalidOptions, match="no column delay_level"):
        check_schema(sink_options(given), schema)
    with pytest.raises(InvalidOptions, match="delivery is 'twice', it must be atLeastOnce or"):
        sink_options({**given, "delivery": "twice"})
