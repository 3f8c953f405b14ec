"""Concurrent consumption by itself: runs, failures, expiry, what may be committed when."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketq.client.consumer.offset_store import LocalOffsetStore
from rocketq.client.consumer.process_queue import FlowLimits, ProcessQueue
from rocketq.client.consumer.push.concurrent import ConcurrentConsumption
from rocketq.client.consumer.push.consumption import ConsumptionSettings
from rocketq.client.consumer.push.listener import ConsumeLater, Listener
from rocketq.client.consumer.push.send_back import SendBack
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.errors import ClientError
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.writer import new_record
from tests.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 0)


class GivenBack(SendBack):
    """A broker that takes messages back, or refuses to as often as it is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int]] = []
        self.refuses = 0

    async def give_back(
        self, message: MessageExt, delay_level: int, broker_name: str | None = None
    ) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            self.refuses -= 1
            raise ClientError("the broker is away")
        self.messages.append((message.queue_offset, delay_level))


class Consuming:
    """A consumption and one process queue, numbered messages from 0 on."""

    def __init__(
        self,
        listener: Callable[..., Any],
        *,
        concurrency: int = 2,
        is_broadcasting: bool = False,
        consume_timeout_s: float = 900.0,
    ) -> None:
        self.given_back = GivenBack()
        self.offsets = LocalOffsetStore(Path("never-written"))
        self.process_queue = ProcessQueue(QUEUE, FlowLimits(count=10_000, size=1 << 30), 0)
        self.consumption = ConcurrentConsumption(
            ConsumptionSettings(
                group="group",
                namespace="",
                batch_size=1,
                concurrency=concurrency,
                is_broadcasting=is_broadcasting,
                max_reconsume_times=-1,
                consume_timeout_s=consume_timeout_s,
                suspend_ms=1000,
                retry_locally_after_s=0.01,
            ),
            Listener.of(listener),
            offsets=self.offsets,
            send_back=self.given_back,
            hooks=(),
            statistics=ConsumerStatistics(SYSTEM_CLOCK),
            clock=SYSTEM_CLOCK,
        )

    def put(self, count: int) -> None:
        first = self.process_queue.max_offset + 1
        self.process_queue.put(
            [
                MessageExt(new_record(b"orders", b"x", queue_offset=offset))
                for offset in range(first, first + count)
            ]
        )
        self.consumption.arrived(self.process_queue)

    @property
    def committed(self) -> int | None:
        return self.offsets.get(QUEUE)


async def test_everything_is_consumed_in_runs_and_committed() -> None:
    consumed: list[int] = []

    async def on_message(message: MessageExt) -> None:
        consumed.append(message.queue_offset)

    consuming = Consuming(on_message)
    consuming.put(1000)
    await eventually(lambda: consuming.committed == 1000)
    assert sorted(consumed) == list(range(1000))
    assert await consuming.consumption.close(1.0)


async def test_all_calls_are_used_however_long_the_runs() -> None:
    """Runs must not leave some of the allowed calls idle while others have a pile."""
    go_on = asyncio.Event()
    running = 0

    async def on_message(message: MessageExt) -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    consuming = Consuming(on_message, concurrency=20)
    consuming.put(500)
    await eventually(lambda: running == 20)
    go_on.set()
    await eventually(lambda: consuming.committed == 500)
    assert await consuming.consumption.close(1.0)


async def test_a_failure_in_a_run_is_sent_back_alone() -> None:
    async def on_message(message: MessageExt) -> None:
        if message.queue_offset % 100 == 7:
            raise ConsumeLater(delay_level=message.queue_offset % 5)

    consuming = Consuming(on_message)
    consuming.put(300)
    await eventually(lambda: consuming.committed == 300)
    assert sorted(consuming.given_back.messages) == [(7, 2), (107, 2), (207, 2)]
    assert await consuming.consumption.close(1.0)


async def test_what_cannot_be_sent_back_is_consumed_again_here() -> None:
    attempts: list[int] = []

    async def on_message(message: MessageExt) -> None:
        attempts.append(message.reconsume_times)
        if len(attempts) < 3:
            raise ConsumeLater

    consuming = Consuming(on_message)
    consuming.given_back.refuses = 2
    consuming.put(1)
    await eventually(lambda: consuming.committed == 1)
    assert attempts == [0, 1, 2]
    assert consuming.given_back.messages == []
    assert await consuming.consumption.close(1.0)


async def test_broadcasting_gives_failures_up() -> None:
    async def on_message(message: MessageExt) -> None:
        raise ConsumeLater

    consuming = Consuming(on_message, is_broadcasting=True)
    consuming.put(3)
    await eventually(lambda: consuming.committed == 3)
    assert consuming.given_back.messages == []
    assert await consuming.consumption.close(1.0)


async def test_a_stuck_message_is_taken_away_and_those_behind_it_go_on() -> None:
    stuck = asyncio.Event()
    consumed: list[int] = []

    async def on_message(message: MessageExt) -> None:
        if message.queue_offset == 3:
            await stuck.wait()
        consumed.append(message.queue_offset)

    consuming = Consuming(on_message, concurrency=1, consume_timeout_s=0.05)
    consuming.consumption.runner.concurrency = 1
    consuming.put(40)
    await eventually(lambda: consumed == [0, 1, 2])
    consuming.consumption.runner.concurrency = 2

    async def expire() -> None:
        while not consuming.given_back.messages:
            await consuming.consumption.send_back_expired([consuming.process_queue])
            await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        await expire()
    await eventually(lambda: consuming.committed == 40)
    assert consuming.given_back.messages == [(3, 3)]

    stuck.set()  # its late answer changes nothing
    assert await consuming.consumption.close(1.0)
    assert sorted(consumed) == list(range(40))
    assert consuming.committed == 40


async def test_a_retired_queue_commits_what_was_done_of_a_run() -> None:
    go_on, began = asyncio.Event(), asyncio.Event()

    async def on_message(message: MessageExt) -> None:
        if message.queue_offset == 5:
            began.set()
            await go_on.wait()

    consuming = Consuming(on_message, concurrency=1)
    consuming.put(40)
    await began.wait()
    consuming.process_queue.retire()
    go_on.set()
    assert await consuming.consumption.close(5.0)
    assert consuming.committed == 6


async def test_results_of_a_dropped_queue_do_not_count() -> None:
    go_on, began = asyncio.Event(), asyncio.Event()

    async def on_message(message: MessageExt) -> None:
        began.set()
        await go_on.wait()

    consuming = Consuming(on_message)
    consuming.put(1)
    await began.wait()
    consuming.process_queue.drop()
    go_on.set()
    assert await consuming.process_queue.quiet(5.0)
    assert consuming.committed is None
    assert await consuming.consumption.close(1.0)


async def test_what_a_cancelled_task_left_is_consumed_again() -> None:
    consumed: list[int] = []

    async def on_message(message: MessageExt) -> None:
        consumed.append(message.queue_offset)
        if consumed == [0, 1]:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)

    consuming = Consuming(on_message, concurrency=1)
    consuming.put(50)
    await eventually(lambda: consuming.committed == 50)
    assert consumed[:2] == [0, 1]
    assert sorted(consumed) == sorted([1, *range(50)])
    assert consuming.given_back.messages == []
