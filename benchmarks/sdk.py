"""The SDK against the official Java client: the same loads on the same brokers, in turn.

    python -m benchmarks.sdk [--quick] [--without-java-broker] [--only NAME ...]

CPU of the client per message decides: client and broker share the cores, so throughput says
as much about the broker. Writes docs/benchmarks-sdk.md. One load alone, with one line of JSON as
Load.java prints it:

    python -m benchmarks.sdk load async --namesrv 127.0.0.1:9876 --count 200000
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import systems
from benchmarks.report import commit
from benchmarks.systems import Running
from rocketq.aio import Message, MessageExt, Producer, PushConsumer, SendResult, run

BODY = b"x" * 128
IN_FLIGHT = 4000
GOALS = {"async": 1.0, "sync": 1.0, "batch": 1.0, "consume": 0.5}
"""CPU per message, as a ratio to the Java client's."""
TITLES = {
    "async": f"async, {IN_FLIGHT:,} in flight",
    "sync": "sync, 64 at a time",
    "batch": "batches of 32, 4 at a time",
    "consume": "push consume a backlog",
}
PAGE = systems.ROOT / "docs" / "benchmarks-sdk.md"


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# Loads


async def send_async(namesrv: str, topic: str, count: int) -> Callable[[], Awaitable[int]]:
    """Many sends under way at a time, each with its future."""
    producer = Producer("bench", namesrv=namesrv)
    await producer.start()
    room = asyncio.Event()
    pending = failed = 0

    def answered(future: asyncio.Future[SendResult]) -> None:
        nonlocal pending, failed
        pending -= 1
        if future.exception() is not None:
            failed += 1
        if pending <= IN_FLIGHT // 2:
            room.set()

    async def load() -> int:
        nonlocal pending
        for _ in range(count):
            if pending >= IN_FLIGHT:
                room.clear()
                await room.wait()
            pending += 1
            producer.send_soon(Message(topic, BODY)).add_done_callback(answered)
        await producer.close()
        return count - failed

    await producer.send(Message(topic, BODY))
    return load


async def send_sync(namesrv: str, topic: str, count: int) -> Callable[[], Awaitable[int]]:
    """64 tasks that each wait for every receipt."""
    producer = Producer("bench", namesrv=namesrv)
    await producer.start()

    async def one_after_the_other() -> None:
        for _ in range(count // 64):
            await producer.send(Message(topic, BODY))

    async def load() -> int:
        await asyncio.gather(*(one_after_the_other() for _ in range(64)))
        await producer.close()
        return count // 64 * 64

    await producer.send(Message(topic, BODY))
    return load


async def send_batch(namesrv: str, topic: str, count: int) -> Callable[[], Awaitable[int]]:
    """Batches of 32, four at a time."""
    producer = Producer("bench", namesrv=namesrv)
    await producer.start()

    async def batches() -> None:
        for _ in range(count // 128):
            await producer.send_batch([Message(topic, BODY) for _ in range(32)])

    async def load() -> int:
        await asyncio.gather(*(batches() for _ in range(4)))
        await producer.close()
        return count // 128 * 128

    await producer.send(Message(topic, BODY))
    return load


async def consume(namesrv: str, topic: str, count: int) -> Callable[[], Awaitable[int]]:
    """A push consumer over a backlog, batches to an async listener."""
    async with Producer("bench", namesrv=namesrv, batch_bytes=256 * 1024) as producer:
        for _ in range(count // 1000):
            await producer.send_batch([Message(topic, BODY) for _ in range(1000)])
    arrived = 0
    done = asyncio.Event()

    async def listener(messages: list[MessageExt]) -> None:
        nonlocal arrived
        arrived += len(messages)
        if arrived >= count // 1000 * 1000:
            done.set()

    async def load() -> int:
        async with PushConsumer(
            "bench-consumer",
            namesrv=namesrv,
            topics=topic,
            listener=listener,
            batch_size=512,
            consume_from="first",
            pull_threshold=10_000,
            max_span=20_000,
        ):
            await done.wait()
        return arrived

    return load


LOADS = {"async": send_async, "sync": send_sync, "batch": send_batch, "consume": consume}
JAVA = {
    "async": f"produce --mode async --threads 1 --inflight {IN_FLIGHT} --size 128",
    "sync": "produce --mode sync --threads 64 --size 128",
    "batch": "produce --mode batch --threads 4 --batch 32 --size 128",
    "consume": "consume --batch 512 --pull-batch 512",
}


async def measured(name: str, namesrv: str, topic: str, count: int) -> dict[str, float]:
    """Run one load; a tenth of it first, which is in no figure."""
    warm_up = await LOADS[name](namesrv, f"{topic}-warm", max(count // 10, 1000))
    await warm_up()
    load = await LOADS[name](namesrv, topic, count)
    cpu, began = cpu_s(), time.perf_counter()
    done = await load()
    elapsed_s, cpu = time.perf_counter() - began, cpu_s() - cpu
    return {
        "count": done,
        "tps": round(done / elapsed_s),
        "errors": count - done if name == "async" else 0,
        "client_cpu_s_per_million": round(cpu / done * 1e6, 2),
    }


# Comparison


def ours(name: str, running: Running, count: int) -> dict[str, float]:
    """One load in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sdk", "load", name]
    command += ["--namesrv", running.namesrv, "--count", str(count)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
    result: dict[str, float] = json.loads(process.stdout.strip().splitlines()[-1])
    return result


def javas(name: str, running: Running, count: int) -> dict[str, float]:
    """The same load by the official client."""
    arguments = f"{JAVA[name]} --count {count}"
    if name == "consume":
        topic = f"backlog{time.time_ns() // 1_000_000}"
        backlog = (
            f"produce --mode batch --threads 4 --batch 32 --size 128 --warmup 0 --topic {topic}"
        )
        systems.load(running, f"{backlog} --count {count}")
        arguments += f" --topic {topic}"
    return systems.load(running, arguments)


def compare(
    names: list[str], *, count: int, rounds: int, with_java_broker: bool
) -> list[dict[str, Any]]:
    """Every load on every broker, both clients in turn; each result is a line."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        brokers = [systems.rocketq] + ([systems.java] if with_java_broker else [])
        for start in brokers:
            with start(Path(folder) / start.__name__) as running:
                for name in names:
                    for _ in range(rounds):
                        for label, load in (("rocketq", ours), ("Java", javas)):
                            result = load(name, running, count)
                            line = {"broker": running.label, "client": label, "load": name}
                            lines.append({**line, **result})
                            print(json.dumps(lines[-1]), flush=True)
    return lines


# Page


def table(lines: list[dict[str, Any]]) -> list[str]:
    """Medians with lowest and highest, and what they come to."""
    out = [
        "| broker | load | client | msgs/s | client CPU s per million | to Java's CPU |",
        "|---|---|---|---|---|---|",
    ]
    for broker, name in dict.fromkeys((line["broker"], line["load"]) for line in lines):
        costs = {}
        for client in ("Java", "rocketq"):
            found = [
                line
                for line in lines
                if (line["broker"], line["load"], line["client"]) == (broker, name, client)
            ]
            cost = [line["client_cpu_s_per_million"] for line in found]
            costs[client] = statistics.median(cost)
            ratio = ""
            if client == "rocketq":
                share = costs["rocketq"] / costs["Java"]
                verdict = "reached" if share <= GOALS[name] else "missed"
                ratio = f"{share:.2f} (goal {GOALS[name]:g}: {verdict})"
            rates = spread([line["tps"] for line in found], 0)
            row = (broker, TITLES[name], client, rates, spread(cost, 2), ratio)
            out.append(f"| {' | '.join(row)} |")
    return out


def spread(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def page(lines: list[dict[str, Any]], count: int, rounds: int) -> str:
    out = [
        "# Benchmarks of the SDK",
        "",
        "Made by `python -m benchmarks.sdk`: the SDK and the official Java client (5.5.0) put the",
        "same loads on the same broker, in turn, each in one process of its own; 128 B bodies.",
        "Client and broker share the cores, so the CPU a client spends on a message decides;",
        "messages per second say as much about the broker. Medians; lowest, highest in brackets.",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, commit {commit()}; "
        f"{count:,} messages, rounds: {rounds}",
        "",
        *table(lines),
    ]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-java-broker", action="store_true")
    parser.add_argument("--only", nargs="+", choices=LOADS, default=list(LOADS))
    commands = parser.add_subparsers(dest="command")
    alone = commands.add_parser("load")
    alone.add_argument("name", choices=LOADS)
    alone.add_argument("--namesrv", required=True)
    alone.add_argument("--count", type=int, default=200_000)
    alone.add_argument("--topic", default=None)
    options = parser.parse_args()
    if options.command == "load":
        topic = options.topic or f"sdk{time.time_ns() // 1_000_000}"
        print(json.dumps(run(measured(options.name, options.namesrv, topic, options.count))))
        return
    count = 50_000 if options.quick else 500_000
    rounds = 1 if options.quick else options.rounds
    lines = compare(
        options.only,
        count=count,
        rounds=rounds,
        with_java_broker=not options.without_java_broker,
    )
    print("\n".join(table(lines)))
    if not options.quick:
        PAGE.write_text(page(lines, count, rounds))


if __name__ == "__main__":
    main()
