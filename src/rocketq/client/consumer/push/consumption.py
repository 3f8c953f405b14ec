"""What concurrent and orderly consumption have in common: hooks, statistics, the runner.

Pulled messages arrive in a process queue, which then waits in line (`_ready`) for its turn. The
runner asks for pieces; queues take turns, so one with a long backlog does not keep the others
waiting.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rocketq.client.callbacks import tell
from rocketq.client.consumer.process_queue import Piece, ProcessQueue
from rocketq.client.consumer.push.listener import ConsumeStatus, Listener
from rocketq.client.consumer.push.runner import ListenerRunner, runner_for
from rocketq.client.consumer.statistics import ConsumerStatistics
from rocketq.client.hooks import ConsumeContext, ConsumeHook
from rocketq.common.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumptionSettings:
    """How one consumer's listener is called."""

    group: str
    namespace: str
    batch_size: int
    concurrency: int
    is_broadcasting: bool
    max_reconsume_times: int
    """-1: 16 for concurrent consumers, unlimited for orderly ones."""
    consume_timeout_s: float
    suspend_ms: int
    retry_locally_after_s: float = 5.0


class Consumption:
    """The base of both kinds. Belongs to the consumer's loop."""

    TASKS_S: ClassVar = math.inf
    """How long the end waits for what was started beside the listeners, at the most."""

    def __init__(
        self,
        settings: ConsumptionSettings,
        listener: Listener,
        *,
        hooks: Sequence[ConsumeHook],
        statistics: ConsumerStatistics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._hooks = list(hooks)
        self._statistics = statistics
        self._clock = clock
        self._ready: deque[ProcessQueue] = deque()
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.runner: ListenerRunner = runner_for(
            listener,
            self,
            settings.concurrency,
            clock=clock,
            name=f"rocketq-{settings.group}",
        )

    @property
    def has_work(self) -> bool:
        return bool(self._ready)

    def arrived(self, process_queue: ProcessQueue) -> None:
        """Messages were put into the queue."""
        # A queue that still has waiting messages is in line already.
        if not process_queue.is_consuming:
            process_queue.is_consuming = True
            self._ready.append(process_queue)
        self.runner.wake()

    def next_piece(self) -> Piece | None:
        raise AssertionError("each kind of consumption has its own")

    def finished(self, piece: Piece) -> None:
        raise AssertionError("each kind of consumption has its own")

    # What goes on beside the listeners

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something after a while, and see whether there is work then."""

        def do() -> None:
            self._timers.discard(timer)
            action()
            self.runner.wake()

        timer = asyncio.get_running_loop().call_later(delay_s, do)
        self._timers.add(timer)

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"rocketq-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.runner.wake()

    async def close(self, timeout_s: float) -> bool:
        """Wait for listeners, and what follows from their answers; whether all ended in time."""
        self._closing = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        ended = await self.runner.close(timeout_s)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._tasks:
            left_s = max(deadline - loop.time(), 0.1)
            _, running = await asyncio.wait(self._tasks, timeout=min(left_s, self.TASKS_S))
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
                ended = False
        return ended

    def _hand_out(self, piece: Piece) -> Piece:
        piece.process_queue.at_listener += 1
        if self._hooks:
            self._run_before(piece)
        return piece

    def _came_back(self, piece: Piece, failed_count: int) -> None:
        """Note the outcome; whether it counts for the offset is the caller's decision."""
        now_ms = self._clock.now_ms()
        process_queue = piece.process_queue
        process_queue.last_consume_ms = now_ms
        if piece.status is not None:
            elapsed_ms = int((self._clock.monotonic() - piece.started_at) * 1000)
            topic = process_queue.queue.topic
            count = max(piece.position, 1)
            self._statistics.consumed(topic, count, failed_count, elapsed_ms, now_ms)
            if piece.context is not None:
                self._run_after(piece, elapsed_ms)
        process_queue.came_back()

    def _run_before(self, piece: Piece) -> None:
        piece.context = ConsumeContext(
            self._settings.group,
            piece.queue,
            piece.messages,
            namespace=self._settings.namespace,
        )
        for hook in self._hooks:
            tell("a consume hook failed before the listener", hook.before, piece.context)

    def _run_after(self, piece: Piece, elapsed_ms: int) -> None:
        context = piece.context
        assert context is not None
        context.success = piece.status in (ConsumeStatus.SUCCESS, ConsumeStatus.COMMIT)
        if piece.error is not None:
            context.status = "EXCEPTION"
        elif elapsed_ms >= self._settings.consume_timeout_s * 1000:
            context.status = "TIME_OUT"
        else:
            context.status = "SUCCESS" if context.success else "FAILED"
        context.properties["ConsumeContextType"] = context.status
        for hook in self._hooks:
            tell("a consume hook failed after the listener", hook.after, context)
