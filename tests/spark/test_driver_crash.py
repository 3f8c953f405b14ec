"""A driver that is killed in the middle of a query, and what the next one finds."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import JAVA_OPTIONS, Cluster
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# The driver: small batches for ever, into files, each of which Spark takes or leaves as a whole.
DRIVER = """
import sys
from rocketq.spark import environment

namesrv, topic, folder, java_options = sys.argv[1:]
spark = environment.session(
    "to be killed",
    spark_driver_memory="1g",
    spark_sql_shuffle_partitions="2",
    spark_driver_extraJavaOptions=f"{environment.quiet_java_options()} {java_options}",
)
(
    spark.readStream.format("rocketq")
    .option("namesrv", namesrv)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "50")
    .load()
    .selectExpr("cast(body as string)")
    .writeStream.format("text")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .start(f"{folder}/rows")
    .awaitTermination()
)
"""


def test_nothing_is_lost_or_doubled_when_the_driver_is_killed(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path
) -> None:
    topic, count = cluster.new_topic(), 1000
    cluster.send_numbers(topic, range(count))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.namesrv, topic, str(tmp_path), JAVA_OPTIONS],
        start_new_session=True,
    )
    batches = tmp_path / "rows" / "_spark_metadata"
    try:
        wait_until(lambda: driver.poll() is not None or (batches / "2").exists(), within_s=600)
        assert driver.poll() is None, "the driver ended by itself"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python, the JVM below it, and its workers
        driver.wait()
    assert not (batches / str(count // 50 - 1)).exists(), "it was killed too late"

    cluster.send_numbers(topic, range(count, count + 10))
    query = (
        spark.readStream.format("rocketq")
        .option("namesrv", cluster.namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("cast(body as string)")
        .writeStream.format("text")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(600)
    rows = [int(row.value) for row in spark.read.text(str(tmp_path / "rows")).collect()]
    assert sorted(rows) == list(range(count + 10))
