"""Pop and acknowledge: rocketq beside Java 5.5.0, in one run, under the same load.

    python -m benchmarks.pop [--rounds 3] [--quick] [--without-java] [--consumers 8] [--merge]

A topic of eight queues is filled; then consumers, a connection each, pop 32 messages at a time
and acknowledge each with a request of its own, as the official client does, until all are done.
The load is prepared bytes from one process (`pop_frames.py`). What is counted is messages popped
and acknowledged per second and the broker's CPU seconds per million; the CPU that the broker
still needs for them afterwards, until their time would be over, is not (see growth).

    plain    a record for each pop and each ack, as in the default of both systems
    merged   enablePopBufferMerge=true

One line of JSON for each, and the medians in the end.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks import frames, systems
from benchmarks.pop_frames import PopPipe
from benchmarks.systems import Running
from rocketq.admin import connected
from rocketq.admin.cluster import brokers
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigList
from rocketq.remoting.headers import CreateTopicList

BODY = os.urandom(128)
QUEUES = 8
A_BATCH = 32
MERGE = "enablePopBufferMerge=true"


async def broker_of(running: Running) -> tuple[str, str]:
    """Address and name of its one broker."""
    async with connected(running.namesrv) as api:
        (cluster,) = await brokers.clusters(api)
        (address,) = await brokers.masters(api, cluster)
        return address, await brokers.broker_name_of(api, address)


async def create_topic(running: Running, address: str, name: str, queues: int = QUEUES) -> None:
    config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
    async with connected(running.namesrv) as api:
        body = TopicConfigList(topic_config_list=[config]).encode()
        await api.invoke(address, CreateTopicList(), body, timeout_s=30.0)


async def fill(address: str, topic: str, count: int, queues: int = QUEUES) -> None:
    pipe = await frames.Pipe.connected(address)
    batches = [frames.batch_frame(topic, queue_id, [BODY] * A_BATCH) for queue_id in range(queues)]
    await frames.flood([pipe], batches, count // A_BATCH, 16)
    pipe.close()


async def drain(running: Running, consumers: int, count: int) -> dict[str, float]:
    """Pop and acknowledge everything; what that took."""
    address, broker = await broker_of(running)
    figures = {}
    for phase, messages in (("warm-up", count // 4), ("measured", count)):
        topic = f"pop-{phase}-{time.time_ns()}"
        await create_topic(running, address, topic)
        await fill(address, topic, messages)
        pipes = [
            await PopPipe.connected(address, topic, f"g-{topic}", broker) for _ in range(consumers)
        ]
        cpu, began = running.cpu_s(), time.perf_counter()
        await asyncio.gather(*(pipe.start(messages) for pipe in pipes))
        took, cpu = time.perf_counter() - began, running.cpu_s() - cpu
        done = sum(pipe.acknowledged for pipe in pipes)
        for pipe in pipes:
            pipe.close()
        figures = {
            "messages": done,
            "messages_per_s": round(done / took),
            "cpu_s_per_million": round(cpu / done * 1e6, 2),
        }
    return figures


def started(name: str, folder: Path, settings: tuple[str, ...]) -> AbstractContextManager[Running]:
    system = systems.rocketq if name == "rocketq" else systems.java
    # A full machine is no reason to refuse the load.
    patient = () if name == "rocketq" else ("waitTimeMillsInSendQueue=60000",)
    return system(folder, settings=(*settings, *patient))


def alone_on_loopback(module: str) -> None:
    """Run again in a network of its own: Java's ports listen on every interface."""
    if os.environ.get("ROCKETQ_ON_LOOPBACK") or not shutil.which("unshare"):
        return
    inner = [sys.executable, "-m", module, *sys.argv[1:]]
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inner]
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0:
        os.environ["ROCKETQ_ON_LOOPBACK"] = "1"
        os.execvp(command[0], command)


def medians(lines: list[dict[str, object]], keys: tuple[str, ...]) -> list[dict[str, object]]:
    """One line for each system and load."""
    out = []
    for system, load in dict.fromkeys((line["system"], line["load"]) for line in lines):
        same = [line for line in lines if (line["system"], line["load"]) == (system, load)]
        figures = {key: statistics.median(float(str(line[key])) for line in same) for key in keys}
        out.append({"system": system, "load": load, "median_of": len(same), **figures})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the harness")
    parser.add_argument("--without-java", action="store_true")
    options = parser.parse_args()
    alone_on_loopback("benchmarks.pop")
    count = 20_000 if options.quick else options.count
    names = ["rocketq"] if options.without_java else ["rocketq", "java"]
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="rocketq-pop-") as place:
        for number in range(1 if options.quick else options.rounds):
            for name in names:
                for load, settings in (("plain", ()), ("merged", (MERGE,))):
                    folder = Path(place) / f"{name}-{load}-{number}"
                    with started(name, folder, settings) as running:
                        figures = asyncio.run(drain(running, options.consumers, count))
                    shutil.rmtree(folder, ignore_errors=True)
                    lines.append({"system": running.label, "load": load, **figures})
                    print(json.dumps(lines[-1]), flush=True)
    for line in medians(lines, ("messages_per_s", "cpu_s_per_million")):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
