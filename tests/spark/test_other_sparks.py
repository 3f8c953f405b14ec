"""Spark in other shapes: Spark Connect, a standalone cluster, a declarative pipeline.

Each runs in processes of its own; the program below is what a user would write.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyspark
import pytest

from rocketq import Message
from rocketq.spark import environment
from tests.spark.conftest import JAVA_OPTIONS, Cluster
from tests.spark.readers import batch_rows, numbers
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

# Reads, streams and writes, and says where its tasks ran.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession, functions as F

namesrv, source, target, folder = sys.argv[1:]
{session}
# Nobody has registered the format: Spark finds it.
table = (
    spark.read.format("rocketq").option("namesrv", namesrv).option("subscribe", source).load()
)
total = table.agg(F.sum(F.col("body").cast("string").cast("long"))).first()[0]
query = (
    spark.readStream.format("rocketq")
    .option("namesrv", namesrv)
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .load()
    .select((F.col("body").cast("string").cast("long") + 1000).cast("string").alias("body"))
    .writeStream.format("rocketq")
    .option("namesrv", namesrv)
    .option("topic", target)
    .option("checkpointLocation", folder)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
executors = spark.range(0, 4, 1, 4).select(
    F.udf(lambda _: __import__("os").getpid(), "int")("id")
).distinct().count()
print(json.dumps({{"total": total, "session": type(spark).__module__, "workers": executors}}))
spark.stop()
"""


def run_program(
    session: str, cluster: Cluster, folder: Path, **variables: str
) -> dict[str, object]:
    source, target = cluster.new_topic(), cluster.new_topic()
    cluster.send_numbers(source, range(100))
    program = PROGRAM.format(session=session)
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.namesrv, source, target, str(folder)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(batch_rows(namesrv=cluster.namesrv, subscribe=target)) == [*range(1000, 1100)]
    told: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["total"] == sum(range(100))
    return told


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = environment.what_is_missing()
    if missing:
        pytest.skip(missing)
    environment.prepare()
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)  # for every JVM, whoever starts it


SERVER = """
import sys
from rocketq.spark.run.connect_server import connect_server

settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
with connect_server("local[2]", settings) as server:
    print(server.url, server.token, flush=True)
    sys.stdin.read()
"""


@contextmanager
def connect_server_process() -> Iterator[dict[str, str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            url, token = server.stdout.readline().split()
            yield {"SPARK_REMOTE": url, "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
        finally:
            server.stdin.close()


def test_spark_connect_reads_streams_and_writes(cluster: Cluster, tmp_path: Path) -> None:
    with connect_server_process() as variables:
        told = run_program(
            "spark = SparkSession.builder.getOrCreate()", cluster, tmp_path, **variables
        )
    assert told["session"] == "pyspark.sql.connect.session"


# A standalone cluster


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and a worker of the pip-installed Spark, on free ports of loopback."""
    command = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    variables = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]

    @contextmanager
    def daemon(name: str, *arguments: str) -> Iterator[Path]:
        log = folder / f"{name}.log"
        class_name = f"org.apache.spark.deploy.{name}.{name.capitalize()}"
        with open(log, "w") as out:
            process = subprocess.Popen(
                [command, class_name, *place, *arguments], stdout=out, stderr=out, env=variables
            )
        try:
            yield log
        finally:
            process.terminate()
            process.wait()

    with daemon("master") as log:
        wait_until(lambda: "Starting Spark master at" in log.read_text(), within_s=300)
        found = re.search(r"spark://127\.0\.0\.1:\d+", log.read_text())
        assert found
        with daemon("worker", "--cores", "2", "--memory", "1g", found[0]) as log:
            wait_until(lambda: "Successfully registered" in log.read_text(), within_s=300)
            yield found[0]


def test_executors_in_other_processes_read_and_write(cluster: Cluster, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        session = f"""
from rocketq.spark import environment
spark = (
    SparkSession.builder.master("{master}")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "1g")
    .config("spark.driver.extraJavaOptions", environment.quiet_java_options())
    .config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "2")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
"""
        told = run_program(session, cluster, tmp_path / "checkpoint")
        assert told["session"] == "pyspark.sql.session"
        (application,) = (tmp_path / "work").glob("app-*")
        assert list(application.glob("[0-9]*")), "an executor of the worker did the work"


# A declarative pipeline


def rocketq(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rocketq.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_pipeline_made_by_the_command_works(cluster: Cluster, tmp_path: Path) -> None:
    project = tmp_path / "orders pipeline"
    source, result = cluster.new_topic(), cluster.new_topic()
    names = ("--source", source, "--result", result)
    made = rocketq("pipeline", "init", str(project), "-n", cluster.namesrv, *names)
    assert made.returncode == 0, made.stderr
    again = rocketq("pipeline", "init", str(project))
    assert again.returncode == 1
    assert "is there already" in again.stderr

    def send(hours: range) -> Counter[tuple[str, str]]:
        """Orders of these hours; what the sums by hour and city are."""
        sums: Counter[tuple[str, str]] = Counter()
        messages = [Message(source, b"this is not an order")]
        for hour in hours:
            for number in range(20):
                moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour, minutes=number)
                city = ("Oslo", "Lima")[number % 2]
                order = {"order": number, "city": city, "cents": hour + number + 1}
                order["ordered_at"] = moment.isoformat()
                messages.append(Message(source, json.dumps(order).encode()))
                sums[moment.strftime("%Y-%m-%dT%H:00:00"), city] += hour + number + 1
        cluster.send(messages)
        return sums

    def results() -> dict[tuple[str, str], int]:
        rows = [
            json.loads(row["body"]) for row in batch_rows(namesrv=cluster.namesrv, subscribe=result)
        ]
        assert len({(row["hour"], row["city"]) for row in rows}) == len(rows), "doubled"
        return {(row["hour"][:19], row["city"]): row["cents"] for row in rows}

    sums = send(range(3))
    run = rocketq("pipeline", "run", str(project), "--remote", "local[2]")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "61 rows" in run.stderr, "rows and bytes are told at the end"
    assert "1 rows were left out: they are in table rejected_orders" in run.stderr
    # The last hour is not over: something may still come for it.
    last = max(hour for hour, _ in sums)
    assert results() == {key: cents for key, cents in sums.items() if key[0] != last}

    # The next run goes on where this one ended.
    sums += send(range(3, 5))
    run = rocketq("pipeline", "run", str(project), "--remote", "local[2]")
    assert run.returncode == 0, run.stdout + run.stderr
    last = max(hour for hour, _ in sums)
    assert results() == {key: cents for key, cents in sums.items() if key[0] != last}


def test_a_folder_without_a_pipeline_is_no_project(tmp_path: Path) -> None:
    run = rocketq("pipeline", "run", str(tmp_path))
    assert run.returncode == 1
    assert "rocketq pipeline init" in run.stderr


def test_the_example_says_what_it_should(cluster: Cluster) -> None:
    example = Path(__file__).parents[2] / "examples" / "spark" / "city_totals.py"
    done = subprocess.run(
        [sys.executable, str(example), cluster.namesrv],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "totals: {'Lima': 2500, 'Oslo': 2450}" in done.stdout
    assert "Warning" not in done.stderr
