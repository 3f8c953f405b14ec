"""Filters that Spark offers, and what is not read for them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from rocketq import Message
from rocketq.message.queue import MessageQueue
from rocketq.spark.options import InvalidOptions, SourceOptions, source_options
from rocketq.spark.read.batch import BatchReader, PruningReader
from rocketq.spark.read.partitions import QueuePartition
from rocketq.spark.read.pruning import push
from tests.spark.conftest import Cluster

BASE = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}
QUEUE = MessageQueue("orders", "broker-a", 3)


def options(**given: str) -> SourceOptions:
    return source_options({**BASE, **given}, streaming=False)


@pytest.mark.parametrize(
    ("each", "wanted"),
    [
        (EqualTo(("queue_id",), 3), True),
        (EqualTo(("partition",), 2), False),
        (Not(EqualTo(("queue_id",), 3)), False),
        (In(("queue_id",), (1, 3)), True),
        (GreaterThan(("queue_id",), 3), False),
        (GreaterThanOrEqual(("queue_id",), 3), True),
        (LessThan(("queue_id",), 3), False),
        (LessThanOrEqual(("queue_id",), 3), True),
        (EqualTo(("topic",), "orders"), True),
        (StringStartsWith(("topic",), "x"), False),
        (Not(In(("broker_name",), ("broker-b",))), True),
    ],
)
def test_queues_that_nobody_asks_for_are_left_out(each: Filter, wanted: bool) -> None:
    pruning, left = push([each, IsNotNull(("queue_id",))], options())
    assert left == []
    assert pruning.wants("orders", QUEUE) is wanted


def test_comparisons_of_offsets_and_times_become_ranges() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    at = int(moment.timestamp()) * 1_000_000
    filters = [
        GreaterThan(("queue_offset",), 4),
        LessThanOrEqual(("offset",), 9),
        LessThan(("queue_offset",), 20),
        GreaterThanOrEqual(("store_timestamp",), moment),
        LessThan(("timestamp",), moment + timedelta(microseconds=1)),
    ]
    pruning, left = push(filters, options())
    assert left == []
    assert pruning.offsets == (5, 10)
    assert pruning.times_us == (at, at + 1)


def test_tags_go_to_brokers_when_they_understand_them() -> None:
    for each, tags in (
        (EqualTo(("tags",), "paid"), "paid"),
        (In(("tags",), ("paid", "sent")), "paid || sent"),
    ):
        pruning, left = push([IsNotNull(("tags",)), each], options())
        assert left == []
        assert pruning.options(options()).tags == tags
    for tag in ("a || b", " a", "*", ""):
        pruning, left = push([EqualTo(("tags",), tag)], options())
        assert left == [EqualTo(("tags",), tag)]
        assert pruning.options(options()).tags == "*"
    for given in ({"filter": "sent"}, {"sqlFilter": "a = 1"}):
        assert push([EqualTo(("tags",), "paid")], options(**given))[1]


@pytest.mark.parametrize(
    "each", [EqualTo(("keys",), "k"), IsNotNull(("tags",)), In(("queue_offset",), (1, 2))]
)
def test_what_cannot_be_kept_to_the_letter_is_left_to_spark(each: Filter) -> None:
    assert push([each], options())[1] == [each]


def test_filters_are_taken_only_where_that_is_asked_for() -> None:
    assert "pushFilters" not in vars(BatchReader)
    assert not options().push_filters
    assert options(pushFilters="true").push_filters
    with pytest.raises(InvalidOptions, match="for batch reads"):
        source_options({**BASE, "pushFilters": "true"}, streaming=True)


def rows(reader: BatchReader) -> list[dict[str, Any]]:
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_what_is_left_out_is_not_read(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=3)
    for queue in range(3):
        any_cluster.send(
            [Message(topic, b"%d" % n, tags="even" if n % 2 == 0 else "odd") for n in range(10)],
            queue=queue,
        )
    given = source_options(
        {"namesrv": any_cluster.namesrv, "subscribe": topic, "columns": "queue_offset,body"},
        streaming=False,
    )
    reader = PruningReader(given)
    filters = [
        EqualTo(("queue_id",), 1),
        GreaterThanOrEqual(("queue_offset",), 3),
        LessThan(("queue_offset",), 8),
        EqualTo(("tags",), "odd"),
    ]
    assert not list(reader.pushFilters(filters))
    (part,) = reader.partitions()
    assert isinstance(part, QueuePartition)
    assert (part.queue.queue_id, part.start, part.end) == (1, 3, 8)
    assert [row["queue_offset"] for row in rows(reader)] == [3, 5, 7]

    now = datetime.now(UTC)
    for each, count in (
        (GreaterThan(("store_timestamp",), now + timedelta(hours=1)), 0),
        (GreaterThan(("store_timestamp",), now - timedelta(hours=1)), 30),
        (LessThan(("store_timestamp",), now - timedelta(hours=1)), 0),
    ):
        reader = PruningReader(given)
        assert not list(reader.pushFilters([each]))
        assert len(rows(reader)) == count
        assert bool(reader.partitions()) == bool(count), "nothing is pulled in vain"


def test_times_are_kept_to_the_letter(cluster: Cluster) -> None:
    topic = cluster.new_topic(queues=1)
    cluster.send_numbers(topic, range(50), queue=0)
    given = source_options({"namesrv": cluster.namesrv, "subscribe": topic}, streaming=False)
    everything = rows(BatchReader(given))
    moment = everything[25]["store_timestamp"]
    reader = PruningReader(given)
    assert not list(reader.pushFilters([GreaterThan(("store_timestamp",), moment)]))
    assert rows(reader) == [row for row in everything if row["store_timestamp"] > moment]
