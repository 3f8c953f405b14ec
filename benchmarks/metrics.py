"""What counting and telling costs a broker at full load.

    python -m benchmarks.metrics [--pairs N] [--turns N]

Two brokers run side by side, one with metrics and one without, and take turns of a tenth of a
second under the same load: as many sends as one connection brings, and pulls of 32 messages. Each
is charged with its own CPU time, and each turn is compared with the one beside it. Two processes
are never quite alike, so all of it is done again with other ones.

What a scrape costs is measured apart, and added as Prometheus would ask: every five seconds.
"""

import argparse
import asyncio
import statistics
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field

from peers.servers import free_port

from benchmarks.frames import Pipe, flood, frame, pull_frame
from benchmarks.growth_curves import send_frames
from benchmarks.metadata import cpu_s, server
from benchmarks.report import commit
from benchmarks.systems import Running
from rocketq.remoting import Command
from rocketq.remoting.bodies.registration import TopicConfig, TopicConfigList
from rocketq.remoting.headers import CreateTopicList

TOPICS = 100
QUEUES = 4
WINDOW = 256
SENDS_A_TURN = 20_000
PULLS_A_TURN = 1_000
PULLED = 32
SCRAPES = 6
SCRAPED_EVERY_S = 5.0
LOCAL = "metricsPromExporterHost=127.0.0.1"


@dataclass(slots=True)
class Subject:
    """A broker, the connection that loads it, and what its turns have cost."""

    running: Running
    pipe: Pipe
    sends_us: list[float] = field(default_factory=list)
    pulls_us: list[float] = field(default_factory=list)

    @classmethod
    async def prepared(cls, running: Running) -> "Subject":
        """With a hundred topics, each written to and read by a group."""
        pipe = await Pipe.connected(running.namesrv)
        configs = [
            TopicConfig(topic_name=f"t{n}", read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for n in range(TOPICS)
        ]
        body = TopicConfigList(topic_config_list=configs).encode()
        await pipe.ask(frame(Command.request(CreateTopicList(), body)))
        for n in range(TOPICS):
            await flood([pipe], send_frames(f"t{n}", QUEUES, at_least=QUEUES), QUEUES, QUEUES)
            await pipe.ask(pull_frame(f"t{n}", 0, 0, group=f"g{n}", commits=True))
        subject = cls(running, pipe)
        for _ in range(5):
            await subject.turn()
        subject.sends_us.clear()
        subject.pulls_us.clear()
        return subject

    async def turn(self) -> None:
        self.sends_us.append(await self._cost(SENDS, SENDS_A_TURN) / SENDS_A_TURN)
        self.pulls_us.append(await self._cost(PULLS, PULLS_A_TURN) / PULLS_A_TURN)

    async def _cost(self, requests: list[bytes], count: int) -> float:
        before = cpu_s(self.running)
        await flood([self.pipe], requests, count, WINDOW)
        return (cpu_s(self.running) - before) * 1e6


SENDS = send_frames("t0", QUEUES)
PULLS = [pull_frame("t0", number % QUEUES, 0, most=PULLED) for number in range(QUEUES)]


def scrape(running: Running, url: str) -> tuple[float, int]:
    """The CPU seconds of an answer, and its bytes."""
    time.sleep(1.1)  # the same answer is given for a second
    before = cpu_s(running)
    with urllib.request.urlopen(url, timeout=30) as answer:
        size = len(answer.read())
    return cpu_s(running) - before, size


def percent_more(more: list[float], less: list[float]) -> list[float]:
    return [100 * (a - b) / b for a, b in zip(more, less, strict=True)]


def said(name: str, parts: list[float], cost_us: float, of: str) -> str:
    middle = statistics.median(parts)
    error = 1.25 * statistics.stdev(parts) / len(parts) ** 0.5
    return f"{name}: {cost_us:.2f} us for {of} without metrics, {middle:+.2f} % with (±{error:.2f})"


async def measure(pairs: int, turns: int) -> None:
    sends: list[float] = []
    pulls: list[float] = []
    scrapes: list[float] = []
    costs: list[tuple[float, float]] = []
    size = 0
    for number in range(pairs):
        with ExitStack() as stack:
            port = free_port()
            words = [("--metrics-port", str(port), "--set", LOCAL), ()]
            # Which of the two begins changes.
            order = (0, 1) if number % 2 else (1, 0)
            running = {at: stack.enter_context(server("broker", *words[at])) for at in order}
            on, off = [await Subject.prepared(running[at]) for at in (0, 1)]
            for turn in range(turns):
                for each in (on, off) if turn % 2 else (off, on):
                    await each.turn()
            sends += percent_more(on.sends_us, off.sends_us)
            pulls += percent_more(on.pulls_us, off.pulls_us)
            costs.append((statistics.median(off.sends_us), statistics.median(off.pulls_us)))
            for _ in range(SCRAPES):
                url = f"http://127.0.0.1:{port}/metrics"
                took, size = await asyncio.to_thread(scrape, on.running, url)
                scrapes.append(took)
            on.pipe.close()
            off.pipe.close()
    of_send, of_pull = (statistics.median(each) for each in zip(*costs, strict=True))
    took_s = statistics.median(scrapes)
    print(f"{commit()}, {pairs} pairs of brokers, {turns} turns each")
    print(said("sends", sends, of_send, "a message"))
    print(said("pulls", pulls, of_pull, f"a pull of {PULLED}"))
    share = 100 * took_s / SCRAPED_EVERY_S
    print(f"a scrape: {took_s * 1000:.1f} ms for {size:,} bytes ({TOPICS} topics, as many groups), "
          f"{share:.2f} % of a core every {SCRAPED_EVERY_S:.0f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--turns", type=int, default=100)
    options = parser.parse_args()
    asyncio.run(measure(options.pairs, options.turns))


if __name__ == "__main__":
    main()
