"""A `logging.Handler` that sends log records to a topic.

    handler = RocketqHandler("logs", namesrv="127.0.0.1:9876", tag="web")
    logging.getLogger().addHandler(handler)

RocketMQ's log appenders for Python. Logging stays as fast and as safe as it was: records are
handed to a background sender and go out one-way; when they come faster than they can be sent,
or nobody can be reached, they are dropped, and counted in `dropped`. An error never reaches
the application: it goes to `logging`'s own error handling.

Handlers with the same NameServers and group share a producer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final, Unpack

from rocketq.client.blocking.loop_thread import LoopThread, loop_thread
from rocketq.client.config import ClientOptions
from rocketq.client.errors import ClientError
from rocketq.client.producer.producer import Producer
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message

DEFAULT_GROUP: Final = "rocketmq_appender"
APPENDER_TYPE: Final = "PYTHON_LOGGING_APPENDER"

_WAITING_MAX: Final = 10_000
_CLOSE_WITHIN_S: Final = 3.0


class RocketqHandler(logging.Handler):
    """Sends formatted records to a topic. Never blocks, never raises."""

    def __init__(
        self,
        topic: str,
        *,
        tag: str | None = None,
        group: str = DEFAULT_GROUP,
        level: int = logging.NOTSET,
        **client: Unpack[ClientOptions],
    ) -> None:
        super().__init__(level)
        self._topic = topic
        self._tag = tag
        self._sender = _Sender.shared(group, client)
        self._is_closed = False

    @property
    def dropped(self) -> int:
        """Records that were not sent, of all handlers that share the producer."""
        return self._sender.dropped

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record to the sender."""
        if record.name.startswith("rocketq."):
            return  # what sending itself has to say would be sent for ever
        try:
            message = Message(
                self._topic,
                self.format(record).encode() or b"\n",
                tags=self._tag,
                properties={
                    "APPENDER_TYPE": APPENDER_TYPE,
                    "LEVEL": record.levelname,
                    "LOGGER": record.name,
                },
            )
            self._sender.put(message, self, record)
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait, for a few seconds at most, until what was logged is on its way."""
        self._sender.flush()

    def close(self) -> None:
        """Send what is waiting; the last handler closes the producer."""
        if not self._is_closed:
            self._is_closed = True
            self._sender.release()
        super().close()


class _Sender:
    """The background sender that handlers share. Any thread may call it."""

    _all: ClassVar[dict[tuple[object, ...], _Sender]] = {}
    _lock: ClassVar = threading.Lock()

    def __init__(self, key: tuple[object, ...], group: str, client: ClientOptions) -> None:
        self._key = key
        self._group = group
        self._client = client
        self._users = 0
        self.dropped = 0
        self._waiting: deque[tuple[Message, logging.Handler, logging.LogRecord]] = deque()
        self._loop_woken = False
        self._thread: LoopThread = loop_thread()
        self._task: asyncio.Task[None] | None = None
        self._producer: Producer | None = None

    @classmethod
    def shared(cls, group: str, client: ClientOptions) -> _Sender:
        """The sender for these settings, counted."""
        namesrv = client.get("namesrv")
        servers = namesrv if isinstance(namesrv, str | None) else tuple(namesrv)
        key = (group, servers, client.get("namespace"), client.get("instance_name"))
        with cls._lock:
            sender = cls._all.get(key)
            if sender is None or not sender._thread.is_usable:
                sender = cls._all[key] = cls(key, group, client)
                sender._thread.closes_at_exit(sender)
            sender._users += 1
            return sender

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            self._all.pop(self._key, None)
        self.close()

    def put(self, message: Message, handler: logging.Handler, record: logging.LogRecord) -> None:
        """Have a message sent; drops it when too many wait."""
        if len(self._waiting) >= _WAITING_MAX or not self._thread.is_usable:
            self.dropped += 1
            return
        self._waiting.append((message, handler, record))
        if not self._loop_woken:
            self._loop_woken = True
            self._thread.loop.call_soon_threadsafe(self._wake)

    def flush(self) -> None:
        if self._waiting and self._can_wait:
            try:
                self._thread.submit(self._drained()).result(_CLOSE_WITHIN_S)
            except (TimeoutError, ClientError):
                return

    def close(self) -> None:
        """Send what is waiting, then close the producer."""
        if not self._can_wait:
            return
        self.flush()
        try:
            self._thread.submit(self._close()).result(_CLOSE_WITHIN_S)
        except (TimeoutError, ClientError):
            return
        self._thread.is_closed(self)

    @property
    def _can_wait(self) -> bool:
        return self._thread.is_usable and not self._thread.is_current

    # On the loop

    def _wake(self) -> None:
        self._loop_woken = False
        if self._task is None or self._task.done():
            self._task = self._thread.loop.create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        while self._waiting:
            message, handler, record = self._waiting.popleft()
            try:
                if self._producer is None:
                    # Without retries: a record is not worth holding up the next ones.
                    producer = Producer(self._group, **self._client, retries=0)
                    await producer.start()
                    self._producer = producer
                await self._producer.send_oneway(message)
            except (RocketqError, OSError, ValueError):
                self.dropped += 1
                handler.handleError(record)

    async def _drained(self) -> None:
        self._wake()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._producer is not None:
            await self._producer.close()


__all__: Sequence[str] = ["DEFAULT_GROUP", "RocketqHandler"]
