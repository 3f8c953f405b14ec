"""How costs grow with what is to come later: popped messages that are hidden, pending timers.

Curves as in `growth_curves.py`.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from benchmarks import frames
from benchmarks.growth_curves import BODY, WINDOW, Point, Site
from benchmarks.pop import broker_of, fill
from benchmarks.pop_frames import PopPipe
from rocketq.remoting import Command
from rocketq.remoting.headers.offsets import GetMaxOffset

QUEUES: Final = 8
# Longer than any measurement, and within what a broker takes.
HIDDEN_MS: Final = 36 * 3_600_000
PENDING_S: Final = 24 * 3_600
SPREAD_S: Final = 3_600


async def invisible(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Messages are popped and acknowledged, while so many others are popped and are not."""
    _, broker = await broker_of(site.running)
    count = max(site.scale.messages // 2, 320)
    hidden = 0
    for step in steps:
        if int(step) > hidden:
            await _hide(site, broker, int(step) - hidden)
            hidden = int(step)
        costs, rates = [], []
        for number in range(site.scale.slices):
            topic = f"popped-{int(step)}-{number}"
            await site.create_topics([topic], QUEUES)
            await fill(site.address, topic, count, QUEUES)
            pipe = await PopPipe.connected(site.address, topic, "growth", broker)
            cpu, began = site.cpu_s(), time.perf_counter()
            await pipe.start(count)
            rates.append(pipe.acknowledged / (time.perf_counter() - began))
            costs.append((site.cpu_s() - cpu) / pipe.acknowledged * 1e6)
            pipe.close()
        yield Point(step, statistics.median(costs), statistics.median(rates), await site.at_rest())


async def _hide(site: Site, broker: str, count: int) -> None:
    """Pop so many messages for a long time."""
    topic = f"hidden-{time.time_ns()}"
    await site.create_topics([topic], QUEUES)
    await fill(site.address, topic, count, QUEUES)
    pipe = await PopPipe.connected(
        site.address, topic, "hiding", broker, acks=False, invisible_ms=HIDDEN_MS
    )
    await pipe.start(count)
    assert pipe.popped >= count - 32, (pipe.popped, count)
    pipe.close()


async def pending_timers(site: Site, steps: Sequence[float]) -> AsyncIterator[Point]:
    """Timers are sent, placed and delivered a second later, while so many others wait."""
    pending = 0
    count = max(site.scale.messages // 4, 200)
    for step in steps:
        if int(step) > pending:
            await _leave_pending(site, int(step) - pending)
            pending = int(step)
        costs, rates = [], []
        for number in range(site.scale.slices):
            topic = f"timed-{int(step)}-{number}"
            await site.create_topics([topic], QUEUES)
            requests = [
                frames.send_frame(topic, each % QUEUES, BODY, {"TIMER_DELAY_MS": "1000"})
                for each in range(1_024)
            ]
            cpu, began = site.cpu_s(), time.perf_counter()
            await frames.flood([site.pipe], requests, count, WINDOW)
            rates.append(count / (time.perf_counter() - began))
            await _delivered(site, topic, count)
            costs.append((site.cpu_s() - cpu) / count * 1e6)
        yield Point(step, statistics.median(costs), statistics.median(rates), await site.at_rest())


async def _leave_pending(site: Site, count: int) -> None:
    """Timers for another day, spread over an hour of it."""
    day_ms = int(time.time() + PENDING_S) * 1_000
    requests = [
        frames.send_frame(
            *("pending", each % QUEUES, BODY),
            {"TIMER_DELIVER_MS": str(day_ms + each * 997 % SPREAD_S * 1_000)},
        )
        for each in range(4_096)
    ]
    await site.create_topics(["pending"], QUEUES)
    await frames.flood([site.pipe], requests, count, WINDOW)


async def _delivered(site: Site, topic: str, count: int) -> None:
    """Wait until so many messages are in a topic."""
    while True:
        found = 0
        for queue_id in range(QUEUES):
            asked = GetMaxOffset(topic=topic, queue_id=queue_id)
            answer = await site.pipe.ask(frames.frame(Command.request(asked)))
            found += int(answer.ext_fields["offset"])
        if found >= count:
            return
        await asyncio.sleep(0.1)
