"""Where listeners run: tasks and threads, bounded, woken when needed, gone when idle."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from rocketq.client.consumer.process_queue import FlowLimits, Piece, ProcessQueue
from rocketq.client.consumer.push import runner as listener_runner
from rocketq.client.consumer.push.listener import ConsumeLater, ConsumeStatus, Delivery, Listener
from rocketq.client.consumer.push.runner import ListenerRunner, runner_for
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.writer import new_record
from tests.waiting import eventually


class Pieces:
    """Work for a runner: pieces of one message each."""

    def __init__(self, count: int = 0) -> None:
        limits = FlowLimits(count=100_000, size=1 << 30)
        self.process_queue = ProcessQueue(MessageQueue("orders", "broker-a", 0), limits, 0)
        self.waiting: deque[Piece] = deque()
        self.done: list[Piece] = []
        self.add(count)

    def add(self, count: int) -> None:
        for _ in range(count):
            message = MessageExt(new_record(b"orders", b"x"))
            self.waiting.append(Piece(self.process_queue, [message]))

    @property
    def has_work(self) -> bool:
        return bool(self.waiting)

    def next_piece(self) -> Piece | None:
        return self.waiting.popleft() if self.waiting else None

    def finished(self, piece: Piece) -> None:
        self.done.append(piece)


def runner(
    function: Callable[..., Any], work: Pieces, concurrency: int = 3, batch_size: int | None = None
) -> ListenerRunner:
    return runner_for(
        Listener.of(function, batch_size), work, concurrency, clock=SYSTEM_CLOCK, name="test"
    )


async def async_success(message: MessageExt) -> None:
    await asyncio.sleep(0)


def plain_success(message: MessageExt) -> None:
    pass


@pytest.mark.parametrize("function", [async_success, plain_success])
async def test_everything_is_consumed_once(function: Callable[..., Any]) -> None:
    work = Pieces(500)
    running = runner(function, work)
    running.wake()
    await eventually(lambda: len(work.done) == 500)
    assert {piece.status for piece in work.done} == {ConsumeStatus.SUCCESS}
    assert len({id(piece) for piece in work.done}) == 500
    assert await running.close(1.0)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_work_that_comes_later_is_noticed(kind: str) -> None:
    work = Pieces()
    running = runner(async_success if kind == "async" else plain_success, work)
    running.wake()
    for round_number in range(1, 20):
        work.add(1)
        running.wake()
        await eventually(lambda wanted=round_number: len(work.done) == wanted)  # type: ignore[misc]
    assert await running.close(1.0)


async def test_an_async_listener_that_never_waits_does_not_starve_the_loop() -> None:
    work = Pieces(3000)
    turns = 0

    async def busy(message: MessageExt) -> None:
        end = asyncio.get_running_loop().time() + 0.0001
        while asyncio.get_running_loop().time() < end:
            pass

    running = runner(busy, work)
    running.wake()
    while len(work.done) < 3000:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
    assert await running.close(1.0)


async def test_failures_are_told_with_their_cause_and_delay() -> None:
    def fails(message: MessageExt) -> None:
        raise ConsumeLater("not now", delay_level=4)

    work = Pieces(1)
    running = runner(fails, work)
    running.wake()
    await eventually(lambda: bool(work.done))
    (piece,) = work.done
    assert piece.status is ConsumeStatus.LATER
    assert isinstance(piece.error, ConsumeLater)
    assert piece.delivery is not None
    assert piece.delivery.delay_level == 4
    assert await running.close(1.0)


async def test_something_cancelled_inside_the_listener_is_a_failure_not_the_end() -> None:
    async def cancelled_inside(message: MessageExt) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    work = Pieces(2)
    running = runner(cancelled_inside, work, concurrency=1)
    running.wake()
    await eventually(lambda: len(work.done) == 2)
    assert all(piece.status is ConsumeStatus.LATER for piece in work.done)
    assert await running.close(1.0)


async def test_a_plain_function_may_hand_out_a_coroutine() -> None:
    ran_in: list[str] = []

    async def work_on_the_loop() -> bool:
        ran_in.append(threading.current_thread().name)
        return True

    work = Pieces(1)
    running = runner(lambda message: work_on_the_loop(), work)
    running.wake()
    await eventually(lambda: bool(work.done))
    assert work.done[0].status is ConsumeStatus.SUCCESS
    assert ran_in == [threading.current_thread().name]
    assert await running.close(1.0)


async def test_messages_of_a_retired_queue_are_left_alone() -> None:
    called: list[MessageExt] = []
    work = Pieces(3)
    work.process_queue.retire()
    running = runner(called.append, work)
    running.wake()
    await eventually(lambda: len(work.done) == 3)
    assert called == []
    assert all(piece.status is None for piece in work.done)
    assert await running.close(1.0)


async def test_closing_leaves_what_was_not_begun() -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(message: MessageExt) -> None:
        began.set()
        assert go_on.wait(20)

    work = Pieces(10)
    running = runner(slow, work, concurrency=1)
    running.wake()
    await eventually(began.is_set)
    closing = asyncio.create_task(running.close(20.0))
    await asyncio.sleep(0)
    go_on.set()
    assert await closing
    assert len(work.done) == 1


async def test_closing_gives_up_on_a_thread_that_is_stuck() -> None:
    began, go_on = threading.Event(), threading.Event()

    def stuck(message: MessageExt) -> None:
        began.set()
        assert go_on.wait(20)

    work = Pieces(1)
    running = runner(stuck, work)
    running.wake()
    await eventually(began.is_set)
    assert not await running.close(0.01)
    go_on.set()


async def test_idle_threads_go_away_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_runner, "_IDLE_THREAD_S", 0.01)
    work = Pieces(5)
    running = runner(plain_success, work)
    assert isinstance(running, listener_runner.ThreadRunner)
    running.wake()
    await eventually(lambda: len(work.done) == 5)
    await eventually(lambda: running.thread_count == 0)
    work.add(5)
    running.wake()
    await eventually(lambda: len(work.done) == 10)
    assert await running.close(1.0)


async def test_a_piece_can_be_consumed_out_of_turn() -> None:
    for function in (async_success, plain_success):
        work = Pieces(1)
        piece = work.waiting.popleft()
        running = runner(function, work)
        await running.call(piece)
        assert piece.status is ConsumeStatus.SUCCESS
        assert work.done == []
        assert await running.close(1.0)


async def test_the_delivery_can_be_set_by_the_listener() -> None:
    def on_message(message: MessageExt, delivery: Delivery) -> bool:
        delivery.delay_level = 2
        return False

    work = Pieces(1)
    running = runner(on_message, work)
    running.wake()
    await eventually(lambda: bool(work.done))
    (piece,) = work.done
    assert piece.delivery is not None
    assert piece.delivery.delay_level == 2
    assert await running.close(1.0)
