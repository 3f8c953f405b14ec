"""The format `rocketq` in a real Spark: streams."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from rocketq.client.cluster.instance import ClientInstance
from rocketq.spark.read.progress import BacklogListener, backlog
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows
from tests.spark.readers import numbers as numbers_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def stream(spark: "SparkSession", cluster: Cluster, **options: object) -> "DataFrame":
    reader = spark.readStream.format("rocketq").option("namesrv", cluster.namesrv)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def into_files(table: "DataFrame", folder: Path, *, available_now: bool = True) -> "StreamingQuery":
    """A query whose sink takes every batch once."""
    writer = (
        table.select(F.col("body").cast("string"))
        .writeStream.format("text")
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start(str(folder / "rows"))


def numbers(spark: "SparkSession", folder: Path) -> list[int]:
    rows = spark.read.text(str(folder / "rows")).collect()
    return sorted(int(row.value) for row in rows)


def test_available_now_reads_all_in_batches_and_tells_how_far_it_is(
    spark: "SparkSession", any_cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = any_cluster.new_topic(queues=2), f"group-{time.time_ns():x}"
    any_cluster.send_numbers(topic, range(100))
    lines: list[str] = []
    listener = BacklogListener(lines.append)
    spark.streams.addListener(listener)
    try:
        table = stream(
            *(spark, any_cluster),
            subscribe=topic,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=40,
            groupId=group,
        )
        query = into_files(table, tmp_path)
        assert query.awaitTermination(300)
        wait_until(lambda: len(lines) == 3)
    finally:
        spark.streams.removeListener(listener)
    assert numbers(spark, tmp_path) == list(range(100))
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    assert [progress.numInputRows for progress in batches] == [40, 40, 20]
    assert [sum(backlog(progress).values()) for progress in batches] == [60, 20, 0]
    assert "40 rows" in lines[0]
    assert "60 behind" in lines[0]

    assert any_cluster.lag(group) == 0

    # The next run goes on where this one ended.
    any_cluster.send_numbers(topic, range(100, 103))
    assert into_files(table, tmp_path).awaitTermination(300)
    assert numbers(spark, tmp_path) == list(range(103))


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    with LocalBroker(SETTINGS) as broker:
        yield broker


def test_a_query_lives_through_new_topics_and_a_restart_of_the_broker(
    spark: "SparkSession", own_broker: LocalBroker, tmp_path: Path
) -> None:
    cluster = Cluster(own_broker.namesrv)
    topic = cluster.new_topic()
    cluster.send_numbers(topic, range(10))
    table = stream(*(spark, cluster), subscribePattern=f"{topic}.*", startingOffsets="earliest")
    query = into_files(table, tmp_path, available_now=False)
    try:
        wait_until(lambda: (tmp_path / "rows" / "_spark_metadata" / "0").exists(), within_s=300)
        own_broker.stop()
        back = threading.Timer(1.0, own_broker.start)
        back.start()
        back.join()
        wait_until(lambda: cluster.queues(topic))
        cluster.send_numbers(topic, range(10, 20))
        other = cluster.new_topic(name=f"{topic}-b")
        cluster.send_numbers(other, range(20, 25))
        wait_until(lambda: query.exception() or len(numbers(spark, tmp_path)) >= 25, within_s=300)
        assert query.exception() is None
    finally:
        query.stop()
    assert numbers(spark, tmp_path) == list(range(25))


def test_a_stream_is_written_to_another_topic(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path
) -> None:
    source, target = cluster.new_topic(), cluster.new_topic()
    doubled = stream(spark, cluster, subscribe=source, startingOffsets="earliest").select(
        (F.col("body").cast("string").cast("int") * 2).cast("string").alias("body"),
        F.col("msg_id").alias("keys"),
    )

    def run() -> None:
        query = (
            doubled.writeStream.format("rocketq")
            .queryName("doubling")
            .option("namesrv", cluster.namesrv)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    cluster.send_numbers(source, range(20))
    run()
    cluster.send_numbers(source, range(20, 30))
    run()
    rows = batch_rows(namesrv=cluster.namesrv, subscribe=target)
    assert numbers_of(rows) == [2 * number for number in range(30)]
    first_keys = {row["msg_id"] for row in rows}
    assert len(first_keys) == 30

    # The last batch again, as after a crash before its commit: the same unique keys.
    commits = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    run()
    rows = batch_rows(namesrv=cluster.namesrv, subscribe=target)
    assert len(rows) == 40
    assert {row["msg_id"] for row in rows} == first_keys


def test_lost_messages_end_the_query_unless_it_may_go_on(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.new_topic(queues=1)
    cluster.send_numbers(topic, range(5), queue=0)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    into_files(stream(spark, cluster, **options), tmp_path).awaitTermination(300)

    async def make_anew(client: ClientInstance, address: str) -> None:
        await client.api.delete_topic(address, topic)
        await client.api.delete_topic_in_name_servers(topic)

    cluster.ask(make_anew)
    cluster.new_topic(queues=1, name=topic)
    cluster.send_numbers(topic, [10, 11], queue=0)
    with pytest.raises(StreamingQueryException, match=rf"messages 2 to 4 of topic '{topic}'"):
        into_files(stream(spark, cluster, **options), tmp_path).awaitTermination(300)
    tolerant = stream(spark, cluster, **options, failOnDataLoss="false")
    into_files(tolerant, tmp_path).awaitTermination(300)
    cluster.send_numbers(topic, [12], queue=0)
    into_files(tolerant, tmp_path).awaitTermination(300)
    assert numbers(spark, tmp_path) == [0, 1, 2, 3, 4, 12]


def test_a_trigger_may_wait_for_more(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    options = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "10m", "startingOffsets": "earliest"}
    cluster.send_numbers(topic, range(4))
    query = into_files(
        stream(spark, cluster, subscribe=topic, **options), tmp_path, available_now=False
    )
    try:
        # The first batch of a query always comes; here there is nothing in it.
        wait_until(lambda: query.lastProgress is not None, within_s=300)
        assert numbers(spark, tmp_path) == []
        cluster.send_numbers(topic, range(4, 12))
        query.processAllAvailable()
    finally:
        query.stop()
    assert numbers(spark, tmp_path) == list(range(12))
