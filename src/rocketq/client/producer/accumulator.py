"""Collects single messages into batches while they wait a moment (RocketMQ's auto batch).

Messages of one topic that may travel together (same `wait_store_ok`, no delay, no
transaction, no queue of their own) are held back for `linger_ms`, or until they make
`linger_bytes`, and go out as one batch. Every caller still gets a result of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.outgoing import Outgoing, Preparation
from rocketq.client.producer.result import SendResult, split_result
from rocketq.message.message import Message

StartSend = Callable[[Outgoing], "asyncio.Future[SendResult]"]


class _Key(NamedTuple):
    topic: str
    wait_store_ok: bool


class _Collected:
    """A batch that is still growing."""

    __slots__ = ("first", "futures", "items", "msg_ids", "size", "timer")

    def __init__(self, first: Message) -> None:
        self.first = first
        self.items: list[bytearray] = []
        self.msg_ids: list[str] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer: asyncio.Handle | None = None


class Accumulator:
    """The batches of one producer that are being collected."""

    def __init__(
        self, config: ProducerConfig, preparation: Preparation, start_send: StartSend
    ) -> None:
        assert config.linger_ms is not None
        self._linger_s = config.linger_ms / 1000
        self._batch_bytes = min(config.linger_bytes, config.max_message_size)
        self._total_bytes = config.linger_total_bytes
        self._preparation = preparation
        self._start_send = start_send
        self._loop = asyncio.get_running_loop()
        self._collecting: dict[_Key, _Collected] = {}
        self._held_bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another message may be held back."""
        return self._held_bytes < self._total_bytes

    def add(self, message: Message) -> asyncio.Future[SendResult]:
        """Hold a message back until its batch goes out."""
        msg_id, item = self._preparation.batch_entry(message)
        self._preparation.wire_topic(message.topic)  # refused now rather than with its batch
        key = _Key(message.topic, message.wait_store_ok)
        collected = self._collecting.get(key)
        if collected is not None and collected.size + len(item) > self._batch_bytes:
            self._send(key)
            collected = None
        if collected is None:
            collected = self._collecting[key] = _Collected(message)
            collected.timer = (
                self._loop.call_later(self._linger_s, self._send, key)
                if self._linger_s
                else self._loop.call_soon(self._send, key)
            )
        future: asyncio.Future[SendResult] = self._loop.create_future()
        collected.items.append(item)
        collected.msg_ids.append(msg_id)
        collected.futures.append(future)
        collected.size += len(item)
        self._held_bytes += len(item)
        if collected.size >= self._batch_bytes:
            self._send(key)
        return future

    def flush(self) -> None:
        """Send everything that is held back now."""
        for key in list(self._collecting):
            self._send(key)

    def _send(self, key: _Key) -> None:
        collected = self._collecting.pop(key)
        assert collected.timer is not None
        collected.timer.cancel()
        outgoing = self._preparation.batch(collected.first, collected.items, collected.msg_ids)
        try:
            sending = self._start_send(outgoing)
        except Exception as error:
            self._failed(collected, error)
            return
        sending.add_done_callback(lambda done: self._answered(collected, done))

    def _answered(self, collected: _Collected, done: asyncio.Future[SendResult]) -> None:
        if done.cancelled():
            self._held_bytes -= collected.size
            for future in collected.futures:
                future.cancel()
            return
        error = done.exception()
        if error is not None:
            self._failed(collected, error)
            return
        self._held_bytes -= collected.size
        results = split_result(done.result(), collected.msg_ids)
        for future, result in zip(collected.futures, results, strict=True):
            if not future.done():
                future.set_result(result)

    def _failed(self, collected: _Collected, error: BaseException) -> None:
        self._held_bytes -= collected.size
        for future in collected.futures:
            if not future.done():
                future.set_exception(error)
