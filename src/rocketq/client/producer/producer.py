"""The producer: sends messages.

    async with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

One producer serves a whole application; it is made for many sends at a time. `send` waits
for the broker's receipt, `send_soon` returns a future at once, `send_oneway` asks for no
receipt, `send_batch` sends many messages in few requests, `request` waits for a reply of
whoever consumes the message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Self, Unpack

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import PublishInfo
from rocketq.client.errors import (
    ClientClosed,
    ClientNotStarted,
    InvalidMessage,
    InvalidSettings,
    InvalidState,
    ReplyTimeout,
    TooManyPending,
)
from rocketq.client.options import configured, explained_by
from rocketq.client.producer.accumulator import Accumulator
from rocketq.client.producer.options import ProducerConfig, ProducerOptions
from rocketq.client.producer.outgoing import Outgoing, Preparation, can_batch
from rocketq.client.producer.result import SendResult, split_result
from rocketq.client.producer.selectors import QueueChoice, QueueSelector, by_hash
from rocketq.client.producer.sender import Sender
from rocketq.client.trace.trace import PRODUCE, Trace, trace_group
from rocketq.common.loop.service import AsyncLife
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import (
    DEFAULT_PRODUCER_GROUP,
    unwrap_namespace,
    validate_group,
    wrap_namespace,
)
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.remoting.headers import CheckTransactionState

logger = logging.getLogger(__name__)


class Producer(AsyncLife):
    """Sends messages. Belongs to the event loop it was started on."""

    @explained_by(ProducerConfig)
    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        """Make a producer; nothing is sent before `start`.

        group: names the application; brokers ask any of its members about transactions.
        """
        validate_group(group)
        if group == DEFAULT_PRODUCER_GROUP:
            raise InvalidSettings(f"the group {group!r} is reserved: name your own")
        self.config = configured(ProducerConfig, options, by=type(self).__name__)
        self._group = wrap_namespace(self.config.namespace, group)
        self._instance: ClientInstance | None = None
        self._owns_instance = True
        self._sender: Sender
        self._preparation: Preparation
        self._accumulator: Accumulator | None = None
        self._trace: Trace | None = None
        self._closed = False

    @classmethod
    def inner(cls, instance: ClientInstance, group: str) -> Self:
        """A producer on somebody else's instance, for what clients send on their own behalf."""
        producer = cls(group, namesrv=instance.api.addresses)
        producer._group = group
        producer._owns_instance = False
        producer._attach(instance)
        return producer

    # Life

    @property
    def group(self) -> str:
        """The group as brokers know it, namespace included."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._started().client_id

    def announced_topics(self) -> Iterable[str]:
        """Whose brokers have to know of this producer before anything is sent to them: none."""
        return ()

    async def start(self) -> None:
        """Get ready to send. Connections are made when there is something to send."""
        if self._closed:
            raise ClientClosed(str(self))
        if self._instance is not None:
            raise InvalidState(f"{self} is already started")
        instance = await ClientInstance.acquire(self.config)
        try:
            instance.register_producer(self)
        except BaseException:
            await instance.release()
            raise
        self._attach(instance)
        if self.config.trace:
            tracer = Producer.inner(instance, trace_group(self._group, PRODUCE))
            self._trace = Trace(instance, tracer, topic=self.config.trace_topic)
            self._sender.add_hook(self._trace)

    def _attach(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._preparation = Preparation(self.config, instance.clock)
        self._sender = Sender(instance, self.config, self._group, self._preparation.ids)
        if self.config.linger_ms is not None:
            self._accumulator = Accumulator(
                self.config,
                self._preparation,
                lambda outgoing: self._sender.start(outgoing, None, None),
            )

    async def close(self) -> None:
        """Wait for what was accepted, say goodbye to the brokers. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._instance is None:
            return
        await self._finish_pending()
        if self._trace is not None:
            await self._trace.close()
        self._sender.close()
        if self._owns_instance:
            await self._instance.unregister_producer(self._group)
            await self._instance.release()

    async def flush(self) -> None:
        """Wait until every message accepted so far is sent or has failed."""
        self._started()
        await self._finish_pending()

    async def _finish_pending(self) -> None:
        if self._accumulator is not None:
            self._accumulator.flush()
        pending = list(self._sender.pending)
        if pending:
            # Every send ends by itself within its time; nothing is called off.
            await asyncio.wait(pending)

    def __str__(self) -> str:
        return f"producer {self._group!r}"

    # Sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send a message and wait for the broker's receipt.

        queue: exactly this one. selector: a function that chooses, given the queues, the
        message and `key`. Without either, a message with a sharding key goes to the queue
        of that key, others to the queues in turn. `key` alone means the queue of its hash.

        Raises `SendFailed` when every attempt failed, and what a broker refuses for good
        (`BrokerRejected`) at once. A result whose `status` is not SEND_OK was taken, but is
        less safe than the broker is configured to make it.
        """
        return await self.send_soon(
            message, queue=queue, selector=selector, key=key, timeout_s=timeout_s
        )

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
        timeout_s: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Send a message without waiting; the future gets what `send` returns or raises.

        With `max_pending_sends` unanswered it raises `TooManyPending`: await some first.
        """
        self._started()
        sender = self._sender
        if len(sender.pending) >= self.config.max_pending_sends:
            raise TooManyPending(self.config.max_pending_sends)
        accumulator = self._accumulator
        is_plain = queue is None and selector is None and key is None and timeout_s is None
        if is_plain and accumulator is None:
            try:
                future = sender.quick.send(message)
            except AttributeError:
                if isinstance(message, Message):
                    raise
                future = None  # told below
            if future is not None:
                return future
        if not isinstance(message, Message):
            raise _no_message(message)
        choice = self._choice(message, queue, selector, key)
        if (
            accumulator is not None
            and choice is None
            and accumulator.has_room
            and can_batch(message)
        ):
            return accumulator.add(message)
        return sender.start(self._preparation.single(message), choice, timeout_s)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
    ) -> None:
        """Send a message without a receipt: fast, and lost silently when something breaks."""
        self._started()
        if not isinstance(message, Message):
            raise _no_message(message)
        outgoing = self._preparation.single(message)
        await self._sender.attempts.send_oneway(
            outgoing, self._choice(message, queue, selector, key)
        )

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_s: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as their size allows.

        Larger batches are split (`batch_bytes`). The results come in the messages' order.
        When a part fails its error is raised, after all parts have ended.
        """
        self._started()
        choice = None if queue is None else _fixed(queue)
        batch = list(messages)
        for message in batch:
            if not isinstance(message, Message):
                raise _no_message(message)
        parts = self._preparation.batches(batch)
        if choice is None and len(parts) > 1:
            logger.debug("a batch is split into %d requests", len(parts))
        sends = [self._sender.start(part, choice, timeout_s) for part in parts]
        if sends:
            await asyncio.wait(sends)
        results: list[SendResult] = []
        for part, sent in zip(parts, sends, strict=True):
            results += split_result(sent.result(), part.msg_ids)
        return results

    async def request(
        self,
        message: Message,
        *,
        timeout_s: float | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: Any = None,
    ) -> MessageExt:
        """Send a message and wait for the reply of whoever consumes it (`reply_to`)."""
        instance = self._started()
        if not isinstance(message, Message):
            raise _no_message(message)
        budget_s = self.config.send_timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        correlation_id, reply = instance.replies.expect()
        properties = {
            **message.properties,
            PropertyName.CORRELATION_ID: correlation_id,
            PropertyName.REPLY_TO_CLIENT: instance.client_id,
            PropertyName.TTL: str(round(budget_s * 1000)),
        }
        request = Message.of(message.topic, message.body, properties, message.flag)
        outgoing = self._preparation.single(request)
        choice = self._choice(message, queue, selector, key)
        try:
            # The reply comes over the connection on which the broker knows this client.
            await self._introduce(outgoing.topic)
            await self._sender.start(outgoing, choice, budget_s)
            async with asyncio.timeout(max(began + budget_s - loop.time(), 0)):
                return await reply
        except TimeoutError:
            raise ReplyTimeout(message.topic, correlation_id, loop.time() - began) from None
        finally:
            instance.replies.forget(correlation_id)

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a timed message by the `recall_handle` of its receipt; its message id."""
        instance = self._started()
        wire_topic = self._preparation.wire_topic(topic)
        broker_name = recall_broker(handle)
        await instance.routes.publish_info(wire_topic)
        address = self._sender.attempts.address_of(broker_name)
        return await instance.api.recall(
            address, wire_topic, handle, group=self._group, broker_name=broker_name
        )

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic may go to."""
        instance = self._started()
        info = await instance.routes.publish_info(
            self._preparation.wire_topic(topic),
            template=self.config.template_topic,
            template_queues=self.config.template_queues,
        )
        return tuple(self._as_user_sees(info))

    def check_transaction(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        """A broker asks about a transaction: not of a plain producer."""
        logger.warning(
            "%s was asked about transaction %s, but has no listener: use TransactionProducer",
            self,
            header.transaction_id,
        )

    # Inside

    def _started(self) -> ClientInstance:
        if self._closed:
            raise ClientClosed(str(self))
        if self._instance is None:
            raise ClientNotStarted(str(self))
        return self._instance

    def _choice(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        key: Any,
    ) -> QueueChoice | None:
        if queue is not None:
            if selector is not None or key is not None:
                raise InvalidMessage("give a queue, or a selector and a key, not both")
            return _fixed(queue)
        if selector is None:
            if key is None:
                key = message.sharding_key
                if not key:
                    return None
            selector = by_hash
        return self._selected(selector, message, key)

    def _selected(self, selector: QueueSelector, message: Message, key: Any) -> QueueChoice:
        def choose(info: PublishInfo) -> MessageQueue:
            chosen = selector(self._as_user_sees(info), message, key)
            if not isinstance(chosen, MessageQueue):
                raise InvalidMessage(f"the selector returned {chosen!r}, which is no queue")
            return chosen._replace(topic=info.topic)

        return choose

    def _as_user_sees(self, info: PublishInfo) -> Sequence[MessageQueue]:
        namespace = self.config.namespace
        if not namespace:
            return info.queues
        topic = unwrap_namespace(namespace, info.topic)
        return [queue._replace(topic=topic) for queue in info.queues]

    async def _introduce(self, topic: str) -> None:
        """Make sure that the topic's brokers know this client before they have to find it."""
        instance = self._started()
        info = await instance.routes.publish_info(topic)
        addresses = {instance.routes.master(queue.broker_name) for queue in info.queues}
        if any(address and instance.broker_version(address) is None for address in addresses):
            await instance.heartbeat()


def _no_message(value: object) -> TypeError:
    return TypeError(
        f"{value!r:.60} is no Message: send one of its own, as in "
        'producer.send(Message("orders", b"..."))'
    )


def _fixed(queue: MessageQueue) -> QueueChoice:
    return lambda info: queue._replace(topic=info.topic)


def recall_broker(handle: str) -> str:
    """The broker's name in a recall handle: base64 of `v1 topic broker time id`."""
    import base64

    try:
        version, _, broker_name, _, _ = base64.urlsafe_b64decode(handle).decode().split(" ")
    except ValueError:
        raise InvalidMessage(f"{handle!r} is no recall handle") from None
    if version != "v1":
        raise InvalidMessage(f"a recall handle of version {version} is not understood")
    return broker_name


__all__ = ["Outgoing", "Producer"]
