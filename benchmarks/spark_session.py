"""One Spark session that measures topics of rocketq and of Kafka in turn.

Started by `benchmarks.spark_compare`, which gives the addresses. Both formats are measured in
the same session, one after the other in every round, so that they share Spark, JVM, warm-up and
whatever else the machine does. Each result is a line of JSON on stdout.

Rows are bodies of `size` bytes in topics of eight queues. What is read is checked (row count and
checksum), so that a fast answer is also the right one.
"""

import argparse
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F

from benchmarks.ready_source import ReadySource
from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.spark import environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")
_QUEUES = 8
_NUMBER = 9  # digits at the head of every body
# What Kafka's table has, as far as a topic here has it too.
_LIKE_KAFKA = "keys,body,topic,queue_id,queue_offset,store_timestamp"


class Format(Protocol):
    """A way to read and write."""

    name: str
    body: str

    def new_topic(self, name: str) -> str: ...

    def source(self, reader: Any, topic: str) -> Any: ...

    def sink(self, writer: Any, topic: str) -> Any: ...


@dataclass
class Kafka:
    """Spark's own connector."""

    bootstrap: str
    jvm: Any
    name: str = "kafka"
    body: str = "value"

    def new_topic(self, name: str) -> str:
        """Make it first: a first write that has the broker make it sometimes waits in vain."""
        admin = self.jvm.org.apache.kafka.clients.admin
        properties = self.jvm.java.util.Properties()
        properties.setProperty("bootstrap.servers", self.bootstrap)
        topic = admin.NewTopic(name, _QUEUES, self.jvm.java.lang.Short("1"))
        client = admin.AdminClient.create(properties)
        try:
            client.createTopics(self.jvm.java.util.Collections.singletonList(topic)).all().get()
        finally:
            client.close()
        return name

    def source(self, reader: Any, topic: str) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest")

    def sink(self, writer: Any, topic: str) -> Any:
        writer = writer.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return writer.option("topic", topic)


@dataclass
class Rocketq:
    """Ours; `columns` says which."""

    namesrv: str
    name: str = "rocketq"
    columns: str = _LIKE_KAFKA
    body: str = "body"

    def new_topic(self, name: str) -> str:
        config = TopicConfig(topic_name=name, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES)

        async def create() -> None:
            async with ClientInstance.opened(ClientConfig(namesrv=self.namesrv)) as client:
                for broker in (await client.api.cluster_info()).broker_addr_table.values():
                    await client.api.create_topic(broker.broker_addrs[0], config)

        loop_thread().run(create())
        return name

    def source(self, reader: Any, topic: str) -> Any:
        reader = reader.format("rocketq").option("namesrv", self.namesrv)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        return reader.option("columns", self.columns) if self.columns else reader

    def sink(self, writer: Any, topic: str) -> Any:
        return writer.format("rocketq").option("namesrv", self.namesrv).option("topic", topic)


@dataclass
class Ready:
    """Nobody's: rows that are there already."""

    rows: int
    size: int
    name: str = "none"
    body: str = "body"

    def new_topic(self, name: str) -> str:
        return name

    def source(self, reader: Any, topic: str) -> Any:
        return reader.format("ready").option("rows", self.rows).option("size", self.size)

    def sink(self, writer: Any, topic: str) -> Any:
        raise NotImplementedError


# CPU


def cpu_seconds(pids: Iterable[int]) -> float:
    """What these processes, and those they have waited for, have used."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def with_descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def machine_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / _TICKS


# Measures


class Session:
    """The measures, on one Spark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        settings = {"spark_jars": options.jars} if options.jars else {}
        self.spark: SparkSession = environment.session(
            "spark-compare",
            spark_driver_memory="4g",
            spark_sql_shuffle_partitions="2",
            spark_python_unix_domain_socket_enabled="true",  # see docs/spark.md
            **settings,
        )
        self.spark.dataSource.register(ReadySource)
        jvm: Any = self.spark.sparkContext._jvm
        self.jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())
        self.brokers: dict[str, list[int]] = {"rocketq": options.rocketq_pids, "none": []}
        self.formats: list[Format] = [Rocketq(options.namesrv)]
        self.all_columns = Rocketq(options.namesrv, name="rocketq", columns="")
        if options.bootstrap:
            self.formats.insert(0, Kafka(options.bootstrap, jvm))
            self.brokers["kafka"] = options.kafka_pids
        self.scratch = Path(tempfile.mkdtemp(prefix="spark-compare-"))

    def rows(self, count: int, size: int, column: str) -> "DataFrame":
        """Bodies that are cheap to make: it is the connectors that are measured."""
        first = 10 ** (_NUMBER - 1)
        numbers = self.spark.range(first, first + count, 1, _QUEUES)
        filling = F.lit(bytearray(b"abcdefghij" * size)[: size - _NUMBER])
        body = F.concat(F.col("id").cast("string").cast("binary"), filling)
        return numbers.select(body.alias(column))

    def write(self, which: Format, topic: str, count: int, size: int) -> int:
        which.sink(self.rows(count, size, which.body).write.mode("append"), topic).save()
        return count

    def checksum(self, which: Format, topic: str) -> int:
        table = which.source(self.spark.read, topic).load()
        row = table.agg(F.count("*").alias("n"), F.sum(F.crc32(which.body)).alias("s")).first()
        assert row is not None
        self.last_sum = int(row.s)
        return int(row.n)

    def noop(self, which: Format, topic: str) -> int:
        table = which.source(self.spark.read, topic).load()
        table.write.format("noop").mode("overwrite").save()
        return -1  # nobody counts

    def stream(self, which: Format, topic: str) -> int:
        checkpoint = self.scratch / f"checkpoint-{time.time_ns()}"
        query = (
            which.source(self.spark.readStream, topic)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(600)
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def run(self) -> None:
        for size, count in ((128, self.options.rows_128), (1024, self.options.rows_1024)):
            if self.options.size in (0, size):
                self.run_size(size, count)

    def run_size(self, size: int, count: int) -> None:
        topics = {which.name: which.new_topic(f"read-{size}") for which in self.formats}
        sums = {}
        for which in self.formats:
            self.write(which, topics[which.name], count, size)
            self.checksum(which, topics[which.name])
            sums[which.name] = self.last_sum
        assert len(set(sums.values())) == 1, f"checksums differ: {sums}"
        measures: list[tuple[str, list[Format], Callable[[Format], int]]] = [
            ("batch-crc32", self.formats, lambda f: self.checksum(f, topics[f.name])),
            ("batch-noop", self.formats, lambda f: self.noop(f, topics[f.name])),
            ("stream-noop", self.formats, lambda f: self.stream(f, topics[f.name])),
            ("batch-noop-all", [self.all_columns], lambda f: self.noop(f, topics[f.name])),
            ("batch-noop-ready", [Ready(count, size)], lambda f: self.noop(f, "")),
        ]
        sinks = {which.name: which.new_topic(f"write-{size}") for which in self.formats}
        measures.append(
            ("batch-write", self.formats, lambda f: self.write(f, sinks[f.name], count, size))
        )
        for name, formats, action in measures:
            if self.options.only in ("", name):
                self.measure(name, size, count, formats, action)

    def measure(
        self,
        name: str,
        size: int,
        rows: int,
        formats: list[Format],
        action: Callable[[Format], int],
    ) -> None:
        for attempt in range(1 - self.options.warm, self.options.rounds + 1):
            for which in formats:
                figures = self.once(which, size, rows, action)
                if attempt >= 1:
                    line = {"measure": name, "size": size, "system": which.name, "round": attempt}
                    print(json.dumps(line | figures), flush=True)

    def once(
        self, which: Format, size: int, rows: int, action: Callable[[Format], int]
    ) -> dict[str, Any]:
        brokers = self.brokers[which.name]
        machine = machine_seconds()
        spark = cpu_seconds(with_descendants(self.jvm_pid))
        broker = cpu_seconds(brokers)
        began = time.perf_counter()
        seen = action(which)
        seconds = time.perf_counter() - began
        spark = cpu_seconds(with_descendants(self.jvm_pid)) - spark
        broker = cpu_seconds(brokers) - broker
        machine = machine_seconds() - machine
        assert seen in (rows, -1), f"{seen} rows of {rows}"
        return {
            "rows": rows,
            "seconds": round(seconds, 3),
            "rows_per_s": round(rows / seconds),
            "mb_per_s": round(rows * size / seconds / 1e6, 1),
            "spark_cpu_s_per_million": round(spark * 1e6 / rows, 2),
            "broker_cpu_s_per_million": round(broker * 1e6 / rows, 2),
            "other_cores": round((machine - spark - broker) / seconds, 2),
            "spark": re.sub(r"[^0-9.].*", "", self.spark.version),
        }

    def close(self) -> None:
        self.spark.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--rocketq-pids", type=int, nargs="+", default=[])
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--kafka-pids", type=int, nargs="+", default=[])
    parser.add_argument("--jars", default="")
    parser.add_argument("--rows-128", type=int, required=True)
    parser.add_argument("--rows-1024", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, default=0)
    session = Session(parser.parse_args())
    try:
        session.run()
    finally:
        session.close()


if __name__ == "__main__":
    main()
