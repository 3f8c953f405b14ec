"""The pull schedule: a function of yours is called for each queue, again and again.

    schedule = PullSchedule(PullConsumer("audit", namesrv="127.0.0.1:9876"))

    @schedule.callback("orders")
    async def pull(queue: MessageQueue, turn: PullTurn) -> None:
        offset = await turn.consumer.consume_offset(queue) or 0
        result = await turn.consumer.pull(queue, offset)
        ...
        turn.consumer.update_consume_offset(queue, result.next_offset)
        turn.next_delay_ms = 10

    async with schedule:
        ...

Queues are shared among the group; a queue's calls follow each other, those of different queues
run side by side, up to `concurrency`. A plain function runs in a thread.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rocketq.client.callbacks import check_takes, comes_from_outside
from rocketq.client.consumer.pull.consumer import PullConsumer
from rocketq.client.errors import InvalidState, MissingListener
from rocketq.common.loop.service import AsyncLife
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

PullCallback = Callable[[MessageQueue, "PullTurn"], Any]
"""Called with a queue and its turn; sync or async."""
F = TypeVar("F", bound=PullCallback)

_ERROR_DELAY_S: Final = 1.0


@dataclass(slots=True)
class PullTurn:
    """One call for one queue."""

    consumer: Any
    """The pull consumer to use."""
    next_delay_ms: int
    """When the queue is to have its next turn."""


class PullSchedule(AsyncLife):
    """Gives queues their turns. Belongs to the event loop that starts it."""

    def __init__(
        self,
        consumer: PullConsumer,
        *,
        concurrency: int = 20,
        delay_ms: int = 200,
        handed_out: object | None = None,
    ) -> None:
        """Make a schedule around a pull consumer that is not started.

        concurrency: how many calls may be under way at once.
        delay_ms: the pause before a queue's next turn, unless the function says otherwise.
        handed_out: what functions find in `turn.consumer`, if not the consumer itself.
        """
        self._consumer = consumer
        self._handed_out = handed_out if handed_out is not None else consumer
        self._concurrency = concurrency
        self._delay_ms = delay_ms
        self._callbacks: dict[str, PullCallback] = {}
        self._turns: dict[MessageQueue, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(concurrency)
        self._threads: ThreadPoolExecutor | None = None
        self._is_started = False

    def callback(self, topic: str) -> Callable[[F], F]:
        """Decorate the function that pulls a topic's queues."""

        def register(function: F) -> F:
            self.register(topic, function)
            return function

        return register

    def register(self, topic: str, function: PullCallback) -> None:
        """Have a function called for a topic's queues; before the start."""
        if self._is_started:
            raise InvalidState("callbacks are registered before the schedule is started")
        check_takes(function, "queue", "turn", what="a pull callback")
        self._callbacks[topic] = function
        self._consumer.register_topic(topic)

    async def start(self) -> None:
        """Join the group; queues get their turns as soon as they are shared out."""
        if not self._callbacks:
            raise MissingListener(
                "this schedule has nothing to call: decorate a function with "
                "@schedule.callback('topic')"
            )
        self._is_started = True
        self._consumer.on_assignment(self._assigned)
        await self._consumer.start()

    async def close(self) -> None:
        """End all turns, then leave the group. A plain function that is running ends by itself."""
        for queue in list(self._turns):
            self._end(queue)
        if self._ending:
            await asyncio.wait(self._ending)
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        await self._consumer.close()

    # Turns

    def _assigned(
        self, topic: str, everyones: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        for queue in [queue for queue in self._turns if queue.topic == topic]:
            if queue not in mine:
                self._end(queue)
        for queue in mine:
            if queue not in self._turns:
                task = asyncio.create_task(self._take_turns(queue), name=f"rocketq-turns-{queue}")
                self._turns[queue] = task

    def _end(self, queue: MessageQueue) -> None:
        task = self._turns.pop(queue)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _take_turns(self, queue: MessageQueue) -> None:
        function = self._callbacks[queue.topic]
        while True:
            turn = PullTurn(self._handed_out, self._delay_ms)
            delay_s = _ERROR_DELAY_S
            async with self._slots:
                try:
                    await self._call(function, queue, turn)
                    delay_s = turn.next_delay_ms / 1000
                except BaseException as error:
                    if comes_from_outside(error):
                        raise
                    logger.exception("the pull callback failed on %s", queue)
            await asyncio.sleep(delay_s)

    async def _call(self, function: PullCallback, queue: MessageQueue, turn: PullTurn) -> None:
        if inspect.iscoroutinefunction(function):
            await function(queue, turn)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, "rocketq-pull-schedule")
        answer = await asyncio.get_running_loop().run_in_executor(
            self._threads, function, queue, turn
        )
        if inspect.isawaitable(answer):
            await answer
