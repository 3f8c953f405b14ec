"""A stream in the course of time: limits, new queues, brokers that go and come, lost data."""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketq import Message
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import NameServersUnavailable
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode
from rocketq.spark.read.data_loss import DataLoss
from rocketq.spark.read.range_pull import BrokerAway
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import Query, batch_rows, numbers
from tests.waiting import wait_until


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker to be stopped and started."""
    with LocalBroker(SETTINGS) as broker:
        yield broker


# Limits


def test_a_trigger_reads_no_more_than_it_may(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(50))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 20}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        batches = [query.trigger() for _ in range(4)]
    assert [None if batch is None else len(batch) for batch in batches] == [20, 20, 10, None]
    assert sorted(int(row["body"]) for batch in batches for row in batch or []) == [*range(50)]


def test_a_limit_is_left_aside_when_spark_says_so(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(30))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 5}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        query.limit = ReadAllAvailable()
        assert len(query.trigger() or []) == 30


def test_a_trigger_waits_until_there_is_enough_or_it_has_waited_enough(
    any_cluster: Cluster,
) -> None:
    topic = any_cluster.new_topic()
    options = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "700ms"}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        any_cluster.send_numbers(topic, range(3))
        assert query.trigger() is None
        any_cluster.send_numbers(topic, range(3, 12))
        assert numbers(query.trigger() or []) == list(range(12))
        any_cluster.send_numbers(topic, [12])
        assert query.trigger() is None
        while (rows := query.trigger()) is None:
            time.sleep(0.02)
        assert numbers(rows) == [12]


def test_available_now_ends_where_the_topic_ended(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(10))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        query.reader.prepareForTriggerAvailableNow()
        any_cluster.send_numbers(topic, range(10, 20))
        assert [len(query.trigger() or []) for _ in range(3)] == [6, 4, 0]
        assert query.trigger() is None
        newest = query.reader.reportLatestOffset()
        assert newest is not None
        (queues,) = newest[topic].values()
        assert sum(queues.values()) == 20, "the backlog that is reported is the real one"


# What is new


def test_new_queues_and_topics_are_read_from_their_beginning(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    any_cluster.send_numbers(topic, range(3), queue=0)
    with Query(namesrv=any_cluster.namesrv, subscribePattern=f"{topic}.*") as query:
        any_cluster.new_topic(queues=2, name=topic)
        any_cluster.send_numbers(topic, [3, 4], queue=1)
        other = any_cluster.new_topic(queues=1, name=f"{topic}-b")
        any_cluster.send_numbers(other, [5], queue=0)
        assert numbers(query.trigger() or []) == [3, 4, 5]
        assert query.trigger() is None


def test_topics_of_a_namespace_are_known_by_their_own_name(cluster: Cluster) -> None:
    bare = f"orders-{time.time_ns():x}"
    cluster.new_topic(name=f"shop%{bare}")
    cluster.new_topic(name=f"office%{bare}")
    cluster.send_numbers(f"shop%{bare}", [1, 2])
    cluster.send_numbers(f"office%{bare}", [3])
    common = {"namesrv": cluster.namesrv, "namespace": "shop"}
    offsets = json.dumps({bare: {cluster.broker_name(): {"0": 0}}})
    for option in (
        {"subscribe": bare},
        {"subscribePattern": "orders-.*"},
        {"subscribe": bare, "startingOffsets": offsets},
    ):
        rows = batch_rows(**common, **option)
        assert numbers(rows) == [1, 2]
        assert {row["topic"] for row in rows} == {bare}


# Brokers that go and come


def test_a_stream_outlives_a_restart_of_the_broker(own_broker: LocalBroker) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic()
    cluster.send_numbers(topic, range(10))
    with Query(namesrv=cluster.namesrv, subscribe=topic, startingOffsets="earliest") as query:
        assert numbers(query.trigger() or []) == list(range(10))
        own_broker.stop()
        back = threading.Timer(0.5, own_broker.start)
        back.start()
        query.trigger()  # waits for the NameServer
        back.join()
        wait_until(lambda: cluster.queues(topic))
        cluster.send_numbers(topic, range(10, 14))
        assert numbers(query.trigger() or []) == list(range(10, 14))


def test_a_task_goes_on_when_the_broker_is_back(own_broker: LocalBroker) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, b"%d" % i + b" " * 500) for i in range(200)], queue=0)
    options = {"startingOffsets": "earliest", "pullBytes": 10_000}
    with Query(namesrv=cluster.namesrv, subscribe=topic, **options) as query:
        end = query.reader.latestOffset(query.at, query.limit)
        (part,) = query.reader.partitions(query.at, end)
        batches = query.reader.read(part)
        rows = next(batches).to_pylist()
        assert len(rows) < 100
        own_broker.stop()
        back = threading.Timer(0.5, own_broker.start)
        back.start()
        for batch in batches:
            rows += batch.to_pylist()
        back.join()
    assert numbers(rows) == list(range(200))


def test_nobody_to_ask_is_an_error_after_the_time_for_it(own_broker: LocalBroker) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic()
    with Query(namesrv=cluster.namesrv, subscribe=topic, retryTimeoutMs=300) as query:
        own_broker.stop()
        with pytest.raises(NameServersUnavailable):
            query.trigger()


def test_a_broker_out_of_reach_holds_up_its_own_queues_only(
    own_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send_numbers(topic, [1, 2], queue=0)
    away = {topic: {"broker-a": {"0": 0}, "broker-b": {"0": 7}}}
    with (
        caplog.at_level(logging.WARNING),
        Query(namesrv=cluster.namesrv, subscribe=topic, checkpoint=away) as query,
    ):
        assert numbers(query.trigger() or []) == [1, 2]
        assert query.at == {topic: {"broker-a": {"0": 2}, "broker-b": {"0": 7}}}
        assert "broker 'broker-b' is out of reach" in caplog.text
        # A query that ends must not end without those messages.
        query.reader.prepareForTriggerAvailableNow()
        with pytest.raises(BrokerAway):
            query.trigger()


# Data loss


def test_a_topic_made_anew_is_data_loss(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = cluster.new_topic(queues=1)
    cluster.send_numbers(topic, range(5), queue=0)
    common = {"namesrv": cluster.namesrv, "subscribe": topic}
    with Query(**common, startingOffsets="earliest") as query:
        query.trigger()
        checkpoint = query.at
    _delete_topic(cluster, topic)
    with (
        Query(**common, checkpoint=checkpoint) as strict,
        pytest.raises(DataLoss, match=rf"from 5 on of topic '{topic}'.*no such queue"),
    ):
        strict.trigger()
    with (
        caplog.at_level(logging.WARNING),
        Query(**common, checkpoint=checkpoint, failOnDataLoss="false") as tolerant,
    ):
        assert [tolerant.trigger(), tolerant.trigger()] == [None, None]
        assert caplog.text.count("no such queue") == 1, "told once, not with every trigger"
    cluster.new_topic(queues=1, name=topic)
    cluster.send_numbers(topic, [10, 11], queue=0)
    with (
        Query(**common, checkpoint=checkpoint) as strict,
        pytest.raises(
            DataLoss, match=r"messages 2 to 4 .*queue 0 are gone: the queue now ends at 2"
        ),
    ):
        strict.trigger()
    with (
        caplog.at_level(logging.WARNING),
        Query(**common, checkpoint=checkpoint, failOnDataLoss="false") as tolerant,
    ):
        assert tolerant.trigger() == []
        assert "messages 2 to 4" in caplog.text
        cluster.send_numbers(topic, [12], queue=0)
        assert numbers(tolerant.trigger() or []) == [12]


def _delete_topic(cluster: Cluster, topic: str) -> None:
    async def delete(client: ClientInstance, address: str) -> None:
        await client.api.delete_topic(address, topic)
        await client.api.delete_topic_in_name_servers(topic)

    cluster.ask(delete)
    wait_until(lambda: cluster.queues(topic) == 0)


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker with small files, so that it can forget the first of them."""
    settings = {**SETTINGS, "mappedFileSizeCommitLog": str(256 * 1024)}
    with LocalBroker(settings, folder=tmp_path) as broker:
        yield broker


def forget(cluster: Cluster, folder: Path, topic: str) -> int:
    """Have the broker delete what it has, up to the file it writes; where queue 0 begins now."""
    queue = MessageQueue(topic, cluster.broker_name(), 0)

    async def delete(client: ClientInstance, address: str) -> int:
        for file in (folder / "store" / "commitlog").iterdir():
            os.utime(file, (0, 0))  # a flush under way may set it again
        await client.api.invoke(address, RequestCode.DELETE_EXPIRED_COMMITLOG)
        return await client.api.min_offset(address, queue)

    wait_until(lambda: cluster.ask(delete) > 0)
    first: int = cluster.ask(delete)
    return first


def test_what_retention_took_is_named_or_passed_over(
    forgetful: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(forgetful.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, b"%d" % i + b" " * 1000) for i in range(600)], queue=0)
    common = {"namesrv": cluster.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    with Query(**common, maxOffsetsPerTrigger=100) as query:
        query.trigger()
        checkpoint = query.at
    first = forget(cluster, tmp_path, topic)
    assert 100 < first < 600
    with (
        Query(**common, checkpoint=checkpoint) as strict,
        pytest.raises(
            DataLoss,
            match=f"messages 100 to {first - 1} of topic '{topic}', broker 'broker-a', queue 0 "
            f"are gone: the queue now begins at {first}",
        ),
    ):
        strict.trigger()
    with (
        caplog.at_level(logging.WARNING),
        Query(**common, checkpoint=checkpoint, failOnDataLoss="false") as tolerant,
    ):
        assert numbers(tolerant.trigger() or []) == list(range(first, 600))
        assert f"messages 100 to {first - 1}" in caplog.text

    # The same in a batch read that names its beginning, and in a task that has begun already.
    offsets = json.dumps({topic: {"broker-a": {"0": 50}}})
    batch = {"namesrv": cluster.namesrv, "subscribe": topic, "startingOffsets": offsets}
    with pytest.raises(DataLoss, match=f"messages 50 to {first - 1}"):
        batch_rows(**batch)
    assert numbers(batch_rows(**batch, failOnDataLoss="false")) == list(range(first, 600))


def test_a_range_that_expires_while_it_is_read_is_data_loss(
    forgetful: LocalBroker, tmp_path: Path
) -> None:
    cluster = Cluster(forgetful.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, b"%d" % i + b" " * 1000) for i in range(600)], queue=0)
    common = {"namesrv": cluster.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    with Query(**common, failOnDataLoss="false") as tolerant, Query(**common) as strict:
        end = strict.reader.latestOffset(strict.at, strict.limit)
        (part,) = strict.reader.partitions(strict.at, end)
        first = forget(cluster, tmp_path, topic)
        with pytest.raises(DataLoss, match=f"messages 0 to {first - 1}"):
            list(strict.reader.read(part))
        rows = [row for batch in tolerant.reader.read(part) for row in batch.to_pylist()]
        assert numbers(rows) == list(range(first, 600))
