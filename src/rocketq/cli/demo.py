"""`make demo`: the main job end to end, then everything is gone again.

A NameServer and a broker start in one process, 10,000 orders are sent, a consumer group of
two members takes them, and a Spark streaming job sums them up by city. Without Java the
Spark step is left out, with a line that says what to install.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from rocketq import Message, MessageExt, Producer, PushConsumer
from rocketq.admin import connected, topics
from rocketq.admin.cluster import brokers
from rocketq.remoting.bodies.registration import TopicConfig
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
        orders = make_orders()
        send_and_consume(namesrv, orders)
        aggregate_on_spark(namesrv, sums_by_city(orders))
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


class Order(NamedTuple):
    """What somebody in a city has paid."""

    number: int
    city: str
    cents: int

    def message(self) -> Message:
        body = json.dumps(self._asdict()).encode()
        return Message(TOPIC, body, tags="paid", keys=[f"order-{self.number}"])


def make_orders() -> list[Order]:
    chance = random.Random(7)
    return [
        Order(number, chance.choice(CITIES), chance.randrange(100, 10_000))
        for number in range(ORDERS)
    ]


def sums_by_city(orders: Iterable[Order]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for order in orders:
        sums[order.city] += order.cents
    return dict(sums)


async def make_topic(namesrv: str) -> None:
    async with connected(namesrv) as api:
        (cluster,) = await brokers.clusters(api)
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4)
        await topics.create(api, config, await brokers.masters(api, cluster))


class Billing:
    """A consumer group of two members that share the queues; together they get every order."""

    def __init__(self, namesrv: str) -> None:
        self.seen: dict[int, Order] = {}
        self.by_member: Counter[str] = Counter()
        self.is_complete = threading.Event()
        self._namesrv = namesrv
        self.members = {name: self._member(name) for name in ("first", "second")}

    def _member(self, name: str) -> PushConsumer:
        def bill(message: MessageExt) -> None:
            order = Order(**json.loads(message.body))
            self.seen[order.number] = order
            self.by_member[name] += 1
            if len(self.seen) == ORDERS:
                self.is_complete.set()

        return PushConsumer(
            "billing",
            namesrv=self._namesrv,
            topics={TOPIC: "paid"},
            listener=bill,
            consume_from="first",
        )

    def wait_for_shares(self) -> None:
        """Until both have their part of the queues; a member that joins takes over some."""
        deadline = time.monotonic() + _WAIT_S
        while not self._is_shared():
            if time.monotonic() > deadline:
                sys.exit(f"the group did not share its queues within {_WAIT_S:g} s")
            time.sleep(0.01)

    def _is_shared(self) -> bool:
        first, second = (
            {queue for queue in member.assignment if queue.topic == TOPIC}
            for member in self.members.values()
        )
        return bool(first and second) and first.isdisjoint(second)


def send_and_consume(namesrv: str, orders: list[Order]) -> None:
    """A shop sends the orders, the billing group takes them."""
    # The machine may be busy: time enough for the last of them, too.
    shop = Producer("shop", namesrv=namesrv, send_timeout_s=_WAIT_S)
    billing = Billing(namesrv)
    first, second = billing.members.values()
    with shop as producer:
        # Nothing is consumed before both have their queues: a queue that changes hands brings
        # again what its former owner has consumed and not yet committed.
        asyncio.run(make_topic(namesrv))
        with ExitStack() as group:
            with step("two consumers join a group"):
                group.enter_context(first)
                group.enter_context(second)
                billing.wait_for_shares()
            with step(f"send {ORDERS:,} orders"):
                pending = [producer.send_soon(order.message()) for order in orders]
                last = [future.result() for future in pending][-1]
            print(f"  last one: {last.status.name} {last.queue} offset {last.queue_offset}")
            with step("wait until the group has consumed them all"):
                if not billing.is_complete.wait(_WAIT_S):
                    sys.exit(f"only {len(billing.seen):,} of {ORDERS:,} orders arrived")
    assert list(map(billing.seen.get, range(ORDERS))) == orders, "what was sent was not consumed"
    print(f"  {len(billing.seen):,} orders, by member: {dict(billing.by_member)}")
    again = billing.by_member.total() - ORDERS
    if again:
        print(f"  {again:,} of them came twice: delivery is at least once")


def aggregate_on_spark(namesrv: str, expected: dict[str, int]) -> None:
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
        assert rows == expected, "Spark's sums are not what was sent"
    finally:
        spark.stop()


@contextmanager
def step(name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - began:.2f} s", flush=True)


if __name__ == "__main__":
    main()
