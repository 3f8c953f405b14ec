"""The format `rocketq` in a real Spark: tables."""

import json
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from rocketq import Message
from rocketq.spark.schema import COLUMNS, DEFAULT_COLUMNS
from tests.spark.conftest import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: "SparkSession", cluster: Cluster, **options: object) -> "DataFrame":
    reader = spark.read.format("rocketq").option("namesrv", cluster.namesrv)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def numbers(table: "DataFrame") -> list[int]:
    rows = table.select(F.col("body").cast("string").cast("int").alias("n")).collect()
    return sorted(row.n for row in rows)


def test_a_topic_is_a_table_of_the_documented_schema(
    spark: "SparkSession", any_cluster: Cluster
) -> None:
    topic = any_cluster.new_topic()
    message = Message(topic, b"1", tags="paid", keys=["k"], properties={"city": "Oslo"})
    any_cluster.send([message, Message(topic, b"2")])
    table = read(spark, any_cluster, subscribe=topic)
    assert {field.name: field.dataType.simpleString() for field in table.schema} == {
        name: COLUMNS[name] for name in DEFAULT_COLUMNS
    }
    row = table.where("tags = 'paid'").first()
    assert row is not None
    assert (row.body, row["keys"], row.properties["city"]) == (bytearray(b"1"), "k", "Oslo")
    assert abs(row.store_timestamp.timestamp() - time.time()) < 600
    assert numbers(table) == [1, 2]
    assert table.where("tags is null").count() == 1


def test_every_option_of_a_batch_read_arrives(spark: "SparkSession", cluster: Cluster) -> None:
    topic, broker = cluster.new_topic(queues=2), cluster.broker_name()
    for queue in range(2):
        cluster.send(
            [
                Message(topic, b"%d" % i, tags=f"t{i % 3}", properties={"n": str(i)})
                for i in range(10 * queue, 10 * queue + 10)
            ],
            queue=queue,
        )
    offsets = {topic: {broker: {"0": 8, "1": 0}}}
    ends = {topic: {broker: {"0": 10, "1": 2}}}
    assert numbers(
        read(
            *(spark, cluster),
            subscribe=topic,
            startingOffsets=json.dumps(offsets),
            endingOffsets=json.dumps(ends),
            failOnDataLoss="false",
            minPartitions=4,
            pullBytes=4096,
            timeoutMs=20_000,
            groupId="batch-group",
        )
    ) == [8, 9, 10, 11]
    one_queue = {"assign": json.dumps({topic: {broker: [1]}}), "maxRecordsPerPartition": 3}
    assert numbers(read(spark, cluster, **one_queue)) == list(range(10, 20))
    assert read(spark, cluster, **one_queue).rdd.getNumPartitions() == 4
    filtered = read(spark, cluster, subscribePattern=topic, filter="t1 || t2")
    assert numbers(filtered) == [i for i in range(20) if i % 3]
    by_sql = read(spark, cluster, subscribe=topic, sqlFilter="n > 16", columns="body")
    assert by_sql.columns == ["body"]
    assert numbers(by_sql) == [17, 18, 19]
    assert numbers(read(spark, cluster, subscribe=topic, startingTimestamp=1)) == list(range(20))
    assert numbers(read(spark, cluster, subscribe=topic, endingTimestamp=1)) == []


def test_an_empty_topic_is_an_empty_table(spark: "SparkSession", cluster: Cluster) -> None:
    assert read(spark, cluster, subscribe=cluster.new_topic()).count() == 0


def test_mistakes_are_told_in_words(spark: "SparkSession", cluster: Cluster) -> None:
    with pytest.raises(PySparkException, match="did you mean 'subscribe'"):
        read(spark, cluster, subscribed="orders")
    with pytest.raises(PySparkException, match="no broker serves topic 'not-there'"):
        read(spark, cluster, subscribe="not-there").count()
    rows = spark.range(1).selectExpr("id", "'x' as body")
    with pytest.raises(PySparkException, match="column 'id' means nothing here"):
        rows.write.format("rocketq").option("namesrv", cluster.namesrv).option("topic", "t").mode(
            "append"
        ).save()


def test_spark_sql_reads_and_joins_topics(spark: "SparkSession", cluster: Cluster) -> None:
    topic = cluster.new_topic()
    cluster.send(
        [
            Message(topic, json.dumps({"city": "Oslo" if i % 2 else "Lima", "n": i}).encode())
            for i in range(10)
        ]
    )
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING rocketq "
        f"OPTIONS (namesrv '{cluster.namesrv}', subscribe '{topic}')"
    )
    rows = spark.sql(
        "SELECT o.city, sum(o.n) AS total FROM "
        "(SELECT from_json(cast(body AS string), 'city string, n long') AS o FROM orders) "
        "GROUP BY 1 ORDER BY 1"
    ).collect()
    assert [(row.city, row.total) for row in rows] == [("Lima", 20), ("Oslo", 25)]


def test_a_million_rows_go_there_and_come_back(spark: "SparkSession", cluster: Cluster) -> None:
    topic, count = cluster.new_topic(queues=8), 1_000_000
    sent = spark.range(0, count, 1, 4).select(
        F.concat(F.lit("row-"), F.col("id").cast("string")).alias("body"),
        F.when(F.col("id") % 2 == 0, "even").alias("tags"),
    )
    (
        sent.write.format("rocketq")
        .option("namesrv", cluster.namesrv)
        .option("topic", topic)
        .mode("append")
        .save()
    )
    checksum = F.sum(F.crc32(F.col("body").cast("binary"))).alias("checksum")
    wanted = sent.agg(F.count("*").alias("n"), checksum, F.count("tags").alias("tags")).first()
    table = read(spark, cluster, subscribe=topic, columns="body,tags,msg_id")
    found = table.agg(F.count("*").alias("n"), checksum, F.count("tags").alias("tags")).first()
    assert wanted is not None
    assert found == wanted
    assert found.n == count
    assert table.agg(F.countDistinct("msg_id").alias("n")).first() == (count,)


def test_a_table_that_was_read_can_be_written(spark: "SparkSession", cluster: Cluster) -> None:
    topic, copy = cluster.new_topic(), cluster.new_topic()
    cluster.send(
        [
            Message(topic, b"%d" % i, tags="t", keys=[f"k{i}"], properties={"a": "b"}, flag=i + 1)
            for i in range(50)
        ]
    )
    table = read(spark, cluster, subscribe=topic)
    (
        table.write.format("rocketq")
        .option("namesrv", cluster.namesrv)
        .option("topic", copy)
        .mode("append")
        .save()
    )
    columns = ["body", "tags", "keys", "flag", "properties.a"]
    original = table.select(columns)
    copied = read(spark, cluster, subscribe=copy).select(columns)
    assert copied.count() == 50
    assert original.exceptAll(copied).count() == 0
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        table.write.format("rocketq").option("namesrv", cluster.namesrv).option("topic", copy).mode(
            "overwrite"
        ).save()


def test_a_task_that_fails_says_which_row_and_why(spark: "SparkSession", cluster: Cluster) -> None:
    topic = cluster.new_topic()
    rows = spark.range(0, 10, 1, 1).selectExpr("if(id = 7, null, 'x') AS body")
    with pytest.raises(PySparkException, match=f"row 7 for topic '{topic}': the body is null"):
        rows.write.format("rocketq").option("namesrv", cluster.namesrv).option("topic", topic).mode(
            "append"
        ).save()


def test_filters_leave_the_plan_where_the_source_keeps_them(
    spark: "SparkSession", cluster: Cluster
) -> None:
    topic = cluster.new_topic(queues=2)
    cluster.send([Message(topic, b"%d" % n, tags="ab"[n % 2]) for n in range(10)], queue=1)
    table = read(spark, cluster, subscribe=topic, pushFilters="true")
    chosen = table.where("queue_id = 1 AND queue_offset >= 5 AND tags = 'a'").select("queue_offset")
    with redirect_stdout(StringIO()) as plan:
        chosen.explain()
    assert "Filter" not in plan.getvalue().replace("RuntimeFilters", "")
    assert sorted(row[0] for row in chosen.collect()) == [6, 8]
    assert read(spark, cluster, subscribe=topic, kafkaColumns="true").where(
        "partition = 1 AND offset < 3"
    ).selectExpr("CAST(value AS STRING)").collect() == [("0",), ("1",), ("2",)]


def test_rows_are_inserted_by_sql(spark: "SparkSession", cluster: Cluster) -> None:
    topic = cluster.new_topic()
    options = f"namesrv '{cluster.namesrv}', subscribe '{topic}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW inserted USING rocketq OPTIONS ({options})")
    spark.sql("INSERT INTO inserted (body, tags) VALUES (CAST('one' AS BINARY), 'paid')")
    assert spark.sql("SELECT CAST(body AS STRING), tags FROM inserted").collect() == [
        ("one", "paid")
    ]


def test_errors_are_one_sentence(spark: "SparkSession", cluster: Cluster) -> None:
    nowhere = read(spark, Cluster("127.0.0.1:1"), subscribe="x", retryTimeoutMs=1)
    rows = spark.range(1).selectExpr("'x' AS body")
    for fail in (
        lambda: read(spark, cluster, subscribed="x"),
        nowhere.count,
        rows.write.format("rocketq")
        .option("namesrv", "127.0.0.1:1")
        .option("topic", "x")
        .option("retryTimeoutMs", "1")
        .mode("append")
        .save,
    ):
        with pytest.raises(PySparkException) as caught:
            fail()
        assert "Traceback" not in str(caught.value)
        assert "File " not in str(caught.value)
