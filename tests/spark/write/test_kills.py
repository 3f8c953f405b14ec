"""Exactly once, and whole batches, in a real Spark whose workers, broker and driver are killed.

One driver runs a query of either delivery. Somebody reads what is transactional all the while, and
looks for batches in part. The short form kills each once, the long one ROCKETQ_KILL_ROUNDS times.
Both are `slow`; the suite has test_exactly_once_kills.py.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketq.common.errors import RocketqError
from rocketq.spark import environment
from tests.spark.conftest import JAVA_OPTIONS, Cluster
from tests.spark.readers import batch_rows, numbers
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

# Small batches, written with two tasks each; a shuffle, so that rows come in any order.
DRIVER = """
import sys
from pyspark.sql import functions as F
from rocketq.spark import environment

namesrv, source, once, whole, folder, java_options = sys.argv[1:]
spark = environment.session(
    "to be killed",
    master="local[2,100]",
    spark_driver_memory="1g",
    spark_sql_shuffle_partitions="2",
    spark_speculation="true",
    spark_speculation_interval="100ms",
    spark_speculation_multiplier="1.1",
    spark_speculation_quantile="0.1",
    spark_driver_extraJavaOptions=f"{environment.quiet_java_options()} {java_options}",
)


def start(delivery, target):
    return (
        spark.readStream.format("rocketq")
        .option("namesrv", namesrv)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "500")
        .option("retryTimeoutMs", "120000")
        .load()
        .select("body")
        .repartition(2, F.col("body"))
        .writeStream.format("rocketq")
        .option("namesrv", namesrv)
        .option("topic", target)
        .option("delivery", delivery)
        .option("batchMessages", "20")
        .option("retryTimeoutMs", "120000")
        .option("checkpointLocation", f"{folder}/{delivery}")
        .trigger(availableNow=True)
        .start()
    )


for query in [start("exactlyOnce", once), start("transactional", whole)]:
    query.awaitTermination()
"""


class Broker:
    """A broker in a process of its own, to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.broker_port = free_port()
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "rocketq.cli", "up", "--dir", str(self._folder)]
        command += ["--namesrv-port", str(self.port), "--broker-port", str(self.broker_port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    running = Broker(folder)
    try:
        yield running
    finally:
        running.kill()


def python_workers(group: int) -> list[int]:
    """The processes of a driver's group that run tasks: children of Spark's Python daemons."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat[2]) == group and b"pyspark.daemon" in line and b"pyspark.worker" in line:
                found.append(int(entry.name))
    return found


def wait_for_a_batch(driver: "subprocess.Popen[bytes]", checkpoints: Path) -> None:
    """Until the driver has begun one that was not there before, or is over."""

    def batches() -> int:
        return len(list(checkpoints.glob("*/offsets/[0-9]*")))

    before = batches()
    wait_until(lambda: driver.poll() is not None or batches() > before, within_s=600)


class Watcher:
    """Reads whole batches of a topic over and over, and keeps how much of each it has seen."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self._source = {"namesrv": namesrv, "subscribe": topic, "retryTimeoutMs": "1000"}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sizes: dict[str, set[int]] = {}
        self.reads = 0

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            try:
                found = self.look(wholeBatches="true")
            except RocketqError:
                continue  # the broker is being killed
            self.reads += 1
            for batch, size in found.items():
                self.sizes.setdefault(batch, set()).add(size)

    def look(self, **options: str) -> Counter[str]:
        """How many rows of each batch there are."""
        rows = batch_rows(**self._source, columns="properties", **options)
        return Counter(dict(row["properties"])["SPARK_BATCH"] for row in rows)


def kill_rounds(tmp_path: Path, rounds: int, count: int, seed: int) -> dict[str, int]:
    missing = environment.what_is_missing()
    if missing:
        pytest.skip(missing)
    chance = random.Random(seed)
    left = Counter({"worker": rounds, "broker": rounds, "driver": rounds})
    done: Counter[str] = Counter()
    with broker(tmp_path / "data") as running:
        cluster = Cluster(f"127.0.0.1:{running.port}")
        source = cluster.new_topic(queues=2)
        once, whole = cluster.new_topic(queues=3), cluster.new_topic(queues=3)
        cluster.send_numbers(source, range(count))
        sent = count
        with Watcher(cluster.namesrv, whole) as watcher:
            while True:
                command = [sys.executable, "-c", DRIVER, cluster.namesrv, source, once, whole]
                command += [str(tmp_path), JAVA_OPTIONS]
                driver = subprocess.Popen(command, start_new_session=True)
                try:
                    wait_for_a_batch(driver, tmp_path)
                    while driver.poll() is None and left.total():
                        time.sleep(chance.uniform(0.05, 1.5))
                        kind = chance.choice([kind for kind in left if left[kind] > 0])
                        if not kill(kind, running, driver, chance):
                            continue
                        left[kind] -= 1
                        done[kind] += 1
                    driver.wait(600)
                finally:
                    if driver.poll() is None:
                        os.killpg(driver.pid, signal.SIGKILL)
                        driver.wait()
                if driver.returncode == 0 and not left.total():
                    break
                if driver.returncode == 0:  # it was done before all were killed
                    wait_until(lambda: cluster.queues(source))
                    cluster.send_numbers(source, range(sent, sent + count))
                    sent += count
        what = f"of {sent} after {dict(done)}, seed {seed}"
        for target in (once, whole):
            wait_until(lambda target=target: cluster.queues(target))  # type: ignore[misc]
            found = Counter(numbers(batch_rows(namesrv=cluster.namesrv, subscribe=target)))
            lost = set(range(sent)) - set(found)
            doubled = {number: times for number, times in found.items() if times > 1}
            assert not lost, f"{len(lost)} lost {what}"
            assert not doubled, f"{len(doubled)} doubled {what}"
        sizes = watcher.look()
        assert watcher.look(wholeBatches="true") == sizes
        parts = {each: seen for each, seen in watcher.sizes.items() if seen != {sizes[each]}}
        assert not parts, f"{parts} seen in part {what}"
        assert watcher.sizes, "nobody looked"
        print(f"{what}: {len(sizes)} batches, looked at {watcher.reads} times")
    return dict(done)


def kill(
    kind: str, running: Broker, driver: "subprocess.Popen[bytes]", chance: random.Random
) -> bool:
    """Whether there was something to kill."""
    if kind == "broker":
        running.kill()
        time.sleep(chance.uniform(0, 0.5))
        running.start()
        return True
    if kind == "driver":
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        return True
    workers = python_workers(driver.pid)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    return bool(workers)


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_seen_in_part_whoever_is_killed(tmp_path: Path) -> None:
    done = kill_rounds(tmp_path, rounds=1, count=3000, seed=1)
    assert done == {"worker": 1, "broker": 1, "driver": 1}


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_seen_in_part_in_many_rounds(tmp_path: Path) -> None:
    rounds = int(os.environ.get("ROCKETQ_KILL_ROUNDS", "50"))
    done = kill_rounds(tmp_path, rounds=rounds, count=20_000, seed=time.time_ns() % 1_000_000)
    assert set(done.values()) == {rounds}
