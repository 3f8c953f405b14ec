"""The blocking producers: the asyncio ones, for programs without an event loop.

    with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"..."))

Any number of threads may share one. The blocking consumers are in `consumers.py`.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Final, cast

from rocketq.client.blocking.face import Face, arguments_of, blocking
from rocketq.client.errors import ClientClosed
from rocketq.client.producer import producer as aio
from rocketq.client.producer import transaction as aio_transaction
from rocketq.client.producer.result import SendResult
from rocketq.client.producer.selectors import QueueSelector
from rocketq.client.producer.transaction import (
    C,
    L,
    LocalTransaction,
    TransactionSendResult,
    TransactionState,
)
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue

logger = logging.getLogger(__name__)

_SENDS_PER_TURN: Final = 512
"""Then answers are looked at again, however many messages still wait."""


class Producer(Face[aio.Producer]):
    """Sends messages. Any thread may use it."""

    @arguments_of(aio.Producer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._set_up(aio.Producer(*arguments, **options))

    def _set_up(self, twin: aio.Producer) -> None:
        Face.__init__(self, twin)
        self._outbox: deque[tuple[Message, dict[str, Any], Future[SendResult]]] = deque()
        self._loop_woken = False
        self._places = threading.BoundedSemaphore(twin.config.max_pending_sends)

    @property
    def group(self) -> str:
        """The group as brokers know it, namespace included."""
        return self._twin.group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._twin.client_id

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send a message and wait for the broker's receipt: see `rocketq.aio.Producer.send`."""
        # Not by `blocking`: without a task on the loop it costs half.
        future = self.send_soon(
            message, queue=queue, selector=selector, key=key, timeout_s=timeout_s
        )
        return future.result()

    send_oneway = blocking(aio.Producer.send_oneway)
    send_batch = blocking(aio.Producer.send_batch)
    request = blocking(aio.Producer.request)
    recall = blocking(aio.Producer.recall)
    publish_queues = blocking(aio.Producer.publish_queues)

    def flush(self) -> None:
        """Wait until every message accepted so far is sent or has failed."""
        self._on_loop(self._hand_over_all)
        self._thread.run(self._twin.flush(), what=self._name)

    def close(self) -> None:
        """Wait for what was accepted, then disconnect. May be called twice, and at any time."""
        if self._outbox and self._thread.is_usable:
            self._on_loop(self._hand_over_all)
        super().close()

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
        timeout_s: float | None = None,
    ) -> Future[SendResult]:
        """Send a message without waiting; the future gets what `send` returns or raises.

        With `max_pending_sends` unanswered it waits until some are answered.
        """
        self._thread.check(self._name)
        self._places.acquire()
        future: Future[SendResult] = Future()
        options = {"queue": queue, "selector": selector, "key": key, "timeout_s": timeout_s}
        self._outbox.append((message, options, future))
        if not self._loop_woken:
            # One thread wakes the loop, others ride along.
            self._loop_woken = True
            self._thread.loop.call_soon_threadsafe(self._empty_outbox)
        return future

    def _empty_outbox(self) -> None:
        # First: what is put in from here on is either seen below or wakes the loop again.
        self._loop_woken = False
        outbox = self._outbox
        for _ in range(_SENDS_PER_TURN):
            if not outbox:
                return
            self._send_one(*outbox.popleft())
        self._loop_woken = True
        self._thread.loop.call_soon(self._empty_outbox)

    def _hand_over_all(self) -> None:
        while self._outbox:
            self._send_one(*self._outbox.popleft())

    def _send_one(
        self, message: Message, options: dict[str, Any], future: Future[SendResult]
    ) -> None:
        def answered(done: Any) -> None:
            self._places.release()
            if done.cancelled():
                future.set_exception(ClientClosed(self._name))
            elif (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        if not future.set_running_or_notify_cancel():
            self._places.release()
            return
        try:
            self._twin.send_soon(message, **options).add_done_callback(answered)
        except BaseException as error:  # of a selector, whose caller waits for it
            self._places.release()
            future.set_exception(error)


class TransactionProducer(Producer):
    """A producer whose messages become visible when a local transaction commits.

    A plain local transaction runs in the thread that calls `send_in_transaction`, so that it
    may use that thread's database connection. Checks run in a thread of their own.
    """

    @arguments_of(aio_transaction.TransactionProducer)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._set_up(aio_transaction.TransactionProducer(*arguments, **options))

    @property
    def _transactional(self) -> aio_transaction.TransactionProducer:
        return cast(aio_transaction.TransactionProducer, self._twin)

    def on_execute(self, function: L) -> L:
        """Decorator: the local transaction, called with (message, argument)."""
        return self._transactional.on_execute(function)

    def on_check(self, function: C) -> C:
        """Decorator: looks up what became of a message's transaction."""
        return self._transactional.on_check(function)

    def send_in_transaction(
        self,
        message: Message,
        argument: Any = None,
        *,
        execute: LocalTransaction | None = None,
        timeout_s: float | None = None,
    ) -> TransactionSendResult:
        """Send a half message, run the local transaction here, settle the message."""
        twin = self._transactional
        local = twin.local_transaction(execute)
        if inspect.iscoroutinefunction(local):
            sending = twin.send_in_transaction(
                message, argument, execute=local, timeout_s=timeout_s
            )
            return self._thread.run(sending, what=self._name)
        half = self._thread.run(twin.send_half(message, timeout_s=timeout_s), what=self._name)
        state: TransactionState | None = TransactionState.ROLLBACK
        failure = None
        if half.is_safe:
            try:
                state = cast("TransactionState | None", local(message, argument))
            except Exception as error:
                logger.exception("a transaction's outcome is not known")
                state, failure = None, f"{type(error).__name__}: {error}"
        settling = twin.settle(half, state or TransactionState.UNKNOWN, failure=failure)
        return self._thread.run(settling, what=self._name)
