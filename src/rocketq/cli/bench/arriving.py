"""The consuming side of a load: a backlog, or messages as they come."""

import asyncio
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from rocketq.cli.bench.sending import MakeBody
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.client.consumer.lite.consumer import LitePullConsumer
from rocketq.client.consumer.push.consumer import PushConsumer
from rocketq.message.message import MessageExt

# After this long without a message those still missing do not come any more.
_STALLED_AFTER_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.1

# Enough ahead of a fast listener: as much as the settings of a consumer allow to a queue.
_AHEAD: Final = 10_000
_SPAN: Final = 20_000


# A backlog


class Backlog:
    """Consumes until so many have come, the time is up, or no more come."""

    def __init__(self, expected: int, budget: Budget, tally: Tally) -> None:
        self._expected = expected
        self._budget = budget
        self._tally = tally
        self._all_there = asyncio.Event()
        if expected == 0:
            self._all_there.set()

    def _take(self, found: list[MessageExt]) -> None:
        tally = self._tally
        tally.messages += len(found)
        tally.bytes += sum(len(message.body) for message in found)
        if tally.messages >= self._expected:
            tally.end()
            self._all_there.set()

    async def push(
        self, name_servers: str, topics: Sequence[str], group: str, batch: int, workers: int
    ) -> None:
        """A listener that gets lists of messages."""

        async def listener(found: list[MessageExt]) -> None:
            self._take(found)

        consumer = PushConsumer(
            group,
            namesrv=name_servers,
            topics=topics,
            listener=listener,
            batch_size=batch,
            concurrency=workers,
            consume_from="first",
            pull_batch_size=max(batch, 512),
            pull_threshold=_AHEAD,
            max_span=_SPAN,
        )
        async with consumer:
            await self._wait()

    async def pull(self, name_servers: str, topics: Sequence[str], group: str, batch: int) -> None:
        """A program that asks for messages."""
        consumer = LitePullConsumer(
            group,
            namesrv=name_servers,
            topics=topics,
            consume_from="first",
            pull_batch_size=batch,
            pull_threshold=_AHEAD,
            pull_threshold_for_all=5 * _AHEAD,
            max_span=_SPAN,
        )

        async def poll() -> None:
            while not self._all_there.is_set():
                self._take(await consumer.poll(timeout_s=1.0))

        async with consumer:
            polling = asyncio.create_task(poll())
            try:
                await self._wait(polling)
            finally:
                polling.cancel()

    async def _wait(self, *workers: asyncio.Task[None]) -> None:
        tally = self._tally
        self._budget.begin()
        seen, seen_at = -1, time.monotonic()
        while not self._all_there.is_set():
            if self._budget.seconds_left == 0:
                break
            if tally.messages != seen:
                seen, seen_at = tally.messages, time.monotonic()
            elif time.monotonic() - seen_at > _STALLED_AFTER_S:
                missing = self._expected - tally.messages
                tally.failed("missing", f"nothing came for {_STALLED_AFTER_S:g} s", missing)
                break
            for worker in workers:
                if worker.done():
                    worker.result()
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._all_there.wait()
            except TimeoutError:
                continue
        tally.end()


# As they come


class Arrivals:
    """Consumes what a run sends, and measures how long each was on its way.

    The first 16 bytes of a body are the number of the run and the moment, in nanoseconds of
    the monotonic clock, at which it should have been sent: what others send is not counted.
    """

    _HEAD: Final = struct.Struct(">8sq")
    SMALLEST_BODY: Final = _HEAD.size

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._run = os.urandom(8)

    def make_body(self, size: int) -> MakeBody:
        """Bodies for `Sender`."""
        pack, run = self._HEAD.pack, self._run
        filler = os.urandom(max(size - self._HEAD.size, 0))
        return lambda due_ns: pack(run, due_ns) + filler

    @asynccontextmanager
    async def consuming(
        self, name_servers: str, topics: Sequence[str], group: str, batch: int = 512
    ) -> AsyncIterator[None]:
        """Consume for the length of a block, as a member of a group."""

        async def listener(found: list[MessageExt]) -> None:
            self._take(found)

        consumer = PushConsumer(
            group,
            namesrv=name_servers,
            topics=topics,
            listener=listener,
            batch_size=batch,
            pull_batch_size=512,
            pull_threshold=_AHEAD,
            max_span=_SPAN,
        )
        async with consumer:
            yield

    def _take(self, found: list[MessageExt]) -> None:
        tally, unpack, run = self._tally, self._HEAD.unpack_from, self._run
        now_ns = time.monotonic_ns()
        for message in found:
            body = message.body
            if len(body) < self.SMALLEST_BODY:
                continue
            run_of_message, due_ns = unpack(body)
            if run_of_message == run:
                tally.messages += 1
                tally.bytes += len(body)
                tally.latency.record((now_ns - due_ns) // 1000)

    async def all_of(self, sent: Callable[[], int]) -> None:
        """Wait for what was sent; what does not come is a failure."""
        tally = self._tally
        seen, seen_at = -1, time.monotonic()
        while tally.messages < sent():
            if tally.messages != seen:
                seen, seen_at = tally.messages, time.monotonic()
            elif time.monotonic() - seen_at > _STALLED_AFTER_S:
                missing = sent() - tally.messages
                tally.failed(
                    "missing", f"sent, but did not come in {_STALLED_AFTER_S:g} s", missing
                )
                break
            await asyncio.sleep(_LOOK_EVERY_S / 10)
        tally.end()
