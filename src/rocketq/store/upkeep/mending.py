"""Making queues again from the log while the store is open.

A queue whose files are damaged is found out when it is first used, or when somebody reads the
damaged part. All of its entries can be had from the log, but that may be long: it is read a
little at a time, each bit fetched from the disk by a thread first, so that nobody waits for it
but those who want this queue. Until it is whole again the queue takes no message, and its
readers are told that there is nothing new.

    <root>/queuesToMend.json     [["orders",0],["stock",-1]]; -1: all queues of the topic

The file is there while a queue is being made: a start that finds it makes these queues itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import orjson

from rocketq.common.files import write_atomically
from rocketq.common.loop.service import asked_to_stop
from rocketq.store.config import StoreConfig
from rocketq.store.dispatch import Dispatcher
from rocketq.store.durability.beginnings import Beginnings
from rocketq.store.durability.log_scan import LogReplay
from rocketq.store.durability.replay import NEVER, Replay
from rocketq.store.log.commit_log import CommitLog
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.queues.queue_tail import QueueTail

logger = logging.getLogger(__name__)

FILE_NAME: Final = "queuesToMend.json"
ALL_QUEUES: Final = -1
_AT_ONCE: Final = 1 << 18
_RETRY_S: Final = 1.0

QueueKey = tuple[str, int]


def read_notes(root: Path) -> list[QueueKey]:
    """The queues that were being made when the store was last open."""
    try:
        found = orjson.loads((root / FILE_NAME).read_bytes())
        return [(str(topic), int(queue_id)) for topic, queue_id in found]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        logger.warning("%s cannot be read: %s", FILE_NAME, error)
        return []


def write_notes(root: Path, queues: list[QueueKey]) -> None:
    path = root / FILE_NAME
    if queues:
        write_atomically(path, orjson.dumps(queues), keep_backup=False)
    else:
        path.unlink(missing_ok=True)


class Mending:
    """Owned by the store; runs on the event loop, waits for the disk in threads."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        beginnings: Beginnings,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._config = config
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._beginnings = beginnings
        self._flush = flush
        self._wanted: dict[QueueKey, ConsumeQueue | None] = {}
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def want(self, queue: ConsumeQueue) -> None:
        """Make a queue again as soon as possible."""
        logger.warning("%s is damaged: made again from the log", queue)
        self._add((queue.topic, queue.queue_id), queue)

    def want_topic(self, topic: str) -> None:
        """Make all queues of a topic again, which has none at the moment."""
        self._add((topic, ALL_QUEUES), None)

    def _add(self, key: QueueKey, queue: ConsumeQueue | None) -> None:
        self._wanted[key] = queue
        self._is_idle.clear()
        self._has_work.set()

    async def idle(self) -> None:
        """Wait until nothing is left to do."""
        await self._is_idle.wait()

    async def run(self, stop: asyncio.Event) -> None:
        if (self._config.root / FILE_NAME).exists():
            await self._note_done()  # the start has done what the last process could not
        while not stop.is_set():
            waiting = [asyncio.ensure_future(event.wait()) for event in (stop, self._has_work)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in waiting:
                future.cancel()
            try:
                while self._wanted and not stop.is_set():
                    await self._mend_next(stop)
            except OSError as error:
                logger.error("a queue cannot be made again at the moment: %s", error)
                await asked_to_stop(stop, _RETRY_S)
                continue
            if not self._wanted:
                self._has_work.clear()
                self._is_idle.set()

    async def _mend_next(self, stop: asyncio.Event) -> None:
        await asyncio.to_thread(write_notes, self._config.root, list(self._wanted))
        key, queue = next(iter(self._wanted.items()))
        if queue is not None and self._queues.mending.get(key) is not queue:
            pass  # deleted meanwhile
        elif queue is None:
            await self._replay(
                self._beginnings.get(key[0]), _of_topic(key[0], self._queues), stop.is_set
            )
        else:
            queue.begin_again()

            def is_over() -> bool:
                return stop.is_set() or self._queues.mending.get(key) is not queue

            await self._replay(0, _only(queue), is_over)
            if not stop.is_set() and self._queues.mending.get(key) is queue:
                self._queues.mended(queue)
                logger.info("%s is whole again", queue)
        if stop.is_set():
            return  # the next start does it
        del self._wanted[key]
        await self._note_done()

    async def _note_done(self) -> None:
        """What has been made is on the disk; only what is still to be done stays noted."""
        await self._flush()
        await asyncio.to_thread(write_notes, self._config.root, list(self._wanted))

    async def _replay(
        self,
        start: int,
        open_tail: Callable[[str, int], QueueTail | None],
        is_over: Callable[[], bool],
    ) -> None:
        """Read the log up to where everybody else is; there is no pause behind the last bit."""
        replay = Replay(
            Dispatcher(None, self._config.delay_times_ms()),
            open_tail,
            self._config.check_crc_on_recover,
            False,
            beginnings=self._beginnings.by_name,
        )
        position = max(start, self._log.min_offset)
        size = _AT_ONCE
        while position < self._dispatcher.position and not is_over():
            position = max(position, self._log.min_offset)
            end = self._dispatcher.position
            stop = min(position + size, end)
            await self._fetch(position, stop)
            if is_over():
                return  # deleted while the disk was waited for: its tail is nobody's
            part = LogReplay(self._log.segments, position, stop, replay, durable=NEVER)
            if not part.run():
                raise self._queues.failure or OSError("there is no room for an entry")
            if part.position < stop:
                # Damage that begins here and has no end yet.
                if stop == end:
                    return
                size *= 2
            else:
                size = _AT_ONCE
            position = part.position
            if position < self._dispatcher.position:
                await asyncio.sleep(0)

    async def _fetch(self, start: int, stop: int) -> None:
        """Have a part of the log in memory, so that reading it does not wait for the disk."""
        segment = self._log.segments.find(start)
        while segment is not None and segment.start < stop:
            first = max(start, segment.start)
            size = min(stop, segment.end) - first
            if not segment.is_resident(first, size):
                await asyncio.to_thread(segment.load, first, size)
            segment = self._log.segments.after(segment.start)


def _only(queue: ConsumeQueue) -> Callable[[str, int], QueueTail | None]:
    def open_tail(topic: str, queue_id: int) -> QueueTail | None:
        is_it = topic == queue.topic and queue_id == queue.queue_id
        return queue.tail if is_it else None

    return open_tail


def _of_topic(wanted: str, queues: ConsumeQueues) -> Callable[[str, int], QueueTail | None]:
    def open_tail(topic: str, queue_id: int) -> QueueTail | None:
        return queues.open_tail(topic, queue_id) if topic == wanted else None

    return open_tail
