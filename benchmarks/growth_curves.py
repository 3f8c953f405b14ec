"""How the cost of a message grows with what surrounds it: one generator for each question.

Each is handed a `Site`, a broker in a process of its own with a connection to it, and the
steps to take; it builds up what grows and yields what a message costs at each step.
"""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import frames, systems
from benchmarks.frames import Pipe
from benchmarks.systems import Running
from rocketq.admin import connected
from rocketq.admin.cluster import brokers
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigList
from rocketq.remoting.headers import CreateTopicList

BODY = os.urandom(128)
WINDOW = 256
MB = 1_000_000
LARGEST_BODY = 4 * 1024 * 1024 - 1024
# As long as a consumer may be kept waiting: longer than any measurement.
HOLD_MS = 900_000
DELAY_2H = {"DELAY": "18"}
TOPICS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured at each step."""

    messages: int
    slices: int
    idle_s: float
    volume_mb: int


FULL = Scale(messages=80_000, slices=5, idle_s=4.0, volume_mb=400)
QUICK = Scale(messages=10_000, slices=3, idle_s=1.0, volume_mb=64)


@dataclass(frozen=True, slots=True)
class Point:
    """What a message costs at one step."""

    x: float
    cpu_s_per_million: float
    messages_per_s: float
    more: dict[str, float] = field(default_factory=dict)


class Site:
    """The broker under measurement and the connection that drives it."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self.scale = scale
        self.folder = folder
        self.running: Running
        self.pipe: Pipe
        self.address = ""
        self._stack = ExitStack()

    async def __aenter__(self) -> "Site":
        await self._start(fresh=True)
        # The first step must not be the one that pays for the start.
        await frames.flood([self.pipe], send_frames("warm-up"), self.scale.messages, WINDOW)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()

    async def _start(self, *, fresh: bool) -> None:
        self.running = self._stack.enter_context(systems.rocketq(self.folder, fresh=fresh))
        async with connected(self.running.namesrv) as api:
            (cluster,) = await brokers.clusters(api)
            (self.address,) = await brokers.masters(api, cluster)
        self.pipe = await Pipe.connected(self.address)

    def _stop(self) -> None:
        self.pipe.close()
        self._stack.close()

    async def restart_cold(self) -> None:
        """Stop the broker, take its files out of the page cache, start it again.

        Pages that a process has mapped cannot be taken out, so it has to be stopped.
        """
        self._stop()
        evict(self.folder)
        await self._start(fresh=False)

    # What there is to measure

    def cpu_s(self) -> float:
        """CPU seconds of the broker's processes, to the microsecond."""
        return sum(process_cpu_s(pid) for pid in self.running.pids)

    async def create_topics(self, names: Sequence[str], queues: int) -> None:
        configs = [
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            for name in names
        ]
        async with connected(self.running.namesrv) as api:
            for start in range(0, len(configs), TOPICS_AT_ONCE):
                body = TopicConfigList(topic_config_list=configs[start : start + TOPICS_AT_ONCE])
                await api.invoke(self.address, CreateTopicList(), body.encode(), timeout_s=60.0)

    async def cost(
        self,
        requests: Sequence[bytes],
        *,
        pipes: Sequence[Pipe] | None = None,
        messages: int | None = None,
        window: int = WINDOW,
    ) -> tuple[float, float]:
        """Of sends, the CPU seconds per million and how many a second; medians of slices."""
        pipes = pipes or [self.pipe]
        count = messages or self.scale.messages
        # First what happens once only: files are made, buffers grow, code is warm.
        await frames.flood(pipes, requests, max(count // 4, len(requests)), window)
        costs, rates = [], []
        for _ in range(self.scale.slices):
            cpu, began = self.cpu_s(), time.perf_counter()
            await frames.flood(pipes, requests, count, window)
            rates.append(count / (time.perf_counter() - began))
            costs.append((self.cpu_s() - cpu) / count * 1e6)
        return statistics.median(costs), statistics.median(rates)

    async def idle_percent(self) -> float:
        """Share of a core that the broker uses when nobody asks for anything."""
        await asyncio.sleep(0.2)  # what was begun comes to its end
        cpu, began = self.cpu_s(), time.perf_counter()
        await asyncio.sleep(self.scale.idle_s)
        return 100 * (self.cpu_s() - cpu) / (time.perf_counter() - began)

    async def at_rest(self) -> dict[str, float]:
        return {
            "idle CPU %": round(await self.idle_percent(), 2),
            "anonymous memory MB": self.running.memory_mb()["anon"],
        }


def process_cpu_s(pid: int) -> float:
    """The CPU time of another process, by Linux's clock for it."""
    return time.clock_gettime((~pid << 3) | 2)


def evict(folder: Path) -> None:
    """Take files out of the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def send_frames(
    topic: str, queues: int = 4, body: bytes = BODY, at_least: int = 1_000
) -> list[bytes]:
    """Requests to all queues of a topic in turn, each with an id of its own."""
    count = max(-(-at_least // queues), 1) * queues
    return [frames.send_frame(topic, number % queues, body) for number in range(count)]


# The curves

Curve = Callable[[Site, Sequence[float]], AsyncIterator[Point]]


async def topics(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends to all topics in turn, one queue each."""
    requests: list[bytes] = []
    for step in steps:
        names = [f"topic{number}" for number in range(len(requests), int(step))]
        await site.create_topics(names, 1)
        requests += [frames.send_frame(name, 0, BODY) for name in names]
        yield Point(step, *await site.cost(requests))


async def queues(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends to all queues of one topic in turn."""
    for step in steps:
        name = f"queues{int(step)}"
        await site.create_topics([name], int(step))
        yield Point(step, *await site.cost(send_frames(name, int(step))))


async def idle_connections(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends over one connection, with others that are open and silent."""
    requests = send_frames("idle")
    silent: list[Pipe] = []
    for step in steps:
        silent += await frames.connect_many(site.address, int(step) - len(silent))
        cost = await site.cost(requests)
        yield Point(step, *cost, await site.at_rest())
    _close(silent)


async def active_connections(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends over all connections, with eight on their way on each; and with one."""
    requests = send_frames("active")
    pipes: list[Pipe] = []
    for step in steps:
        pipes += await frames.connect_many(site.address, int(step) - len(pipes))
        cost = await site.cost(requests, pipes=pipes, window=8 * len(pipes))
        one_each, _ = await site.cost(requests, pipes=pipes, window=len(pipes))
        yield Point(step, *cost, {"CPU s per million, one on its way": round(one_each, 2)})
    _close(pipes)


async def groups(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Every group reads the same messages and commits how far it is; cost of one delivery."""
    count = site.scale.messages
    await site.create_topics(["shared"], 1)
    await frames.flood([site.pipe], send_frames("shared", 1), count, WINDOW)

    async def read_by(names: Sequence[str]) -> int:
        share = max(count // len(names), 64)
        return sum(
            [(await read_queue(site.pipe, "shared", share, group=name))[0] for name in names]
        )

    for step in steps:
        names = [f"group{number}" for number in range(int(step))]
        for name in names:
            await site.pipe.ask(frames.heartbeat_frame(f"client-of-{name}", name, "shared"))
        await read_by(names)
        costs, rates = [], []
        for _ in range(site.scale.slices):
            cpu, began = site.cpu_s(), time.perf_counter()
            read = await read_by(names)
            rates.append(read / (time.perf_counter() - began))
            costs.append((site.cpu_s() - cpu) / read * 1e6)
        yield Point(step, statistics.median(costs), statistics.median(rates))


async def backlog(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Reads from the far end of a log of so many GB, none of it in memory."""
    body, at_once = os.urandom(4_000), 64
    filled = 0
    room = shutil.disk_usage(site.folder).free // 2
    for step in steps:
        if step * 1e9 > room:
            return
        wanted = int(step * 1e9 / (len(body) + 200) / at_once) - filled
        batches = [frames.batch_frame("backlog", 0, [body] * at_once)]
        await frames.flood([site.pipe], batches, wanted, 8)
        filled += wanted
        await site.restart_cold()
        start_s = site.running.first_ack_s
        count = min(site.scale.volume_mb * MB // len(body), filled * at_once)
        cpu, began = site.cpu_s(), time.perf_counter()
        read, size = await read_queue(site.pipe, "backlog", count, group="cold")
        elapsed, cpu = time.perf_counter() - began, site.cpu_s() - cpu
        sends = await site.cost(send_frames("afterwards"))
        more = {
            "cold read MB/s": round(size / elapsed / MB, 1),
            "send CPU s per million": round(sends[0], 2),
            "restart to first ack s": round(start_s, 2),
        }
        yield Point(step, cpu / read * 1e6, read / elapsed, more)


async def sizes(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends of ever larger messages."""
    for step in steps:
        size = min(int(step), LARGEST_BODY)
        count = max(min(site.scale.messages, site.scale.volume_mb * MB // 2 // size), 8)
        window = max(min(WINDOW, 16 * MB // size), 2)
        distinct = max(min(1_000, 8 * MB // size), 4)
        requests = send_frames("sizes", 4, os.urandom(size), at_least=distinct)
        cost, rate = await site.cost(requests, messages=count, window=window)
        more = {
            "CPU s per GB": round(cost / 1e6 / size * 1e9, 3),
            "MB/s": round(rate * size / MB, 1),
        }
        yield Point(size, cost, rate, more)


async def delayed(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends of ordinary messages, while others wait for their time two hours from now."""
    waiting = [frames.send_frame("later", n % 4, BODY, DELAY_2H) for n in range(1_000)]
    requests = send_frames("now")
    sent = 0
    for step in steps:
        if int(step) > sent:
            await frames.flood([site.pipe], waiting, int(step) - sent, WINDOW)
            sent = int(step)
        cost = await site.cost(requests)
        yield Point(step, *cost, await site.at_rest())


async def held_pulls(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Sends to one topic, while consumers wait for messages of another."""
    await site.create_topics(["quiet"], 16)
    requests = send_frames("busy")
    waiting: list[Pipe] = []
    for step in steps:
        more = await frames.connect_many(site.address, int(step) - len(waiting))
        for number, pipe in enumerate(more):
            name = f"waiting{(len(waiting) + number) % 100}"
            pipe.leave(frames.pull_frame("quiet", number % 16, 0, group=name, hold_ms=HOLD_MS))
        waiting += more
        cost = await site.cost(requests)
        yield Point(step, *cost, await site.at_rest())
    answered = sum(pipe.answers for pipe in waiting)
    assert not answered, f"{answered} pulls were answered instead of held"
    _close(waiting)


async def read_queue(pipe: Pipe, topic: str, count: int, *, group: str) -> tuple[int, int]:
    """Read the first messages of a queue, 32 at a time as Java's clients do: how many, bytes."""
    offset = size = 0
    while offset < count:
        answer = await pipe.ask(frames.pull_frame(topic, 0, offset, group=group, commits=True))
        size += len(answer.body)
        offset = int(answer.ext_fields["nextBeginOffset"])
    return offset, size


def _close(pipes: Iterable[Pipe]) -> None:
    for pipe in pipes:
        pipe.close()
