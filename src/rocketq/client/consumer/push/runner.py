"""Where listeners run: async ones in a few tasks, plain ones in a few threads.

A runner asks its consumption for the next piece, calls the listener and hands the piece back.
At most `concurrency` calls are under way at once. Tasks and threads are made when there is work
and vanish when there is none, so a thousand idle consumers cost nothing here.

Between the event loop and the threads go two queues. A thread that finishes a piece takes the
next one by itself, and the loop is woken once for all results that have come in meanwhile, so
passing a message to a thread costs a fraction of what an executor's future would.
"""

import asyncio
import contextlib
import inspect
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from rocketq.client.callbacks import comes_from_outside
from rocketq.client.consumer.process_queue import Piece
from rocketq.client.consumer.push.listener import (
    ConsumeLater,
    ConsumeStatus,
    Delivery,
    Listener,
    apply_error,
    status_of,
)
from rocketq.common.clock import Clock
from rocketq.message.message import MessageExt

logger = logging.getLogger(__name__)

# An async listener that never waits for anything must not starve the loop (heartbeats, pulls).
_SLICE_S: Final = 0.01
_IDLE_THREAD_S: Final = 10.0


class Work(Protocol):
    """Where a runner's pieces come from and go to. Called on the event loop only."""

    @property
    def has_work(self) -> bool:
        """Whether it is worth asking for a piece."""
        ...

    def next_piece(self) -> Piece | None:
        """The next piece to consume, or None when there is none right now."""
        ...

    def finished(self, piece: Piece) -> None:
        """The listener has returned or failed: `piece.status` and `piece.error` are set."""
        ...


class ListenerRunner(Protocol):
    """Runs one consumer's listener."""

    concurrency: int
    """How many calls may be under way at once; may be changed at any time."""

    def wake(self) -> None:
        """There may be work."""
        ...

    async def call(self, piece: Piece) -> None:
        """Consume one piece out of turn, and wait for it."""
        ...

    async def close(self, timeout_s: float) -> bool:
        """Start nothing more, wait for calls under way; whether all ended in time."""
        ...


def runner_for(
    listener: Listener, work: Work, concurrency: int, *, clock: Clock, name: str
) -> ListenerRunner:
    """The kind of runner a listener needs."""
    kind = AsyncRunner if listener.is_async else ThreadRunner
    return kind(listener, work, concurrency, clock=clock, name=name)


class AsyncRunner:
    """Calls an async listener from up to `concurrency` tasks."""

    def __init__(
        self, listener: Listener, work: Work, concurrency: int, *, clock: Clock, name: str
    ) -> None:
        self.concurrency = concurrency
        self._listener = listener
        self._work = work
        self._clock = clock
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()
        self._slice_end = 0.0
        self._is_starting = False  # a task is made and has not run yet: one at a time is enough
        self._closing = False

    def wake(self) -> None:
        if (
            not self._is_starting
            and not self._closing
            and len(self._tasks) < self.concurrency
            and self._work.has_work
        ):
            self._is_starting = True
            self._tasks.add(asyncio.create_task(self._run(), name=self._name))

    async def _run(self) -> None:
        self._is_starting = False
        task = asyncio.current_task()
        assert task is not None
        try:
            while not self._closing and len(self._tasks) <= self.concurrency:
                piece = self._work.next_piece()
                if piece is None:
                    return
                # There may be more: another task looks, should this listener wait for something.
                self.wake()
                await self._consume(piece)
        finally:
            self._tasks.discard(task)

    async def _consume(self, piece: Piece) -> None:
        try:
            await self.call(piece)
        except BaseException:
            # Ended from outside. Unless that is the close, somebody else has to go on with it.
            if not self._closing:
                self._work.finished(piece)
            raise
        self._work.finished(piece)

    async def call(self, piece: Piece) -> None:
        piece.is_running = True
        piece.started_at = self._clock.monotonic()
        try:
            if self._listener.takes_list:
                await self._call_once(piece)
            else:
                await self._call_one_by_one(piece)
        finally:
            piece.is_running = False

    async def _call_once(self, piece: Piece) -> None:
        if piece.process_queue.retired:
            return
        piece.began_at = now = self._clock.monotonic()
        if now > self._slice_end:
            await self._give_way()
        messages = piece.messages
        try:
            if self._listener.takes_delivery:
                piece.delivery = Delivery(piece.queue)
                answer = await self._listener.function(messages, piece.delivery)
            else:
                answer = await self._listener.function(messages)
            _answered(piece, messages, answer)
        except BaseException as error:
            if comes_from_outside(error):
                raise
            _failed(piece, messages, error)
        piece.position = len(messages)

    async def _call_one_by_one(self, piece: Piece) -> None:
        # This is what happens to every message: each step that is saved here shows.
        function = self._listener.function
        takes_delivery = self._listener.takes_delivery
        monotonic = self._clock.monotonic
        process_queue = piece.process_queue
        while piece.position < len(piece.messages) and not process_queue.retired:
            piece.began_at = now = monotonic()
            if now > self._slice_end:
                await self._give_way()
            message = piece.messages[piece.position]
            try:
                if takes_delivery:
                    piece.delivery = Delivery(process_queue.queue)
                    answer = await function(message, piece.delivery)
                else:
                    answer = await function(message)
                if answer is None and not takes_delivery:
                    piece.status = ConsumeStatus.SUCCESS
                else:
                    _answered(piece, [message], answer)
            except BaseException as error:
                if comes_from_outside(error):
                    raise
                _failed(piece, [message], error)
            piece.position += 1

    async def _give_way(self) -> None:
        """Let others have the loop: listeners have had it for a while."""
        await asyncio.sleep(0)
        self._slice_end = self._clock.monotonic() + _SLICE_S

    async def close(self, timeout_s: float) -> bool:
        self._closing = True
        if not self._tasks:
            return True
        _, running = await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        return not running


class ThreadRunner:
    """Calls a plain listener from up to `concurrency` threads."""

    def __init__(
        self, listener: Listener, work: Work, concurrency: int, *, clock: Clock, name: str
    ) -> None:
        self.concurrency = concurrency
        self._listener = listener
        self._work = work
        self._clock = clock
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._results: deque[Piece] = deque()
        self._results_announced = False
        self._submitted = 0
        self._threads: set[threading.Thread] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._calls: dict[int, asyncio.Future[None]] = {}
        self._closing = False

    @property
    def thread_count(self) -> int:
        """Threads there are at the moment."""
        return len(self._threads)

    def wake(self) -> None:
        # Some pieces wait in line, so that a thread never has to wait for the loop.
        while not self._closing and self._submitted < 2 * self.concurrency:
            piece = self._work.next_piece()
            if piece is None:
                return
            self._submit(piece)

    def _submit(self, piece: Piece) -> None:
        self._submitted += 1
        self._idle.clear()
        self._jobs.put(piece)
        self._start_threads()

    def _start_threads(self) -> None:
        while len(self._threads) < min(self._submitted, self.concurrency):
            thread = threading.Thread(
                target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True
            )
            self._threads.add(thread)
            thread.start()

    async def call(self, piece: Piece) -> None:
        done = self._loop.create_future()
        self._calls[id(piece)] = done
        self._submit(piece)
        await done

    async def close(self, timeout_s: float) -> bool:
        self._closing = True
        with contextlib.suppress(queue.Empty):
            while True:  # what no thread has begun is left to the next owner of its queue
                left = self._jobs.get_nowait()
                self._submitted -= 1
                called = self._calls.pop(id(left), None)
                if called is not None:
                    called.cancel()
        if self._submitted == 0:
            self._idle.set()
        ended = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            ended = False
        for _ in self._threads:
            self._jobs.put(None)
        return ended

    # In the threads

    def _serve(self) -> None:
        while True:
            try:
                piece = self._jobs.get(timeout=_IDLE_THREAD_S)
            except queue.Empty:
                piece = None
            if piece is None:
                break
            self._consume(piece)
            self._results.append(piece)
            if not self._results_announced:
                self._results_announced = True
                self._tell_loop(self._collect)
        self._tell_loop(self._retire, threading.current_thread())

    def _consume(self, piece: Piece) -> None:
        piece.is_running = True
        piece.started_at = self._clock.monotonic()
        if self._listener.takes_list:
            self._call_once(piece)
        else:
            self._call_one_by_one(piece)
        piece.is_running = False

    def _call_once(self, piece: Piece) -> None:
        if piece.process_queue.retired:
            return
        piece.began_at = self._clock.monotonic()
        messages = piece.messages
        try:
            if self._listener.takes_delivery:
                piece.delivery = Delivery(piece.queue)
                answer = self._listener.function(messages, piece.delivery)
            else:
                answer = self._listener.function(messages)
            _answered(piece, messages, self._result_of(answer))
        except BaseException as error:  # whatever it is, the thread must live on
            _failed(piece, messages, error)
        piece.position = len(messages)

    def _call_one_by_one(self, piece: Piece) -> None:
        function = self._listener.function
        takes_delivery = self._listener.takes_delivery
        monotonic = self._clock.monotonic
        process_queue = piece.process_queue
        while piece.position < len(piece.messages) and not process_queue.retired:
            piece.began_at = monotonic()
            message = piece.messages[piece.position]
            try:
                if takes_delivery:
                    piece.delivery = Delivery(process_queue.queue)
                    answer = function(message, piece.delivery)
                else:
                    answer = function(message)
                if answer is None and not takes_delivery:
                    piece.status = ConsumeStatus.SUCCESS
                else:
                    _answered(piece, [message], self._result_of(answer))
            except BaseException as error:  # whatever it is, the thread must live on
                _failed(piece, [message], error)
            piece.position += 1

    def _result_of(self, answer: object) -> object:
        """The answer itself, or what comes of it: a plain function may hand out a coroutine."""
        if not inspect.isawaitable(answer):
            return answer
        result, error = asyncio.run_coroutine_threadsafe(_await(answer), self._loop).result()
        if error is not None:
            raise error
        return result

    def _tell_loop(self, callback: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    # On the loop

    def _collect(self) -> None:
        # Lowered first: a result that comes in from here on announces itself again.
        self._results_announced = False
        results = self._results
        while results:
            piece = results.popleft()
            self._submitted -= 1
            called = self._calls.pop(id(piece), None)
            if called is not None:
                if not called.done():
                    called.set_result(None)
                continue
            self._work.finished(piece)
        self.wake()
        if self._submitted == 0:
            self._idle.set()

    def _retire(self, thread: threading.Thread) -> None:
        self._threads.discard(thread)
        if self._jobs.qsize() and not self._closing:
            self._start_threads()


async def _await(awaitable: Awaitable[object]) -> tuple[object, BaseException | None]:
    """What comes of it; as a value, because some exceptions would end the loop itself."""
    try:
        return await awaitable, None
    except BaseException as error:
        if comes_from_outside(error):
            raise
        return None, error


def _answered(piece: Piece, messages: list[MessageExt], answer: object) -> None:
    piece.status = ConsumeStatus.SUCCESS if answer is None else status_of(answer)
    delivery = piece.delivery
    if piece.status in (ConsumeStatus.LATER, ConsumeStatus.ROLLBACK):
        level = 0 if delivery is None else delivery.delay_level
        piece.failures += [(message, level) for message in messages]
    elif delivery is not None and delivery.ack_index is not None:
        level = delivery.delay_level
        piece.failures += [(message, level) for message in messages[delivery.ack_index + 1 :]]


def _failed(piece: Piece, messages: list[MessageExt], error: BaseException) -> None:
    piece.status = ConsumeStatus.LATER
    piece.error = error
    delivery = piece.delivery
    if delivery is None:
        delivery = piece.delivery = Delivery(piece.process_queue.queue)
    apply_error(error, delivery)
    piece.failures += [(message, delivery.delay_level) for message in messages]
    described = _described(piece, messages)
    if isinstance(error, ConsumeLater):
        logger.info("the listener wants %s again later: %r", described, error)
    else:
        logger.warning(
            "the listener failed on %s; to come again later: %r", described, error, exc_info=error
        )


def _described(piece: Piece, messages: list[MessageExt]) -> str:
    first = messages[0]
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"message {first.msg_id} of {piece.queue} at offset {first.queue_offset}{more}"
