"""A broker at full load for as long as wanted, while everything around it comes and goes.

    python -m benchmarks.endurance --minutes 20 [--no-page]

Eight hours of a quiet broker are minutes of a busy one: what leaks, leaks with every topic made
and deleted, every group that joins and leaves, every file that is full and deleted. All of that
goes on here all the time, beside senders who always have requests on their way:

- topics are made, written, read by a group that joins for them, and deleted with it;
- clients connect, send one message and go;
- the log's files are small, and the oldest are deleted when 40 % of the disk are full.

Every few seconds the broker's memory, descriptors and threads are looked at, and what a message
took on its way in and on its way through. Writes docs/endurance.md with curves.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks import charts, systems
from benchmarks.frames import Pipe, flood, send_frame
from benchmarks.report import commit
from benchmarks.systems import Running
from rocketq.admin import connected, groups, topics
from rocketq.admin.cluster import brokers
from rocketq.aio import Message, MessageExt, Producer, PushConsumer, run
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.errors import RocketqError
from rocketq.remoting.bodies.registration import TopicConfig

BODY = os.urandom(128)
STANDING_TOPICS = 16
WINDOW = 64
ONE_FLOOD = 4_000
SAMPLE_S = 5.0
PROBE_S = 0.02
SHORT_LIVED_MESSAGES = 100
POINTS = 20
"""Of a curve."""
FLAT_UP_TO = 1.15
LATENCY_FLAT_UP_TO = 1.5
"""Of what takes turns with others on the same cores."""
DISK_MB = 2_048
PAGE = systems.ROOT / "docs" / "endurance.md"
SETTINGS = (
    f"mappedFileSizeCommitLog={32 << 20}",
    "mappedFileSizeConsumeQueue=200000",
    "maxHashSlotNum=50000",
    "maxIndexNum=200000",
    "cleanResourceInterval=1000",
    "diskMaxUsedSpaceRatio=40",
    "diskSpaceCleanForciblyRatio=40",
    "maxConnectionsPerAddress=10000",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker at one moment, and what happened since the one before."""

    minute: float
    memory_mb: float
    descriptors: int
    threads: int
    sent_per_s: float
    send_p50_ms: float
    send_p99_ms: float
    through_p50_ms: float
    """From a send to the consumer's listener."""
    store_mb: float
    topics_made: int
    clients_gone: int
    cpu_percent: float


NAMES = {
    "memory_mb": "anonymous memory, MB",
    "descriptors": "descriptors",
    "threads": "threads",
    "sent_per_s": "messages sent per s",
    "send_p50_ms": "send, median ms",
    "send_p99_ms": "send, 99th percentile ms",
    "through_p50_ms": "send to listener, median ms",
    "store_mb": "files, MB",
    "cpu_percent": "CPU that the broker was given, % of a core",
}
MUST_BE_FLAT = {
    "memory_mb": FLAT_UP_TO,
    "descriptors": FLAT_UP_TO,
    "threads": FLAT_UP_TO,
    "send_p50_ms": LATENCY_FLAT_UP_TO,
    "through_p50_ms": LATENCY_FLAT_UP_TO,
}


class Endurance:
    """Everything that goes on at the same time."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._namesrv = running.namesrv
        self._sent = 0
        self._topics_made = 0
        self._clients_gone = 0
        self._send_ms: list[float] = []
        self._through_ms: list[float] = []
        self._began = time.monotonic()
        self.samples: list[Sample] = []

    async def go_on(self, minutes: float) -> None:
        async with connected(self._namesrv) as api:
            (cluster,) = await brokers.clusters(api)
            (address,) = await brokers.masters(api, cluster)
            names = [f"standing{number}" for number in range(STANDING_TOPICS)]
            for name in (*names, "clock"):
                await topics.create(api, _topic(name), [address])
            tasks = [
                asyncio.create_task(self._flood(address, names)),
                asyncio.create_task(self._probe()),
                asyncio.create_task(_again(lambda: self._short_life(api, cluster, address))),
                asyncio.create_task(_again(lambda: self._client_of_one_message())),
            ]
            self._began = time.monotonic()
            sampling = asyncio.create_task(self._sample(minutes))
            try:
                await asyncio.wait({*tasks, sampling}, return_when=asyncio.FIRST_COMPLETED)
                for each in tasks:
                    if each.done():
                        each.result()  # none of these ends by itself unless it fails
                await sampling
            finally:
                for each in (*tasks, sampling):
                    each.cancel()
                await asyncio.gather(*tasks, sampling, return_exceptions=True)

    # What goes on

    async def _flood(self, address: str, names: Sequence[str]) -> None:
        pipes = [await Pipe.connected(address) for _ in range(8)]
        requests = [
            send_frame(name, queue_id, BODY)
            for name, queue_id in itertools.product(names, range(4))
            for _ in range(16)
        ]
        try:
            while True:
                await flood(pipes, requests, ONE_FLOOD, WINDOW)
                self._sent += ONE_FLOOD
        finally:
            for pipe in pipes:
                pipe.close()

    async def _probe(self) -> None:
        """One message at a time, through the SDK to a listener, with a clock at both ends."""

        def listener(messages: Sequence[MessageExt]) -> None:
            now = time.monotonic()
            for message in messages:
                self._through_ms.append((now - float(message.body)) * 1e3)

        async with (
            PushConsumer("probes", namesrv=self._namesrv, topics="clock", listener=listener),
            Producer("probing", namesrv=self._namesrv) as producer,
        ):
            while True:
                began = time.monotonic()
                await producer.send(Message("clock", b"%.9f" % began))
                self._send_ms.append((time.monotonic() - began) * 1e3)
                await asyncio.sleep(PROBE_S)

    async def _short_life(self, api: BrokerApi, cluster: str, address: str) -> None:
        """A topic is made, written, read by a group of two, and deleted; so is the group."""
        name = f"short{self._topics_made}"
        await topics.create(api, _topic(name), [address])
        missing = {b"%d" % number for number in range(SHORT_LIVED_MESSAGES)}
        done = asyncio.Event()

        def listener(messages: Sequence[MessageExt]) -> None:
            missing.difference_update(bytes(message.body) for message in messages)
            if not missing:
                done.set()

        group = f"group-of-{name}"
        async with Producer("short", namesrv=self._namesrv) as producer:
            for body in list(missing):
                await producer.send(Message(name, body))
        async with (
            asyncio.timeout(60),
            _consumer(self._namesrv, group, name, listener),
            _consumer(self._namesrv, group, name, listener),
        ):
            await done.wait()
        await groups.delete(api, group, broker=None, cluster=cluster, with_offsets=True)
        await topics.delete(api, name, cluster)
        self._topics_made += 1

    async def _client_of_one_message(self) -> None:
        async with Producer("passing", namesrv=self._namesrv) as producer:
            await producer.send(Message("clock", b"%.9f" % time.monotonic()))
        self._clients_gone += 1
        await asyncio.sleep(PROBE_S)

    # What is looked at

    async def _sample(self, minutes: float) -> None:
        for number in itertools.count(1):
            sent, cpu = self._sent, self._running.cpu_s()
            began = time.monotonic()
            await asyncio.sleep(self._began + number * SAMPLE_S - began)
            elapsed = time.monotonic() - began
            send_ms, self._send_ms = self._send_ms or [0.0], []
            through_ms, self._through_ms = self._through_ms or [0.0], []
            self.samples.append(
                Sample(
                    minute=round((time.monotonic() - self._began) / 60, 3),
                    memory_mb=self._running.memory_mb()["anon"],
                    descriptors=sum(_descriptors(pid) for pid in self._running.pids),
                    threads=sum(_threads(pid) for pid in self._running.pids),
                    sent_per_s=round((self._sent - sent) / elapsed),
                    send_p50_ms=round(statistics.median(send_ms), 2),
                    send_p99_ms=round(_percentile(send_ms, 0.99), 2),
                    through_p50_ms=round(statistics.median(through_ms), 2),
                    store_mb=await asyncio.to_thread(_size_mb, self._running.folder),
                    topics_made=self._topics_made,
                    clients_gone=self._clients_gone,
                    cpu_percent=round((self._running.cpu_s() - cpu) / elapsed * 100),
                )
            )
            if self.samples[-1].minute >= minutes:
                return


def _consumer(
    namesrv: str, group: str, topic: str, listener: Callable[[Sequence[MessageExt]], None]
) -> PushConsumer:
    return PushConsumer(
        group, namesrv=namesrv, topics=topic, listener=listener, consume_from="first"
    )


async def _again(life: Callable[[], Awaitable[None]]) -> None:
    failed = 0
    while True:
        try:
            await life()
        except RocketqError as error:
            failed += 1
            print(f"{type(error).__name__}: {error}", flush=True)
            if failed > 20:
                raise


def _topic(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def _size_mb(folder: Path) -> float:
    size = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(at, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # deleted meanwhile, as it should be
    return round(size / 1e6, 1)


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


# Page


def quarters(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """The medians of the second quarter, when all is warm, and of the last."""
    values = [float(getattr(sample, name)) for sample in samples]
    quarter = max(len(values) // 4, 1)
    return statistics.median(values[quarter : 2 * quarter] or values), statistics.median(
        values[-quarter:]
    )


def grown(samples: Sequence[Sample]) -> dict[str, float]:
    """What is not flat, by how much."""
    found = {}
    for name, limit in MUST_BE_FLAT.items():
        second, last = quarters(samples, name)
        if last > second * limit:
            found[name] = last / second
    return found


def curve(samples: Sequence[Sample], name: str) -> list[tuple[float, float]]:
    """Medians over equal parts of the time."""
    part = max(-(-len(samples) // POINTS), 1)
    points = []
    for start in range(0, len(samples), part):
        these = samples[start : start + part]
        value = statistics.median(float(getattr(sample, name)) for sample in these)
        points.append((round(these[-1].minute, 1), value))
    return points


CHARTS = {
    "endurance-memory": ("Memory of NameServer and broker", "MB", ("memory_mb",)),
    "endurance-descriptors": ("Descriptors and threads", "", ("descriptors", "threads")),
    "endurance-latency": ("Latencies", "ms", ("send_p50_ms", "through_p50_ms")),
    "endurance-rate": ("Messages sent per second", "", ("sent_per_s",)),
    "endurance-files": ("Files of the store", "MB", ("store_mb",)),
}


def page(samples: Sequence[Sample], beside: str) -> str:
    last = samples[-1]
    sent = round(sum(sample.sent_per_s for sample in samples) * SAMPLE_S)
    out = [
        "# Endurance",
        "",
        f"Made by `python -m benchmarks.endurance --minutes {last.minute:.0f}`: NameServer and",
        "broker in one process, under a load that never pauses. Senders always have 64 requests on",
        "their way; topics are made, written, read by a group of two and deleted with it; clients",
        f"come, send one message and go. The disk is a tmpfs of {DISK_MB} MB: the oldest files of",
        "the log are deleted when 40 % of it are full.",
        "",
        f"- machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        f"- Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, commit {commit()}",
        f"- in {last.minute:.0f} minutes: {sent:,} messages, {last.topics_made:,} topics and as",
        f"  many groups made and deleted, {last.clients_gone:,} clients come and gone",
        *([f"- {beside}"] if beside else []),
        "",
        "Medians of the second quarter, when everything is warm, and of the last. Flat is what has",
        f"not grown by more than {FLAT_UP_TO - 1:.0%}; a latency, by more than half.",
        "",
        "| | second quarter | last quarter | last / second |",
        "|---|---|---|---|",
    ]
    not_flat = grown(samples)
    for name, title in NAMES.items():
        second, end = quarters(samples, name)
        ratio = f"{end / second:.2f}" if second else "-"
        if name in MUST_BE_FLAT:
            ratio += "" if name in not_flat else ", flat"
        out.append(f"| {title} | {second:,.6g} | {end:,.6g} | {ratio} |")
    for name, (title, _, _) in CHARTS.items():
        out += ["", f"## {title}", "", f"![{title}](charts/{name}.svg)"]
    return "\n".join(out) + "\n"


def write(samples: Sequence[Sample], target: Path, beside: str) -> None:
    (target.parent / "charts").mkdir(parents=True, exist_ok=True)
    for name, (title, unit, series) in CHARTS.items():
        drawn = {NAMES[each]: curve(samples, each) for each in series}
        picture = charts.lines(title, "minutes", unit, drawn)
        (target.parent / "charts" / f"{name}.svg").write_text(picture)
    target.write_text(page(samples, beside))


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Memory as a disk, small enough to be full after a minute; takes root."""
    words = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "rocketq-endurance", str(folder)]
    subprocess.run(["mount", *words], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def endure(folder: Path, minutes: float) -> list[Sample]:
    with small_disk(folder), systems.rocketq(folder / "up", settings=SETTINGS) as running:
        endurance = Endurance(running)
        await endurance.go_on(minutes)
        return endurance.samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=480.0)
    parser.add_argument("--beside", default="", help="what else went on, for the page")
    parser.add_argument("--no-page", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocketq-endurance-") as folder:
        samples = run(endure(Path(folder), options.minutes))
    raw = systems.ROOT / "build" / "endurance.jsonl"
    raw.parent.mkdir(exist_ok=True)
    raw.write_text("".join(json.dumps(asdict(sample)) + "\n" for sample in samples))
    for field in fields(Sample):
        second, last = quarters(samples, field.name)
        print(f"{field.name:16} {second:12,.2f} {last:12,.2f}")
    for name, ratio in grown(samples).items():
        print(f"not flat: {name}, {ratio:.2f}")
    if not options.no_page:
        write(samples, PAGE, options.beside)


if __name__ == "__main__":
    main()
