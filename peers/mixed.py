"""Mixed clusters: a rocketq broker and a Java broker at one NameServer, one topic on both.

Each side's producer has to spread its messages over both brokers, and each side's group has to
read both.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from peers import java
from peers.outcomes import Column, Outcome, Outcomes
from peers.sdk.trial import RUN, Trial, collecting, until
from peers.servers import Cluster, Server
from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.admin.session import connected
from rocketq.aio import Message, MessageExt, run
from rocketq.remoting.bodies.registration import TopicConfig

COUNT = 40
BOTH = {"broker-a": COUNT // 2, "broker-b": COUNT // 2}


def mixed(start: Callable[[Cluster], Server], folder: Path, rows: Sequence[str]) -> Outcomes:
    with Cluster(folder) as cluster:
        namesrv = start(cluster)
        cluster.rocketq_broker("a", namesrv)
        cluster.java_broker("b", namesrv)
        return run(spread_and_read(folder, namesrv.address))


async def spread_and_read(folder: Path, namesrv: str) -> Outcomes:
    topic = f"Mixed{RUN}"
    await create_everywhere(namesrv, topic)
    found: dict[str, Outcome] = {}
    sent = java_share(folder, "send", namesrv, topic, str(COUNT))
    found["mixed: Java producer spreads"] = is_even(sent)
    found["mixed: rocketq group reads both"] = await our_group(namesrv, topic, "j")
    other = f"{topic}_2"
    await create_everywhere(namesrv, other)
    found["mixed: rocketq producer spreads"] = await our_producer(namesrv, other)
    read = java_share(folder, "consume", namesrv, other, str(COUNT), f"MixedJava{RUN}")
    found["mixed: Java group reads both"] = is_even(read)
    return found


def is_even(shares: dict[str, int]) -> Outcome:
    return Outcome(shares == BOTH, "" if shares == BOTH else f"wanted {BOTH}, got {shares}")


async def create_everywhere(namesrv: str, topic: str) -> None:
    async with connected(namesrv) as api:

        async def both_serve_it() -> bool:
            addresses = await brokers.masters(api, "DefaultCluster")
            config = TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
            await topics.create(api, config, addresses)
            return len((await topics.route(api, topic)).queue_datas) == 2

        await until(both_serve_it, f"{topic} on both brokers")


def java_share(folder: Path, *arguments: str) -> dict[str, int]:
    classes = java.compiled("Mixed.java", java.V5)
    command = java.command(java.V5, "Mixed", folder, classes)
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=180, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    shares: dict[str, int] = json.loads(lines[-1]) if lines else {"failed": done.returncode}
    return shares


async def our_group(namesrv: str, topic: str, prefix: str) -> Outcome:
    received: list[MessageExt] = []
    async with Trial(namesrv) as trial:
        await trial.opened(trial.consumer(trial.group(), collecting(received), topics=topic))
        await until(lambda: len(received) >= COUNT, "messages of both brokers")
    shares = {name: sum(each.broker_name == name for each in received) for name in BOTH}
    return is_even(shares)


async def our_producer(namesrv: str, topic: str) -> Outcome:
    shares: dict[str, int] = {}
    async with Trial(namesrv) as trial:
        producer = await trial.producer()
        for number in range(COUNT):
            result = await producer.send(Message(topic, b"p%d" % number))
            shares[result.queue.broker_name] = shares.get(result.queue.broker_name, 0) + 1
    return is_even(shares)


COLUMNS = [
    Column(
        "mixed-java-namesrv",
        "both brokers, Java NameServer",
        lambda folder, rows: mixed(lambda cluster: cluster.java_namesrv(), folder, rows),
    ),
    Column(
        "mixed-rocketq-namesrv",
        "both brokers, rocketq NameServer",
        lambda folder, rows: mixed(lambda cluster: cluster.rocketq_namesrv(), folder, rows),
    ),
]
