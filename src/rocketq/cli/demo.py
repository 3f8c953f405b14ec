"""`make demo`: the main job end to end, then everything is gone again.

A NameServer and a broker start in one process, 10,000 orders are sent, a consumer group of
two members takes them, and a Spark streaming job sums them up by city. Without Java the
Spark step is left out, with a line that says what to install.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from rocketq import Message, MessageExt, Producer, PushConsumer
from rocketq.spark.environment import session, what_is_missing

ORDERS: Final = 10_000
TOPIC: Final = "orders"
CITIES: Final = ("Berlin", "Hangzhou", "Lagos", "Lima", "Oslo")
_WAIT_S: Final = 120.0


def main() -> None:
    """Run the demo; exit code 0 when every step did what it should."""
    with tempfile.TemporaryDirectory(prefix="rocketq-demo-") as folder, ExitStack() as running:
        with step("start NameServer and broker"):
            namesrv = running.enter_context(rocketq_up(folder))
        sent = send_orders(namesrv)
        consume_orders(namesrv, sent)
        aggregate_on_spark(namesrv, sent)
    print("done: nothing is left behind")


@contextmanager
def rocketq_up(folder: str) -> Iterator[str]:
    """`rocketq up` on free ports, as anybody would start it; the NameServer's address."""
    command = [sys.executable, "-m", "rocketq.cli", "up", "--dir", folder]
    command += ["--namesrv-port", "0", "--broker-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().strip()
        if not ready:
            sys.exit("the broker did not start")
        print(f"  {ready}")
        try:
            yield dict(word.split("=", 1) for word in ready.split()[1:])["namesrv"]
        finally:
            process.terminate()


def send_orders(namesrv: str) -> Counter[str]:
    """Send the orders, and say what each city's sum must be."""
    chance = random.Random(7)
    sums: Counter[str] = Counter()
    # The machine may be busy: time enough for the last of them, too.
    shop = Producer("shop", namesrv=namesrv, send_timeout_s=_WAIT_S)
    with step(f"send {ORDERS:,} orders"), shop as producer:
        pending = []
        for number in range(ORDERS):
            city, cents = chance.choice(CITIES), chance.randrange(100, 10_000)
            sums[city] += cents
            body = json.dumps({"order": number, "city": city, "cents": cents}).encode()
            message = Message(TOPIC, body, tags="paid", keys=[f"order-{number}"])
            if number == 0:
                producer.send(message)  # makes the topic, so that the others know their way
            else:
                pending.append(producer.send_soon(message))
        last = [future.result() for future in pending][-1]
    print(f"  last one: {last.status.name} {last.queue} offset {last.queue_offset}")
    return sums


def consume_orders(namesrv: str, expected: Counter[str]) -> None:
    """Two members of one group share the queues; together they get every order."""
    seen: dict[int, tuple[str, int]] = {}
    by_member: Counter[str] = Counter()
    complete = threading.Event()

    def member(name: str) -> PushConsumer:
        def bill(message: MessageExt) -> None:
            order = json.loads(message.body)
            seen[order["order"]] = (order["city"], order["cents"])
            by_member[name] += 1
            if len(seen) == ORDERS:
                complete.set()

        return PushConsumer(
            "billing", namesrv=namesrv, topics={TOPIC: "paid"}, listener=bill, consume_from="first"
        )

    with step("consume them as a group of two"), member("first"), member("second"):
        if not complete.wait(_WAIT_S):
            sys.exit(f"only {len(seen):,} of {ORDERS:,} orders arrived within {_WAIT_S:g} s")
    sums: Counter[str] = Counter()
    for city, cents in seen.values():
        sums[city] += cents
    assert sums == expected, "what was consumed is not what was sent"
    print(f"  {len(seen):,} orders, by member: {dict(by_member)}")


def aggregate_on_spark(namesrv: str, expected: Counter[str]) -> None:
    """The same orders as a stream in Spark, summed up into a table."""
    why_not = what_is_missing()
    if why_not:
        print(f"Spark step left out: {why_not}")
        return
    with step("start Spark"):
        spark = session("rocketq-demo")
    try:
        with step("aggregate the topic as a stream"):
            from pyspark.sql import functions as F

            orders = (
                spark.readStream.format("rocketq")
                .option("namesrv", namesrv)
                .option("subscribe", TOPIC)
                .option("startingOffsets", "earliest")
                .load()
                .select(
                    F.from_json(F.col("body").cast("string"), "city string, cents long").alias("o")
                )
            )
            totals = orders.groupBy("o.city").agg(
                F.count("*").alias("orders"), F.sum("o.cents").alias("cents")
            )
            query = (
                totals.writeStream.format("memory")
                .queryName("totals")
                .outputMode("complete")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        table = spark.sql("select * from totals order by city")
        table.show()
        rows = {row["city"]: row["cents"] for row in table.collect()}
        assert rows == dict(expected), "Spark's sums are not what was sent"
    finally:
        spark.stop()


@contextmanager
def step(name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - began:.2f} s", flush=True)


if __name__ == "__main__":
    main()
