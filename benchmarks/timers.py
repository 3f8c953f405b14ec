"""Timers that are due in the same second: rocketq beside Java 5.5.0, in one run.

    python -m benchmarks.timers [--rounds 3] [--quick] [--count 100000] [--without-java]

Messages are sent with TIMER_DELIVER_MS, all for one moment, over four connections; consumers
wait for them in long polls, one for each queue. The moment is chosen late enough for all of
them to be in the wheel, by how fast some were taken in before. What is counted: messages taken
in per second, the time from the moment to the first and to the last delivery, and the broker's
CPU seconds per million for all of it.

One line of JSON for each, and the medians in the end.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import frames
from benchmarks.frames import Pipe
from benchmarks.pop import BODY, alone_on_loopback, broker_of, create_topic, medians, started
from benchmarks.systems import Running
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.wire.frame import FrameSplitter

QUEUES: Final = 8
CONNECTIONS: Final = 4
WINDOW: Final = 256
# From the last one taken in to the moment when they are due.
HEAD_START_S: Final = 5.0
# How much slower than before it may become.
SLOWNESS: Final = 3.0
_NOTHING: Final = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class Arrivals:
    """Pulls of one queue, one after the other: how many have come, and when."""

    def __init__(self, address: str, topic: str, queue_id: int) -> None:
        self._address, self._topic, self._queue_id = address, topic, queue_id
        self.times: list[tuple[float, int]] = []
        self.count = 0

    async def run(self, wanted: int) -> None:
        host, _, port = self._address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        splitter, offset = FrameSplitter(), 0
        try:
            while self.count < wanted:
                writer.write(
                    frames.pull_frame(
                        self._topic, self._queue_id, offset, most=1_024, hold_ms=15_000
                    )
                )
                answer = await _answer(reader, splitter)
                if answer.code == 0:
                    messages = decode_records(answer.body)
                    self.times.append((time.time(), len(messages)))
                    self.count += len(messages)
                    offset = messages[-1].queue_offset + 1
                elif answer.code not in _NOTHING:
                    raise RuntimeError(f"a pull was answered {answer.code}: {answer.remark}")
        finally:
            writer.close()


async def _answer(reader: asyncio.StreamReader, splitter: FrameSplitter) -> Command:
    while True:
        data = await reader.read(1 << 20)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        for command in splitter.feed(data):
            if command.is_response:
                return command


def _requests(topic: str, due_ms: int) -> list[bytes]:
    properties = {"TIMER_DELIVER_MS": str(due_ms)}
    return [frames.send_frame(topic, number % QUEUES, BODY, properties) for number in range(1_024)]


async def _warmed_up(pipes: list[Pipe], topic: str, count: int) -> float:
    """How many timers a second are taken in, once code and files are there."""
    requests = _requests(topic, int(time.time() + 3_600) * 1_000)
    await frames.flood(pipes, requests, count, WINDOW)
    began = time.perf_counter()
    await frames.flood(pipes, requests, count, WINDOW)
    return count / (time.perf_counter() - began)


async def measure(
    running: Running, count: int, head_start_s: float = HEAD_START_S
) -> dict[str, float]:
    address, _ = await broker_of(running)
    topic = f"timers-{time.time_ns()}"
    for name in (topic, f"{topic}-before"):
        await create_topic(running, address, name, QUEUES)
    pipes = [await Pipe.connected(address) for _ in range(CONNECTIONS)]
    rate = await _warmed_up(pipes, f"{topic}-before", max(count // 10, 100))
    cpu = running.cpu_s()
    # An ordinary tick, when all are in for sure.
    due = int(time.time() + head_start_s + SLOWNESS * count / rate) + 1
    requests = _requests(topic, due * 1_000)
    began = time.perf_counter()
    await frames.flood(pipes, requests, count, WINDOW)
    took = time.perf_counter() - began
    if time.time() > due:
        raise RuntimeError("they were not taken in in time: something else is running here")
    queues = [Arrivals(address, topic, queue_id) for queue_id in range(QUEUES)]
    shares = _shares(count)
    async with asyncio.timeout(600):
        await asyncio.gather(*(each.run(share) for each, share in zip(queues, shares, strict=True)))
    times = [moment - due for each in queues for moment, _ in each.times]
    for pipe in pipes:
        pipe.close()
    return {
        "messages": count,
        "taken_in_per_s": round(count / took),
        "first_ms": round(min(times) * 1_000),
        "last_ms": round(max(times) * 1_000),
        "cpu_s_per_million": round((running.cpu_s() - cpu) / count * 1e6, 1),
    }


def _shares(count: int) -> list[int]:
    """How many messages each queue gets: requests are sent in a cycle of 1,024."""
    shares = [0] * QUEUES
    for number in range(1_024):
        shares[number % QUEUES] += len(range(number, count, 1_024))
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the harness")
    parser.add_argument("--without-java", action="store_true")
    options = parser.parse_args()
    alone_on_loopback("benchmarks.timers")
    count = 5_000 if options.quick else options.count
    names = ["rocketq"] if options.without_java else ["rocketq", "java"]
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="rocketq-timers-") as place:
        for number in range(1 if options.quick else options.rounds):
            for name in names:
                folder = Path(place) / f"{name}-{number}"
                with started(name, folder, ()) as running:
                    figures = asyncio.run(measure(running, count))
                shutil.rmtree(folder, ignore_errors=True)
                lines.append({"system": running.label, "load": "same second", **figures})
                print(json.dumps(lines[-1]), flush=True)
    for line in medians(lines, ("taken_in_per_s", "first_ms", "last_ms", "cpu_s_per_million")):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
