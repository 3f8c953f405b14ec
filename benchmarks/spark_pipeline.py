"""What deliveries cost, what reading files saves, and how long a row is on its way.

    python -m benchmarks.spark_pipeline            # a few minutes; --quick to try it

One Spark session and one broker of rocketq. Each line is a measure: the median of the rounds, the
lowest and highest in brackets. What is written is counted afterwards, what is read is compared.

    write     rows of 128 B with each delivery, in turn
    read      the same topic through the broker and from its files
    latency   from send to row in sink at 1,000 rows/s, and what a trigger takes
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from benchmarks import systems
from benchmarks.report import commit
from benchmarks.spark_session import Rocketq
from rocketq import Message, Producer
from rocketq.spark import environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZE = 128
DELIVERIES = ("atLeastOnce", "exactlyOnce", "transactional")


def spread(values: list[float], digits: int = 0) -> str:
    text = f"{statistics.median(values):,.{digits}f}"
    return f"{text} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


class Bench:
    """The measures, on one Spark."""

    def __init__(self, spark: "SparkSession", namesrv: str, options: argparse.Namespace) -> None:
        self.spark = spark
        self.cluster = Rocketq(namesrv)
        self.options = options

    def rows(self, count: int) -> "DataFrame":
        filling = F.lit(bytearray(b"a" * (SIZE - 9)))
        number = F.lpad(F.col("id").cast("string"), 9, "0").cast("binary")
        return self.spark.range(0, count, 1, 8).select(F.concat(number, filling).alias("body"))

    def write(self, topic: str, count: int, delivery: str) -> None:
        sink = self.cluster.sink(self.rows(count).write.mode("append"), topic)
        sink.option("delivery", delivery).save()

    def table(self, topic: str, **options: str) -> "DataFrame":
        if "store" in options:
            source = self.spark.read.format("rocketq").option("subscribe", topic)
            source = source.option("columns", self.cluster.columns)
        else:
            source = self.cluster.source(self.spark.read, topic)
        return source.options(**options).load()

    def rates(self, count: int, actions: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
        """Rows per second of each, in turn; the first round is not counted."""
        found: dict[str, list[float]] = {name: [] for name in actions}
        for round_ in range(self.options.rounds + 1):
            for name, action in actions.items():
                began = time.perf_counter()
                action()
                if round_:
                    found[name].append(count / (time.perf_counter() - began))
        return found

    def deliveries(self, count: int, names: tuple[str, ...]) -> None:
        topics = {name: self.cluster.new_topic(f"{name}-{count}") for name in names}
        actions: dict[str, Callable[[], None]] = {
            name: lambda name=name: self.write(topics[name], count, name)  # type: ignore[misc]
            for name in names
        }
        found = self.rates(count, actions)
        base = statistics.median(found[names[0]])
        for name, rates in found.items():
            there = self.table(topics[name], columns="queue_id").count()
            assert there == count * (self.options.rounds + 1), (name, there)
            ratio = statistics.median(rates) / base
            print(f"| write {count:,} rows, {name} | {spread(rates)} rows/s | {ratio:.2f} |")

    def files(self, store: Path) -> None:
        topic, count = self.cluster.new_topic("read"), self.options.read_rows
        self.write(topic, count, DELIVERIES[0])
        sums = []

        def checksum(**options: str) -> None:
            body = F.sum(F.crc32("body"))
            row = self.table(topic, **options).agg(F.count("*").alias("n"), body.alias("s")).first()
            assert row is not None
            assert row.n == count
            sums.append(row.s)

        found = self.rates(
            count,
            {
                "through the broker": checksum,
                "from the files": lambda: checksum(store=str(store)),
                "from the files, checkCrc=false": lambda: checksum(
                    store=str(store), checkCrc="false"
                ),
            },
        )
        assert len(set(sums)) == 1, sums
        base = statistics.median(found["through the broker"])
        for name, rates in found.items():
            ratio = statistics.median(rates) / base
            print(f"| read {count:,} rows {name} | {spread(rates)} rows/s | {ratio:.2f} |")

    def latency(self, folder: Path) -> None:
        """Rows carry the time they were sent; the sink looks at the clock when it has them."""
        topic, stop = self.cluster.new_topic("latency"), threading.Event()
        late_ms: list[float] = []

        def arrived(batch: Any, _: int) -> None:
            sent = [float(row.body) for row in batch.select("body").collect()]
            now = time.time()
            late_ms.extend((now - each) * 1000 for each in sent)

        def send() -> None:
            with Producer("latency", namesrv=self.cluster.namesrv) as producer:
                due = time.perf_counter()
                while not stop.is_set():
                    for _ in range(10):
                        producer.send_soon(
                            Message(topic, f"{time.time():.6f}".ljust(SIZE).encode())
                        )
                    due += 0.01
                    time.sleep(max(0.0, due - time.perf_counter()))

        stream = self.cluster.source(self.spark.readStream, topic).load()
        query = (
            stream.writeStream.foreachBatch(arrived)
            .option("checkpointLocation", str(folder / "latency"))
            .start()
        )
        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(5)  # until it is steady
        late_ms.clear()
        time.sleep(self.options.latency_s)
        measured = sorted(late_ms)
        triggers = [each["durationMs"]["triggerExecution"] for each in query.recentProgress[-50:]]
        stop.set()
        sender.join()
        query.stop()
        rows, at = len(measured), [measured[int(len(measured) * share)] for share in (0.5, 0.99)]
        print(
            f"| send to sink, {rows / self.options.latency_s:,.0f} rows/s | 50%: {at[0]:,.0f} ms, "
            f"99%: {at[1]:,.0f} ms | |"
        )
        print(f"| a trigger | {spread(triggers)} ms | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, to try the harness")
    options = parser.parse_args()
    options.rounds = 1 if options.quick else 3
    options.read_rows = 50_000 if options.quick else 4_000_000
    options.latency_s = 3 if options.quick else 20
    few, many = (5_000, 20_000) if options.quick else (100_000, 2_000_000)
    with tempfile.TemporaryDirectory(prefix="rocketq-spark-pipeline-") as name:
        folder = Path(name)
        with systems.rocketq(folder / "rocketq") as ours:
            spark = environment.session(
                "spark-pipeline",
                spark_driver_memory="3g",
                spark_python_unix_domain_socket_enabled="true",
            )
            try:
                print(f"{time.strftime('%Y-%m-%d')}, commit {commit()}, Spark {spark.version}")
                bench = Bench(spark, ours.namesrv, options)
                bench.deliveries(many, DELIVERIES[:2])
                bench.deliveries(few, DELIVERIES)
                bench.files(next(folder.glob("rocketq/**/commitlog")).parent)
                bench.latency(folder)
            finally:
                spark.stop()


if __name__ == "__main__":
    main()
