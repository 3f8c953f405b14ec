"""Pulling ahead from a broker that gives little at a time, as Java's do."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketq import Message
from rocketq.client.errors import BrokerRejected
from rocketq.spark.data_loss import DataLoss
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
