"""Queries that go on from a slave: their master is killed, its messages are there."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketq import Message, Producer, RocketqError
from tests.cli.programs import serving
from tests.cli.servers.test_up_replicas import processes, up
from tests.spark.conftest import Cluster
from tests.spark.test_spark_stream import into_files, numbers, stream
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def send(namesrv: str, topic: str, wanted: range) -> None:
    """Each acknowledged by master and slave."""
    with Producer("numbers", namesrv=namesrv, send_timeout_s=60.0) as producer:
        for number in wanted:
            result = producer.send(Message(topic, b"%d" % number))
            assert result.status.name == "SEND_OK", result


def test_streams_and_batches_go_on_from_the_slave(spark: "SparkSession", tmp_path: Path) -> None:
    with serving(*up(tmp_path / "pair")) as server:
        pids, cluster = processes(server), Cluster(server.facts["namesrv"])

        def is_followed() -> bool:
            try:
                send(cluster.namesrv, "warm-up", range(1))
            except (AssertionError, RocketqError):
                return False
            return True

        wait_until(is_followed, "a slave that acknowledges")
        send(cluster.namesrv, "numbers", range(60))
        table = stream(spark, cluster, subscribe="numbers", startingOffsets="earliest")
        into_files(table, tmp_path).awaitTermination()
        assert numbers(spark, tmp_path) == list(range(60))

        send(cluster.namesrv, "numbers", range(60, 100))
        os.kill(pids["broker-a"], signal.SIGKILL)

        table = stream(spark, cluster, subscribe="numbers", startingOffsets="earliest")
        into_files(table, tmp_path).awaitTermination()
        assert numbers(spark, tmp_path) == list(range(100)), "on where it was, nothing twice"
        batch = (
            spark.read.format("rocketq")
            .option("namesrv", cluster.namesrv)
            .option("subscribe", "numbers")
            .load()
        )
        found = sorted(int(row.body) for row in batch.select("body").collect())
        assert found == list(range(100))
        assert server.stop() == 0
