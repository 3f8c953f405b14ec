"""Pulling ahead, also from a broker that gives little at a time, as Java's do."""

import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketq import Message
from rocketq.client.errors import BrokerRejected
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import sink_options
from rocketq.spark.read import range_pull
from rocketq.spark.read.data_loss import DataLoss
from rocketq.spark.wire.broker_socket import BrokerSocket
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import write_rows
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import Query, batch_rows, numbers
from tests.spark.test_streams import forget

COUNT = 1500


@pytest.fixture
def miser(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker that answers a pull with a few messages, whatever it is asked for."""
    settings = {**SETTINGS, "maxPullBytes": "8192", "mappedFileSizeCommitLog": str(256 * 1024)}
    with LocalBroker(settings, folder=tmp_path) as broker:
        yield broker


@pytest.fixture
def topic(miser: LocalBroker) -> str:
    cluster = Cluster(miser.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, b"%d" % i + b" " * 300) for i in range(COUNT)], queue=0)
    return topic


def first_part(query: Query) -> Any:
    end = query.reader.latestOffset(query.at, query.limit)
    (part,) = query.reader.partitions(query.at, end)
    return part


def test_tiles_are_put_together_in_order(miser: LocalBroker, topic: str) -> None:
    rows = batch_rows(namesrv=miser.namesrv, subscribe=topic)
    assert [row["queue_offset"] for row in rows] == list(range(COUNT))
    assert [int(row["body"]) for row in rows] == list(range(COUNT))


class Watched(BrokerSocket):
    """Counts what goes out and comes in."""

    sent = received = 0

    def send(self, request: Command) -> None:
        Watched.sent += 1
        super().send(request)

    def receive(self) -> Command:
        Watched.received += 1
        return super().receive()


@pytest.mark.parametrize(("limit", "ahead"), [("8192", 24), ("10000000", 1)])
def test_answers_are_under_way_while_one_is_worked_on(
    limit: str, ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_pull, "BrokerSocket", Watched)
    monkeypatch.setattr(Watched, "sent", 0)
    monkeypatch.setattr(Watched, "received", 0)
    with LocalBroker({**SETTINGS, "maxPullBytes": limit}, folder=tmp_path) as broker:
        cluster = Cluster(broker.namesrv)
        topic = cluster.new_topic(queues=1)
        cluster.send([Message(topic, b"x" * 300) for _ in range(COUNT)], queue=0)
        options = {"startingOffsets": "earliest", "pullBytes": 40_000}
        with Query(namesrv=broker.namesrv, subscribe=topic, **options) as query:
            under_way = [
                Watched.sent - Watched.received for _ in query.reader.read(first_part(query))
            ]
    assert len(under_way) > 5
    assert max(under_way) == ahead
    assert under_way[:3] == [ahead] * 3, "from the first answer on"
    assert under_way[-1] == 0, "and nothing is asked for in vain"


def test_a_task_holds_a_few_answers_however_long_its_range_is(cluster: Cluster) -> None:
    topic, rows, tables = cluster.new_topic(queues=1), 1000, 40
    body = pa.array([b"x" * 1000] * rows, pa.binary())
    table = pa.RecordBatch.from_arrays([body], names=["body"])
    given = {"namesrv": cluster.namesrv, "topic": topic, "maxPending": "4"}
    options = {"startingOffsets": "earliest", "columns": "body,properties", "pullBytes": 1 << 20}
    tracemalloc.start()
    try:
        write_rows(
            sink_options(given), TaskName(sink="a", batch=0, partition=0), iter([table] * tables)
        )
        _, writing = tracemalloc.get_traced_memory()
        with Query(namesrv=cluster.namesrv, subscribe=topic, **options) as query:
            part = first_part(query)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            count = sum(batch.num_rows for batch in query.reader.read(part))
            _, reading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == rows * tables
    # Of 40 MB: what is being sent and what the broker, in this process too, has received of it;
    # the answer that is worked on, its columns, and the next one.
    assert writing < 12e6
    assert reading - before < 8e6


def test_tiles_are_filtered_too(miser: LocalBroker, topic: str) -> None:
    Cluster(miser.namesrv).send([Message(topic, b"9", tags="rare")], queue=0)
    assert numbers(batch_rows(namesrv=miser.namesrv, subscribe=topic, filter="rare")) == [9]


def test_tiles_survive_a_restart_of_the_broker(miser: LocalBroker, topic: str) -> None:
    with Query(namesrv=miser.namesrv, subscribe=topic, startingOffsets="earliest") as query:
        batches = query.reader.read(first_part(query))
        rows = next(batches).to_pylist()
        miser.stop()
        back = threading.Timer(0.3, miser.start)
        back.start()
        for batch in batches:
            rows += batch.to_pylist()
        back.join()
    assert [int(row["body"]) for row in rows] == list(range(COUNT))


def test_a_gap_found_by_many_tiles_is_told_once(
    miser: LocalBroker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "retryTimeoutMs": "2000"}
    with (
        Query(namesrv=miser.namesrv, **options) as strict,
        Query(namesrv=miser.namesrv, **options, failOnDataLoss="false") as tolerant,
    ):
        part = first_part(strict)
        batches = tolerant.reader.read(part)
        rows = next(batches).to_pylist()
        first = forget(Cluster(miser.namesrv), tmp_path, topic)
        for batch in batches:
            rows += batch.to_pylist()
        found = [int(row["body"]) for row in rows]
        assert found == sorted(set(found))
        assert found[-1] == COUNT - 1
        assert set(range(first, COUNT)) <= set(found)
        assert caplog.text.count("are gone") <= 1
        with pytest.raises(DataLoss, match=f"messages 0 to {first - 1} "):
            list(strict.reader.read(part))


def test_a_refusal_is_told_after_a_few_attempts(miser: LocalBroker, topic: str) -> None:
    with Query(namesrv=miser.namesrv, subscribe=topic, startingOffsets="earliest") as query:
        part = first_part(query)
        part.queue = part.queue._replace(queue_id=77)
        with pytest.raises(BrokerRejected, match=r"PULL_MESSAGE with .*queueId"):
            list(query.reader.read(part))
