"""The producing side of a load: as fast as it goes, or at a pace.

Latency is the time from the moment a message should have been sent to its receipt. As fast as
it goes, that is the moment it is handed to the producer. At a pace, it is the moment the pace
prescribes: a sender that is late because the system was slow counts its lateness too, or the
slowest moments would be those with the fewest measurements.
"""

import asyncio
import itertools
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from rocketq.cli.bench.tally import Budget, Tally
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult, SendStatus
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message

_GROUP: Final = "rocketq-bench"
# How many messages are sent between two looks at the clock.
_AT_ONCE: Final = 64
_BATCH_BYTES: Final = 4 << 20

MakeBody = Callable[[int], bytes]
"""A body for a message that should be sent at this nanosecond of the monotonic clock."""


@asynccontextmanager
async def warm_producer(
    name_servers: str, topics: Iterable[str], in_flight: int
) -> AsyncIterator[Producer]:
    """A producer that has sent a first message to each topic: all connections are made."""
    producer = Producer(
        _GROUP,
        namesrv=name_servers,
        max_pending_sends=in_flight + 1,
        compress_above=None,  # the system is measured, not zlib
        batch_bytes=_BATCH_BYTES,
    )
    async with producer:
        for topic in topics:
            await producer.send(Message(topic, b"first"))
        yield producer


def same_body(size: int) -> MakeBody:
    """Random bytes, the same for all messages."""
    body = os.urandom(size)
    return lambda due_ns: body


class Sender:
    """Sends to topics in turn and keeps the tally."""

    def __init__(
        self,
        producer: Producer,
        topics: Sequence[str],
        make_body: MakeBody,
        tally: Tally,
    ) -> None:
        self._producer = producer
        self._topics = itertools.cycle(topics)
        self._make_body = make_body
        self._tally = tally
        self._pending = 0
        self._limit = 0
        self._has_room = asyncio.Event()

    # Without waiting for each receipt

    async def flood(self, budget: Budget, in_flight: int) -> None:
        """As many as there may be without an answer, all the time."""
        while (granted := budget.take(_AT_ONCE)) and not self._tally.is_hopeless:
            for _ in range(granted):
                if self._pending >= in_flight:
                    await self._room(in_flight // 2)
                self._send(time.monotonic_ns())
        await self._room(0)

    async def pace(self, budget: Budget, in_flight: int, rate: float) -> None:
        """This many per second, each at its moment. With too many unanswered it falls behind."""
        with PreciseTimer() as timer:
            began_ns = time.monotonic_ns()
            for number in itertools.count():
                if not budget.take() or self._tally.is_hopeless:
                    break
                due_ns = began_ns + int(number * 1e9 / rate)
                if time.monotonic_ns() < due_ns:
                    await timer.wait_until(due_ns)
                elif number % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # late: answers must be read nevertheless
                if self._pending >= in_flight:
                    await self._room(in_flight // 2)
                self._send(due_ns)
        await self._room(0)

    def _send(self, due_ns: int) -> None:
        body = self._make_body(due_ns)
        try:
            answer = self._producer.send_soon(Message(next(self._topics), body))
        except RocketqError as error:  # refused before it was sent
            self._tally.failed(type(error).__name__, str(error))
            return
        self._pending += 1
        answer.add_done_callback(partial(self._answered, due_ns, len(body)))

    def _answered(self, due_ns: int, size: int, answer: asyncio.Future[SendResult]) -> None:
        self._pending -= 1
        if self._pending <= self._limit:
            self._has_room.set()
        error = answer.exception()
        if error is not None:
            self._tally.failed(type(error).__name__, str(error))
        else:
            self._stored([answer.result()], due_ns, size)

    async def _room(self, most: int) -> None:
        """Wait until no more than so many are without an answer."""
        self._limit = most
        while self._pending > most:
            self._has_room.clear()
            await self._has_room.wait()

    # One after the other

    async def one_by_one(self, budget: Budget) -> None:
        """Wait for every receipt before the next is sent; one of several workers."""
        while budget.take() and not self._tally.is_hopeless:
            due_ns = time.monotonic_ns()
            body = self._make_body(due_ns)
            try:
                result = await self._producer.send(Message(next(self._topics), body))
            except RocketqError as error:
                self._tally.failed(type(error).__name__, str(error))
            else:
                self._stored([result], due_ns, len(body))

    async def batches(self, budget: Budget, size: int) -> None:
        """Batches, one after the other; one of several workers."""
        while (granted := budget.take(size)) and not self._tally.is_hopeless:
            due_ns = time.monotonic_ns()
            topic, body = next(self._topics), self._make_body(due_ns)
            try:
                results = await self._producer.send_batch(
                    [Message(topic, body) for _ in range(granted)]
                )
            except RocketqError as error:
                self._tally.failed(type(error).__name__, str(error), granted)
            else:
                self._stored(results, due_ns, len(body))

    async def oneway(self, budget: Budget) -> None:
        """Without receipts: what is counted was handed to the connection."""
        tally = self._tally
        while (granted := budget.take(_AT_ONCE)) and not tally.is_hopeless:
            for _ in range(granted):
                body = self._make_body(time.monotonic_ns())
                try:
                    await self._producer.send_oneway(Message(next(self._topics), body))
                except RocketqError as error:
                    tally.failed(type(error).__name__, str(error))
                else:
                    tally.messages += 1
                    tally.bytes += len(body)
            await asyncio.sleep(0)

    # The tally

    def _stored(self, results: list[SendResult], due_ns: int, size: int) -> None:
        tally, count = self._tally, len(results)
        tally.messages += count
        tally.bytes += size * count
        tally.latency.record((time.monotonic_ns() - due_ns) // 1000, count)
        for result in results:
            if result.status is not SendStatus.SEND_OK:
                tally.failed(result.status.name, f"stored less safely than asked for: {result}")


class PreciseTimer:
    """Wakes a coroutine at a moment, to a tenth of a millisecond.

    Timers of event loops are whole milliseconds: at 2,000 messages per second every one would be
    late by half of the interval. A thread that sleeps is not.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._is_due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)

    def __enter__(self) -> "PreciseTimer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wanted.put(None)
        self._thread.join()

    async def wait_until(self, due_ns: int) -> None:
        self._is_due.clear()
        self._wanted.put(due_ns)
        await self._is_due.wait()

    def _run(self) -> None:
        while (due_ns := self._wanted.get()) is not None:
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            self._loop.call_soon_threadsafe(self._is_due.set)
